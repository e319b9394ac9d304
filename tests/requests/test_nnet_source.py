"""What lowering is told of components, and when a network's source is made anew."""

from __future__ import annotations

import numpy as np

from nnet3 import Nnet
from nnet3.components import Properties
from nnet3.model.requests.nnet_source import NnetSource, nnet_source

P = Properties
CONFIG = """
input-node name=input dim=2
component name=norm type=BatchNormComponent dim=2
component name=affine type=AffineComponent input-dim=4 output-dim=3
component name=relu type=RectifiedLinearComponent dim=3
component-node name=norm component=norm input=input
component-node name=affine component=affine input=Append(Offset(norm, -1), norm)
component-node name=relu component=relu input=affine
output-node name=output input=relu
"""


def test_the_source_lives_as_long_as_nothing_changes() -> None:
    nnet = Nnet.from_config(CONFIG)
    source = nnet_source(nnet)
    assert nnet_source(nnet) is source
    nnet.components["affine"].parameters()["linear_params"].zero_()
    nnet.set_test_mode(True)
    assert nnet_source(nnet) is source, "index rules are as they were"
    assert nnet_source(nnet.copy()) is not source
    nnet.components["relu"] = nnet.components["relu"].copy()
    second = nnet_source(nnet)
    assert second is not source
    nnet.apply_config("output-node name=output input=affine")
    assert nnet_source(nnet) is not second


def test_index_rules_that_change_make_a_new_source() -> None:
    nnet = Nnet.from_config(
        """
        input-node name=input dim=2
        component name=t type=TdnnComponent input-dim=2 output-dim=2 time-offsets=-1,0
        component-node name=t component=t input=input
        output-node name=output input=t
        """
    )
    source, component = nnet_source(nnet), nnet.components["t"]
    component.time_offsets = (0, 6)
    assert nnet_source(nnet) is not source


def test_test_mode_changes_what_a_component_promises() -> None:
    """The source is asked for kernels as they are now."""
    nnet = Nnet.from_config(CONFIG)
    source = NnetSource(nnet)
    number = nnet.node_number["norm"]
    training = source.kernel(number)
    nnet.set_test_mode(True)
    assert source.kernel(number) != training
    nnet.set_test_mode(False)
    assert source.kernel(number) == training


def test_the_period_at_which_something_is_computable() -> None:
    nnet = Nnet.from_config(
        """
        input-node name=input dim=1
        component name=extract type=StatisticsExtractionComponent input-dim=1 input-period=1 output-period=6
        component name=pool type=StatisticsPoolingComponent input-dim=3 input-period=6 left-context=6 right-context=0
        component-node name=extract component=extract input=input
        component-node name=pool component=pool input=extract
        output-node name=output input=Round(pool, 6)
        """
    )
    source, number = NnetSource(nnet), nnet.node_number["pool"]
    at = np.array([[0, 5, 0]], np.int32)
    assert source.hint(number, at) == "it is there for multiples of 6 only: ask for Round(pool, 6)"
    assert source.hint(number, at + np.array([[0, 1, 0]], np.int32)) == ""
    assert source.hint(nnet.node_number["output"], at) == "IfDefined or Failover lets it begin"
