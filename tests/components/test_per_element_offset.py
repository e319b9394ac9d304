"""PerElementOffsetComponent."""

from __future__ import annotations

from pathlib import Path

import torch

from nnet3 import components
from nnet3.model.components.natural_gradient import OnlineNaturalGradient
from nnet3.model.components.per_element import PerElementOffsetComponent
from tests.components.component_text import check_config_error, from_text, to_text
from tests.components.contract import component_contract

TYPE = "PerElementOffsetComponent"
TEXT = f"<{TYPE}> <LearningRate> 0.5 <Offsets>  [ 1 2 ]\n<Dim> 6 <UseNaturalGradient> F </{TYPE}> "


def test_offsets_are_added_block_by_block() -> None:
    component = from_text(TEXT)
    assert component.propagate(torch.zeros(1, 6))[0].tolist() == [[1, 2, 1, 2, 1, 2]]
    assert to_text(component) == TEXT
    assert "offsets-min=1, offsets-max=2, block-dim=2, use-natural-gradient=false" in component.info()


def test_an_old_file_is_read() -> None:
    component = from_text(f"<{TYPE}> <LearningRate> 0.5 <Offsets> [ 1 2 ]\n<IsGradient> T </{TYPE}> ")
    assert isinstance(component, PerElementOffsetComponent)
    assert component.is_gradient
    assert component.input_dim == 2
    assert component.use_natural_gradient


def test_updates_are_plain_or_natural() -> None:
    torch.manual_seed(0)
    x, g = torch.randn(30, 24), torch.randn(30, 24)
    blocks = g.view(60, 12)
    for use in ("true", "false"):
        component = components.create(TYPE, f"dim=24 block-dim=12 learning-rate=0.1 use-natural-gradient={use}")
        component.backprop(x, x, g, None, component)
        directions, scale = OnlineNaturalGradient(20, 4).precondition(blocks)
        expected = 0.1 * scale * directions.sum(0) if use == "true" else 0.1 * blocks.sum(0)
        torch.testing.assert_close(component.parameters()["offsets"], expected.float(), rtol=1e-4, atol=1e-5)


def test_a_vector_file_is_repeated_in_all_blocks(tmp_path: Path) -> None:
    (tmp_path / "v").write_text(" [ 1 2 3 ]\n")
    component = components.create(TYPE, f"vector={tmp_path}/v")
    assert component.input_dim == 3
    component = components.create(TYPE, f"vector={tmp_path}/v dim=6")
    assert component.propagate(torch.zeros(1, 6))[0].tolist() == [[1, 2, 3, 1, 2, 3]]
    check_config_error(TYPE, f"vector={tmp_path}/v dim=4", "'dim' must be a multiple of the vector's 3 elements", "4")
    check_config_error(TYPE, f"vector={tmp_path}/v block-dim=3", "unknown key 'block-dim'", "block-dim")


TestPerElementOffset = component_contract(
    "PerElementOffsetComponent",
    good=[
        f"{dims} param-mean=0.5 param-stddev=1" for dims in ("dim=7", "dim=12 block-dim=4 use-natural-gradient=false")
    ],
    file=TEXT,
    bad_configs=[
        ("", "'dim=' is missing", ""),
        ("dim=6 block-dim=4", "'block-dim' must divide 'dim', but 6 is no multiple of 4", "4"),
        ("dim=6 block-dim=0", "'block-dim' must be >= 1", "0"),
        ("dim=6 rank=3", "unknown key 'rank'", "rank"),
    ],
    bad_files=[
        ("<Dim> 6", "<Dim> 5", "<Dim> must be a multiple of the 2 offsets, got 5"),
        ("[ 1 2 ]", "[ ]", "<Offsets> must have at least one element"),
        ("<UseNaturalGradient> F ", "", "expected <UseNaturalGradient>"),
    ],
)
