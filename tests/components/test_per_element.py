"""PerElementScaleComponent and NaturalGradientPerElementScaleComponent."""

from __future__ import annotations

from pathlib import Path

import torch

from nnet3 import components
from nnet3.model.components.natural_gradient import OnlineNaturalGradient
from nnet3.model.components.per_element import NaturalGradientPerElementScaleComponent, PerElementScaleComponent
from tests.components.component_text import check_config_error, from_text, to_text
from tests.components.contract import component_contract

PLAIN, NATURAL = "PerElementScaleComponent", "NaturalGradientPerElementScaleComponent"
TEXT = (
    f"<{NATURAL}> <LearningRate> 0.5 <Params>  [ 1 2 ]\n<IsGradient> F <Rank> 8 <UpdatePeriod> 10 "
    f"<NumSamplesHistory> 2000 <Alpha> 4 </{NATURAL}> "
)


def test_a_plain_update_is_rate_times_gradient() -> None:
    component = components.create(PLAIN, "dim=2 learning-rate=0.1")
    x, g = torch.tensor([[1.0, 2.0], [3.0, 4.0]]), torch.tensor([[1.0, 1.0], [10.0, 0.0]])
    component.backprop(x, x, g, None, component)
    torch.testing.assert_close(component.parameters()["params"], torch.tensor([1 + 0.1 * 31, 1 + 0.1 * 2]))


def test_natural_gradient_update() -> None:
    torch.manual_seed(0)
    component = components.create(NATURAL, "dim=12 rank=5 alpha=2 learning-rate=0.1")
    updated = component.copy()
    x, g = torch.randn(30, 12), torch.randn(30, 12)
    component.backprop(x, x, g, None, updated)
    directions, scale = OnlineNaturalGradient(5, 10, alpha=2.0).precondition(x * g)
    expected = (0.1 * scale * directions.sum(0)).float()
    torch.testing.assert_close(updated.parameters()["params"] - 1, expected, rtol=1e-4, atol=1e-5)


def test_vector_files_give_the_scales(tmp_path: Path) -> None:
    (tmp_path / "v").write_text(" [ 1 2 3 ]\n")
    component = components.create(PLAIN, f"vector={tmp_path}/v dim=3")
    assert component.parameters()["params"].tolist() == [1, 2, 3]
    component = components.create(NATURAL, f"scales={tmp_path}/v rank=2")
    assert component.parameters()["params"].tolist() == [1, 2, 3]
    check_config_error(PLAIN, f"vector={tmp_path}/v dim=2", "'dim' is 2, but the vector has 3 elements", "2")
    check_config_error(NATURAL, f"scales={tmp_path}/v dim=3", "unknown key 'dim'", "dim")
    check_config_error(PLAIN, f"vector={tmp_path}/w", "cannot read vector=", f"{tmp_path}/w")


def test_files_are_rewritten_the_same_and_old_ones_read() -> None:
    assert to_text(from_text(TEXT)) == TEXT
    old = from_text(TEXT.replace("<Alpha> 4", "<Alpha> 4 <MaxChangePerMinibatch> 1").replace("> F", "> T"))
    assert isinstance(old, NaturalGradientPerElementScaleComponent)
    assert old.is_gradient
    assert to_text(old).count("<IsGradient> T") == 2, "in the common header and in the type's own place"
    plain = from_text(f"<{PLAIN}> <LearningRate> 0.5 <Params> [ 1 2 ]\n<IsGradient> T </{PLAIN}> ")
    assert isinstance(plain, PerElementScaleComponent)
    assert plain.is_gradient


GOOD = "dim=7 param-mean=0.5 param-stddev=1 max-change=0.1"
TestPerElementScale = component_contract(PLAIN, [GOOD])
TestNaturalGradientPerElementScale = component_contract(
    "NaturalGradientPerElementScaleComponent",
    good=[GOOD],
    file=TEXT,
    bad_configs=[
        ("", "'dim=' is missing", ""),
        ("dim=0", "'dim' must be >= 1", "0"),
        ("dim=2 param-stddev=-1", "'param-stddev' must be >= 0", "-1"),
        ("dim=2 param-mean=nan", "'param-mean' must be a finite number", "nan"),
        ("dim=2 rank=0", "'rank' must be >= 1", "0"),
        ("dim=2 update-period=0", "'update-period' must be >= 1", "0"),
    ],
    bad_files=[
        ("[ 1 2 ]", "[ ]", "<Params> must have at least one element"),
        ("<Rank> 8", "<Rank> 0", "<Rank> must be >= 1, got 0"),
        ("<Alpha> 4", "<Alpha> -1", "<Alpha> must be >= 0, got -1"),
        ("<UpdatePeriod>", "<Period>", "expected <UpdatePeriod>, got '<Period>'"),
    ],
)
