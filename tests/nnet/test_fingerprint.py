"""What compiled programs depend on: a digest for each aspect of a network."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch

from nnet3 import Nnet
from nnet3.components import Properties
from nnet3.model.components.tdnn import TdnnComponent
from nnet3.model.nnet.fingerprint import component_digest
from tests.call_count import count_calls_of

CONFIG = """
input-node name=input dim=2
component name=tdnn type=TdnnComponent input-dim=2 output-dim=3 time-offsets=-1,1
component name=norm type=BatchNormComponent dim=3
component-node name=tdnn component=tdnn input=input
component-node name=norm component=norm input=tdnn
output-node name=output input=norm
"""


class Frozen(TdnnComponent):
    properties = TdnnComponent.properties & ~Properties.UPDATABLE


def _changed(before: dict[str, str], nnet: Nnet) -> set[str]:
    after = nnet.fingerprint()
    return {aspect for aspect in before | after if before.get(aspect) != after.get(aspect)}


def test_parameters_and_rates_do_not_count() -> None:
    nnet = Nnet.from_config(CONFIG)
    before = nnet.fingerprint()
    assert set(before) == {"nodes", "component tdnn", "component norm"}
    nnet.scale_(3.0)
    nnet.set_learning_rate(0.5)
    norm, x = nnet.components["norm"], torch.randn(5, 3)
    norm.store_stats(x, *norm.propagate(x))
    assert _changed(before, nnet) == set()
    assert _changed(before, Nnet.from_config(CONFIG, seed=9)) == set()


def test_what_counts_is_named() -> None:
    before = Nnet.from_config(CONFIG).fingerprint()
    for old, new, aspects in (
        ("=-1,1", "=-1,2", {"component tdnn"}),
        ("input=tdnn", "input=Offset(tdnn, 1)", {"nodes"}),
        ("type=BatchNormComponent", "type=NoOpComponent", {"component norm"}),
        ("output-node name=output", "output-node name=result", {"nodes"}),
    ):
        assert _changed(before, Nnet.from_config(CONFIG.replace(old, new))) == aspects
    nnet = Nnet.from_config(CONFIG)
    nnet.set_test_mode(True)
    assert _changed(before, nnet) == {"component norm"}


def test_what_is_no_component_is_another_thing() -> None:
    nnet = Nnet.from_config(CONFIG)
    before = nnet.fingerprint()
    nnet.components["tdnn"] = "no component"  # type: ignore[assignment]
    assert _changed(before, nnet) == {"component tdnn"}


def test_statistics_do_not_count_whatever_type_they_have() -> None:
    nnet = Nnet.from_config(CONFIG.replace("type=BatchNormComponent", "type=ClipGradientComponent"))
    before = nnet.fingerprint()
    for name, component in nnet.components.items():
        for key in component.statistic_names:
            assert name == "norm"
            setattr(component, key, 7)
    assert _changed(before, nnet) == set()
    nnet.components["norm"].norm_based_clipping = True  # type: ignore[attr-defined]
    assert _changed(before, nnet) == {"component norm"}


@pytest.mark.parametrize(
    "change",
    [
        lambda tdnn: setattr(tdnn, "time_offsets", (-1, 2)),
        lambda tdnn: tdnn.__dict__.update(time_offsets=(-1, 2)),
        lambda tdnn: setattr(tdnn, "linear_params", torch.zeros(3, 6)),
        lambda tdnn: setattr(tdnn.linear_params, "data", torch.zeros(3, 6)),
        lambda tdnn: setattr(tdnn, "__class__", Frozen),
    ],
    ids=["a setting", "a setting unseen", "a parameter", "a parameter in place", "the class"],
)
def test_every_change_after_the_first_look_is_seen(change: Callable[[Any], None]) -> None:
    nnet = Nnet.from_config(CONFIG)
    before = nnet.fingerprint()
    change(nnet.components["tdnn"])
    assert _changed(before, nnet) == {"component tdnn"}
    assert _changed(nnet.fingerprint(), nnet.copy()) == set()
    assert _changed(nnet.fingerprint(), copy.copy(nnet)) == set()


def test_changes_of_parts_are_seen() -> None:
    nnet = Nnet.from_config(
        "input-node name=input dim=2\n"
        "component name=chain type=CompositeComponent num-components=2 component1='type=NoOpComponent dim=2'"
        " component2='type=SigmoidComponent dim=2'\n"
        "component-node name=chain component=chain input=input\n"
        "output-node name=output input=chain\n"
    )
    before = nnet.fingerprint()
    nnet.components["chain"].parts.reverse()  # type: ignore[attr-defined]
    assert _changed(before, nnet) == {"component chain"}


def test_a_component_that_stays_is_looked_at_once() -> None:
    nnet = Nnet.from_config(CONFIG)
    assert count_calls_of(component_digest, nnet.fingerprint) == 2
    nnet.scale_(3.0)
    nnet.set_learning_rate(0.5)
    assert count_calls_of(component_digest, nnet.fingerprint) == 0
