"""What all components with parameters can do: freezing and unfreezing natural gradient, wherever it is."""

from __future__ import annotations

import pytest
import torch

from nnet3.components import Component, create

CONFIGS = {
    "NaturalGradientAffineComponent": "input-dim=6 output-dim=5",
    "LinearComponent": "input-dim=6 output-dim=5",
    "NaturalGradientPerElementScaleComponent": "dim=6",
    "LstmNonlinearityComponent": "cell-dim=6",
    "OutputGruNonlinearityComponent": "cell-dim=6",
    "CompositeComponent": (
        "num-components=2 component1='type=NaturalGradientAffineComponent input-dim=6 output-dim=5' "
        "component2='type=RectifiedLinearComponent dim=5'"
    ),
}
#: In Kaldi these have no switch: backstitch's first step moves their estimates as well.
NEVER_FROZEN = {
    "NaturalGradientRepeatedAffineComponent": "input-dim=6 output-dim=4 num-repeats=2",
    "PerElementOffsetComponent": "dim=6",
    "ScaleAndOffsetComponent": "dim=6",
    "ConstantFunctionComponent": "input-dim=6 output-dim=4",
}


def estimates_of(component: Component) -> list[torch.Tensor]:
    return [
        estimate.state().w.clone() for _, leaf in component.leaves() for estimate in leaf.natural_gradients.values()
    ]


def update(component: Component) -> None:
    x = torch.randn(40, component.input_dim)
    y, memo = component.propagate(x)
    component.backprop(x, y, torch.randn(y.shape), memo, to_update=component)


def component_of(type_name: str, config: str) -> Component:
    torch.manual_seed(0)
    component = create(type_name, config)
    component.set_learning_rate(0.01)
    update(component)
    return component


@pytest.mark.parametrize("type_name", CONFIGS | NEVER_FROZEN)
def test_frozen_estimates_stay_until_they_are_unfrozen(type_name: str) -> None:
    component = component_of(type_name, (CONFIGS | NEVER_FROZEN)[type_name])
    before = estimates_of(component)
    assert before
    component.freeze_natural_gradient(True)
    update(component)
    stays = [torch.equal(one, other) for one, other in zip(before, estimates_of(component), strict=True)]
    assert stays == [type_name in CONFIGS] * len(before)
    component.freeze_natural_gradient(False)
    update(component)
    assert not any(torch.equal(one, other) for one, other in zip(before, estimates_of(component), strict=True))
