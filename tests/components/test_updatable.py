"""What all components with parameters can do: freezing and unfreezing natural gradient, wherever it is."""

from __future__ import annotations

import pytest
import torch

from nnet3.components import create

CONFIGS = {
    "NaturalGradientAffineComponent": "input-dim=6 output-dim=5",
    "LinearComponent": "input-dim=6 output-dim=5",
    "NaturalGradientRepeatedAffineComponent": "input-dim=6 output-dim=4 num-repeats=2",
    "NaturalGradientPerElementScaleComponent": "dim=6",
    "PerElementOffsetComponent": "dim=6",
    "ScaleAndOffsetComponent": "dim=6",
    "CompositeComponent": (
        "num-components=2 component1='type=NaturalGradientAffineComponent input-dim=6 output-dim=5' "
        "component2='type=RectifiedLinearComponent dim=5'"
    ),
}


@pytest.mark.parametrize("type_name", CONFIGS)
def test_frozen_estimates_stay_until_they_are_unfrozen(type_name: str) -> None:
    torch.manual_seed(0)
    component = create(type_name, CONFIGS[type_name])
    component.set_learning_rate(0.01)

    def estimates() -> list[torch.Tensor]:
        return [
            estimate.state().w.clone() for _, leaf in component.leaves() for estimate in leaf.natural_gradients.values()
        ]

    def update() -> None:
        x = torch.randn(40, 6)
        y, memo = component.propagate(x)
        component.backprop(x, y, torch.randn(y.shape), memo, to_update=component)

    update()
    before = estimates()
    assert before
    component.freeze_natural_gradient(True)
    update()
    assert all(torch.equal(one, other) for one, other in zip(before, estimates(), strict=True))
    component.freeze_natural_gradient(False)
    update()
    assert not any(torch.equal(one, other) for one, other in zip(before, estimates(), strict=True))
