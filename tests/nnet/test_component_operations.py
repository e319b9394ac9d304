"""What is asked of, and done to, all components of a network at once."""

from __future__ import annotations

from nnet3.model.nnet import Nnet

CONFIG = """
input-node name=input dim=2
component name=a type=AffineComponent input-dim=2 output-dim=2
component-node name=a component=a input=input
component name=fixed type=ConstantFunctionComponent input-dim=2 output-dim=2 is-updatable=false
component-node name=fixed component=fixed input=a
component name=norm type=BatchNormComponent dim=2
component-node name=norm component=norm input=fixed
component name=b type=LinearComponent input-dim=2 output-dim=2 learning-rate-factor=0
component-node name=b component=b input=norm
output-node name=output input=b
"""


def test_components_are_frozen_whose_rate_is_zero() -> None:
    """The rate, not the factor: Kaldi's config lines give a rate that no factor has been applied to."""
    nnet = Nnet.from_config(CONFIG)
    assert nnet.frozen == set()
    nnet.set_learning_rate(0.1)
    assert nnet.frozen == {"b"}
    assert nnet.gradient_copy().frozen == set()
    nnet.set_learning_rate(0.0)
    assert nnet.frozen == {"a", "b"}


def test_only_components_with_parameters_get_a_learning_rate() -> None:
    """As in Kaldi, whose files of such a component keep the rate that it began with."""
    nnet = Nnet.from_config(CONFIG)
    nnet.set_learning_rate(0.25)
    assert nnet.components["fixed"].learning_rate == 0.001  # type: ignore[attr-defined]
