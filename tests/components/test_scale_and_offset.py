"""ScaleAndOffsetComponent."""

from __future__ import annotations

from functools import partial

import torch

from nnet3 import components
from nnet3.components import Component
from nnet3.model.components.natural_gradient import OnlineNaturalGradient
from nnet3.model.components.per_element import ScaleAndOffsetComponent
from tests.components.component_text import from_text, to_text
from tests.components.contract import component_contract

TYPE = "ScaleAndOffsetComponent"
TEXT = (
    f"<{TYPE}> <LearningRate> 0.5 <Dim> 4 <Scales>  [ 2 -3 ]\n<Offsets>  [ 10 20 ]\n"
    f"<UseNaturalGradient> F <Rank> 7 </{TYPE}> "
)


def perturbed(config: str) -> Component:
    component = components.create(TYPE, config)
    for tensor in component.parameters().values():
        tensor.add_(component.rng.normal_tensor(*tensor.shape), alpha=0.3)
    return component


def test_scales_and_offsets_act_block_by_block() -> None:
    component = from_text(TEXT)
    assert component.propagate(torch.tensor([[1.0, 1.0, 2.0, 2.0]]))[0].tolist() == [[12, 17, 14, 14]]
    assert to_text(component) == TEXT
    assert "rank=7, block-size=2" in component.info()


def test_scales_near_zero() -> None:
    """y uses +-1e-4 where a scale is nearer to zero; the input derivative uses the scale itself."""
    text = TEXT.replace("[ 2 -3 ]", "[ 0 -1e-7 ]").replace("[ 10 20 ]", "[ 0 0 ]")
    component = from_text(text)
    x = torch.tensor([[1.0, 2.0, 3.0, 4.0]])
    y, _ = component.propagate(x)
    torch.testing.assert_close(y, torch.tensor([[1e-4, -2e-4, 3e-4, -4e-4]]))
    g = torch.ones(1, 4)
    gradient = component.gradient_copy()
    torch.testing.assert_close(component.backprop(x, y, g, None, gradient), torch.tensor([[0.0, -1e-7, 0.0, -1e-7]]))
    torch.testing.assert_close(gradient.parameters()["scales"], torch.tensor([4.0, 6.0]))
    torch.testing.assert_close(gradient.parameters()["offsets"], torch.tensor([2.0, 2.0]))


def test_natural_gradient_update() -> None:
    torch.manual_seed(0)
    component = components.create(TYPE, "dim=24 block-dim=12 learning-rate=0.1")
    updated = component.copy()
    x, g = torch.randn(30, 24), torch.randn(30, 24)
    component.backprop(x, component.propagate(x)[0], g, None, updated)
    for name, gradients in (("scales", x * g), ("offsets", g)):
        directions, scale = OnlineNaturalGradient(20, 4).precondition(gradients.view(60, 12))
        change = updated.parameters()[name] - component.parameters()[name]
        torch.testing.assert_close(change, (0.1 * scale * directions.sum(0)).float(), rtol=1e-4, atol=1e-5)


def test_update_period_depends_on_origin() -> None:
    made, read = components.create(TYPE, "dim=4"), from_text(TEXT)
    assert isinstance(made, ScaleAndOffsetComponent)
    assert isinstance(read, ScaleAndOffsetComponent)
    assert made.scale_preconditioner.update_period == made.offset_preconditioner.update_period == 4
    assert read.scale_preconditioner.update_period == read.offset_preconditioner.update_period == 1


TestScaleAndOffset = component_contract(
    "ScaleAndOffsetComponent",
    good=[partial(perturbed, config) for config in ("dim=7", "dim=12 block-dim=4 use-natural-gradient=false rank=2")],
    file=TEXT,
    bad_configs=[
        ("", "'dim=' is missing", ""),
        ("dim=6 block-dim=4", "'block-dim' must divide 'dim', but 6 is no multiple of 4", "4"),
        ("dim=6 rank=0", "'rank' must be >= 1", "0"),
        ("dim=6 param-stddev=1", "unknown key 'param-stddev'", "param-stddev"),
    ],
    bad_files=[
        ("<Dim> 4", "<Dim> 5", "<Scales> has 2 elements, of which <Dim> 5 is no multiple"),
        ("[ 10 20 ]", "[ 10 ]", "<Offsets> must have 2 elements, got 1"),
        ("[ 2 -3 ]", "[ ]", "<Scales> must have at least one element"),
        ("<Rank> 7", "<Rank> 0", "<Rank> must be >= 1, got 0"),
    ],
)
