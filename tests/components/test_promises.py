"""What components say of themselves, so that nobody need ask for their type."""

from __future__ import annotations

import pytest
import torch

from nnet3 import components

AFFINE = {
    "AffineComponent": "input-dim=3 output-dim=2",
    "NaturalGradientAffineComponent": "input-dim=3 output-dim=2",
}


@pytest.mark.parametrize(("name", "config"), AFFINE.items())
def test_affine_types_become_fixed_ones(name: str, config: str) -> None:
    affine = components.create(name, config)
    assert affine.is_affine
    fixed = affine.as_fixed()
    assert fixed is not None
    assert fixed.type_name == "FixedAffineComponent"
    assert fixed.updatable is None
    x = torch.randn(4, 3)
    torch.testing.assert_close(fixed.propagate(x)[0], affine.propagate(x)[0])
    affine.scale_(0.0)  # tensors of its own
    assert fixed.propagate(x)[0].abs().sum() > 0


def test_repeated_parameters_become_separate_ones() -> None:
    repeated = components.create("RepeatedAffineComponent", "input-dim=6 output-dim=4 num-repeats=2")
    block = repeated.without_repeats()
    assert block is not None
    x = torch.randn(4, 6)
    torch.testing.assert_close(block.propagate(x)[0], repeated.propagate(x)[0])


def test_only_what_has_parameters_is_updatable() -> None:
    affine = components.create("AffineComponent", "input-dim=3 output-dim=2")
    assert affine.updatable is affine
    assert components.create("TanhComponent", "dim=3").updatable is None
    tanh = "num-components=1 component1='type=TanhComponent dim=3'"
    assert components.create("CompositeComponent", tanh).updatable is None
    assert components.create("ConstantComponent", "output-dim=3 is-updatable=false").updatable is None


@pytest.mark.parametrize(
    ("name", "config", "scale"),
    [
        ("DropoutComponent", "dim=3 dropout-proportion=0.25", 0.75),
        ("GeneralDropoutComponent", "dim=3 dropout-proportion=0.25", 1.0),
    ],
)
def test_dropout_says_what_it_multiplies_by_in_test_mode(name: str, config: str, scale: float) -> None:
    dropout = components.create(name, config)
    assert dropout.test_mode_scale is None
    dropout.set_test_mode(True)
    assert dropout.test_mode_scale == scale
    dropout.set_dropout_proportion(0.5)
    assert dropout.dropout_proportion == 0.5
    assert components.create("TanhComponent", "dim=3").dropout_proportion is None


def test_batchnorm_has_running_statistics() -> None:
    having = [name for name, cls in components.COMPONENT_TYPES.items() if cls.has_running_statistics]
    assert having == ["BatchNormComponent"]
