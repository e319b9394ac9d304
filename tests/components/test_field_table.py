"""Tables of fields: keys, tokens, defaults, what may be missing, what is left out, sums that files hold as means."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor

from nnet3 import components
from nnet3.components import COMPONENT_TYPES, Component
from nnet3.errors import ComponentError
from nnet3.kaldi_io import Writer
from nnet3.model.components.component_types import register
from nnet3.model.components.field_table import (
    Field,
    Same,
    Summary,
    divisor_of,
    length_of,
    mean_stddev,
    obsolete,
    value_of,
)
from nnet3.model.components.value_kinds import (
    BOOLEAN,
    DOUBLE,
    FLAG,
    INTEGER,
    PROPORTION,
    RANK_OR_DEFAULT,
    REAL,
    SIZE,
    Vector,
)
from tests.components.component_text import check_round_trip, from_text, to_text
from tests.components.contract import component_contract


@pytest.fixture(autouse=True)
def own_type() -> Iterator[None]:
    """The type below, known to config lines and files during each test."""
    known = dict(COMPONENT_TYPES)
    register(SampleComponent)
    yield
    COMPONENT_TYPES.clear()
    COMPONENT_TYPES.update(known)


class SampleComponent(Component):
    """Something of everything."""

    type_name = "SampleComponent"
    fields = (
        Field("dim", SIZE, token="<Dim>", old_token="<OldDim>"),
        Field("block_dim", SIZE, default=Same("dim"), check=divisor_of("dim"), optional=True, omitted=Same("dim")),
        Field("share", PROPORTION, "proportion", "<Proportion>", default=0.5),
        Field("offset", REAL, default=0.0, token="", hidden=0.0),
        Field("rank", RANK_OR_DEFAULT),
        Field("sums", Vector(value_of("dim"), statistic=True), None, per="count"),
        Field("squares", Vector(length_of("sums"), statistic=True), None, "<Rms>", per="count", root=True),
        Field("count", DOUBLE, None),
        Field("extra", INTEGER, default=7, optional=True, omitted=7),
        Field("more", BOOLEAN, default=False, optional="extra", omitted=False),
        *obsolete(REAL, "<Forgotten>"),
        Field("special", FLAG, default=False, optional=True, omitted=False, hidden=False),
    )
    heading = ("dim",)
    shown = ("block_dim", "share", "offset", "special", Summary(mean_stddev, "sums"), lambda c: f", {c.extra}!")

    def __init__(self, dim: int, block_dim: int | None = None) -> None:
        super().__init__()
        self.input_dim = self.output_dim = dim
        self.block_dim = block_dim or dim
        self.rank, self.extra, self.more, self.special = 3, 7, False, False
        self.sums = self.squares = torch.zeros(dim, dtype=torch.float64)
        self.count = 0.0

    def forward(self, x: Tensor, y: Tensor, indexes: Any = None) -> None:
        y.copy_(x)

    def backward(self, *operands: Any) -> None:  # type: ignore[override]
        pass


def sample(config: str) -> SampleComponent:
    component = components.create("SampleComponent", config)
    assert isinstance(component, SampleComponent)
    return component


TEXT = (
    "<SampleComponent> <Dim> 4 <Proportion> 0.25 1.5 <Rank> 2 <Sums>  [ 1 2 3 4 ]\n<Rms>  [ 0 1 2 3 ]\n<Count> 10 "
    "</SampleComponent>"
)


def test_fields_that_are_not_given_have_defaults() -> None:
    component = sample("dim=4")
    assert (component.block_dim, component.share, component.offset, component.rank) == (4, 0.5, 0.0, 3)
    assert component.info() == "SampleComponent, dim=4, block-dim=4, proportion=0.5, sums-{mean,stddev}=0,0, 7!"
    check_round_trip(component)


def test_given_values_are_kept_shown_and_written() -> None:
    component = sample("dim=4 block-dim=2 proportion=0.75 offset=-1 rank=5 extra=1 more=true special=true")
    assert component.info().startswith(
        "SampleComponent, dim=4, block-dim=2, proportion=0.75, offset=-1, special=true, sums"
    )
    assert "<BlockDim> 2 <Proportion> 0.75 -1 <Rank> 5" in to_text(component)
    assert to_text(component).endswith("<Extra> 1 <More> T <Special> </SampleComponent> ")
    check_round_trip(component)


def test_sums_are_means_in_files() -> None:
    component = from_text(TEXT)
    assert component.sums.tolist() == [10, 20, 30, 40]
    assert component.squares.tolist() == [0, 10, 40, 90]
    assert to_text(component).split() == TEXT.split()


def test_old_tokens_are_read() -> None:
    old = TEXT.replace("<Dim>", "<OldDim>").replace("</Sample", "<Forgotten> 3 </Sample")
    assert to_text(from_text(old)).split() == TEXT.split()


def test_types_without_fields_say_so() -> None:
    class Bare(SampleComponent):
        type_name = "BareComponent"
        fields = ()

    with pytest.raises(ComponentError, match="BareComponent declares no fields"):
        Bare(3).write_body(Writer(True))


TestSample = component_contract(
    "SampleComponent",
    file=TEXT,
    bad_configs=[
        ("dim=4 block-dim=3", "'block-dim' must divide dim=4, got 3", "3"),
        ("dim=0", "'dim' must be >= 1, got 0", "0"),
        ("dim=4 proportion=2", "'proportion' must be within [0, 1], got 2", "2"),
        ("dim=4 rank=0", "'rank' must be positive, or negative for the default", "0"),
        ("block-dim=3", "'dim=' is missing", ""),
        ("dim=3 squares=3", "unknown key 'squares'", "squares"),
    ],
    bad_files=[
        ("<Dim>", "<Dmi>", "expected <Dim> or <OldDim>, got '<Dmi>'"),
        ("<Dim> 4", "<Dim> 4 <BlockDim> 3", "<BlockDim> must divide dim=4, got 3"),
        ("0.25", "1.25", "<Proportion> must be within [0, 1], got 1.25"),
        ("<Rank> 2", "<Rank> 0", "<Rank> must be >= 1, got 0"),
        ("[ 1 2", "[ 2", "<Sums> must have 4 elements, got 3"),
        ("<Count>", "<Extra>", "expected <Count>"),
        ("</Sample", "<Extra> 3 </Sample", "expected <More>"),
        ("</Sample", "<More> T </Sample", "expected </SampleComponent>"),
    ],
)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
def test_mean_and_standard_deviation_of_any_dtype(dtype: torch.dtype) -> None:
    assert mean_stddev("bias", torch.tensor([[0.5, 1.5]], dtype=dtype)) == ", bias-{mean,stddev}=1,0.5"
    assert mean_stddev("bias", torch.empty(0, dtype=dtype)) == ", bias-{mean,stddev}=0,0"
