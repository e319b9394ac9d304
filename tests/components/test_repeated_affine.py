"""RepeatedAffineComponent and NaturalGradientRepeatedAffineComponent."""

from __future__ import annotations

import pytest
import torch

from nnet3 import components
from nnet3.model.components.block_affine import NaturalGradientRepeatedAffineComponent, RepeatedAffineComponent
from nnet3.model.components.natural_gradient import OnlineNaturalGradient
from tests.components.component_text import from_text
from tests.components.contract import component_contract

TYPES = ["RepeatedAffineComponent", "NaturalGradientRepeatedAffineComponent"]
TEXT = (
    "<RepeatedAffineComponent> <LearningRate> 0.5 <NumRepeats> 2 <LinearParams> [\n 1 2 ]\n<BiasParams> [ 10 ]\n"
    "<IsGradient> T </RepeatedAffineComponent> "
)


@pytest.mark.parametrize("type_name", TYPES)
def test_applies_one_matrix_to_each_block(type_name: str) -> None:
    torch.manual_seed(0)
    component = components.create(type_name, "input-dim=12 output-dim=6 num-repeats=3 bias-mean=1")
    assert isinstance(component, RepeatedAffineComponent)
    whole = torch.block_diag(*[component.linear_params] * 3)
    x = torch.randn(5, 12)
    torch.testing.assert_close(component.propagate(x)[0], x @ whole.t() + component.bias_params.repeat(3))


def test_natural_gradient_is_on_rows_of_the_gradient() -> None:
    torch.manual_seed(0)
    component = components.create(TYPES[1], "input-dim=24 output-dim=15 num-repeats=3 learning-rate=0.1")
    assert isinstance(component, NaturalGradientRepeatedAffineComponent)
    assert component.preconditioner.rank == 4
    updated, gradient = component.copy(), component.gradient_copy()
    x, g = torch.randn(6, 24), torch.randn(6, 15)
    for to_update in (updated, gradient):
        component.backprop(x, g, g, None, to_update)
    whole = torch.cat([gradient.linear_params, gradient.bias_params[:, None]], dim=1)
    expected, scale = OnlineNaturalGradient(4, 4).precondition(whole)
    change = torch.cat(
        [updated.linear_params - component.linear_params, (updated.bias_params - component.bias_params)[:, None]], dim=1
    )
    torch.testing.assert_close(change, (0.1 * scale * expected).float(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("dim", "rank"), [(1, 1), (3, 1), (10, 5), (200, 40)])
def test_the_rank_is_half_the_input_and_at_most_40(dim: int, rank: int) -> None:
    component = components.create(TYPES[1], f"input-dim={dim} output-dim=2 num-repeats=1")
    assert isinstance(component, NaturalGradientRepeatedAffineComponent)
    assert component.preconditioner.rank == rank


def test_an_old_file_is_read() -> None:
    component = from_text(TEXT)
    assert isinstance(component, RepeatedAffineComponent)
    assert component.is_gradient
    assert component.propagate(torch.tensor([[1.0, 2.0, 3.0, 4.0]]))[0].tolist() == [[15, 21]]


GOOD = [
    f"{sizes} bias-stddev=1 l2-regularize=0.01"
    for sizes in ("input-dim=12 output-dim=6 num-repeats=3", "input-dim=4 output-dim=3 num-repeats=1")
]
BAD_CONFIGS = [
    ("input-dim=4 output-dim=4", "'num-repeats=' is missing", ""),
    ("input-dim=5 output-dim=4 num-repeats=2", "must divide 'input-dim', but 5 is no multiple of 2", "2"),
    ("input-dim=4 output-dim=4 num-repeats=2 rank=3", "unknown key 'rank'", "rank"),
    ("input-dim=4 output-dim=4 num-repeats=2 bias-stddev=-1", "'bias-stddev' must be >= 0", "-1"),
]
TestNaturalGradientRepeatedAffine = component_contract(TYPES[1], GOOD, BAD_CONFIGS)
TestRepeatedAffine = component_contract(
    "RepeatedAffineComponent",
    good=GOOD,
    file=TEXT,
    bad_configs=BAD_CONFIGS,
    bad_files=[
        ("<NumRepeats> 2", "<NumRepeats> -1", "<NumRepeats> must be >= 1, got -1"),
        (
            "<NumRepeats> 2",
            "<NumRepeats> 2000000000",
            "<LinearParams> of size 1 x 2 is too large for 2000000000 repeats",
        ),
        ("[ 10 ]", "[ 10 11 ]", "<BiasParams> must have 1 elements, got 2"),
        (
            "</RepeatedAffineComponent>",
            "</NaturalGradientRepeatedAffineComponent>",
            "expected </RepeatedAffineComponent>",
        ),
    ],
)
