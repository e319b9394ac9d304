"""The geometry of convolutions: pieces that go through every tap once, forward and backward, and what cannot be."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch
from hypothesis import given, strategies as st

from nnet3.kaldi_io import Reader, Writer
from nnet3.model.components.convolution_model import ConvolutionModel, HeightPiece
from tests.components.component_text import config_line

CONFIG = "num-filters-in=2 num-filters-out=3 height-in=6 height-out=6 "


def _model(config: str) -> ConvolutionModel:
    return ConvolutionModel.from_config(config_line(CONFIG + config))


@st.composite
def models(draw: st.DrawFn) -> ConvolutionModel:
    offsets = draw(st.sets(st.tuples(st.integers(-2, 2), st.integers(-4, 4)), min_size=1, max_size=8))
    sizes = [draw(st.integers(1, 9)) for _ in range(2)]
    times = tuple(sorted({time for time, _ in offsets}))
    return ConvolutionModel(tuple(sorted(offsets)), times, 1, 1, *sizes, draw(st.integers(1, 3)))


def _through(pieces: Sequence[HeightPiece]) -> list[tuple[int, int, int]]:
    """Each (target height, tap, source height) that the pieces go through."""
    return sorted(
        (
            piece.target_start + i * piece.target_step,
            piece.first_tap + k,
            piece.source_start + i * piece.source_step + k,
        )
        for piece in pieces
        for i in range(piece.count)
        for k in range(piece.num_taps)
    )


@given(models())
def test_pieces_go_through_every_tap_within_the_input_once(model: ConvolutionModel) -> None:
    first = 0
    for time, taps in zip(model.time_offsets, model.taps, strict=True):
        heights = [height for t, height in model.offsets if t == time]
        wanted = [
            (out, tap, out * model.height_subsample_out + height)
            for out in range(model.height_out)
            for tap, height in enumerate(heights)
            if 0 <= out * model.height_subsample_out + height < model.height_in
        ]
        assert (taps.first_column, taps.num_taps) == (first, len(heights))
        assert _through(taps.forward) == wanted
        back = [(out, taps.backward_order[tap], source) for source, tap, out in _through(taps.backward)]
        assert sorted(back) == wanted
        first += len(heights)


def test_views_are_the_columns_of_a_piece() -> None:
    piece = HeightPiece(0, 2, target_start=1, target_step=1, source_start=0, source_step=2, count=2)
    matrix = torch.arange(24.0).view(2, 12)  # 6 heights of 2 filters
    assert piece.of_source(matrix, 2).tolist() == [[[0, 1, 2, 3], [12, 13, 14, 15]], [[4, 5, 6, 7], [16, 17, 18, 19]]]
    assert piece.of_target(matrix, 2).tolist() == [[[2, 3], [14, 15]], [[4, 5], [16, 17]]]


@pytest.mark.parametrize("binary", [False, True])
def test_what_is_written_is_read_back(binary: bool) -> None:
    model = _model("offsets=0,0;-1,0;1,1;0,-2 required-time-offsets=-1,0")
    assert model.offsets == ((-1, 0), (0, -2), (0, 0), (1, 1))
    assert (model.time_offsets, model.num_columns, model.input_dim, model.output_dim) == ((-1, 0, 1), 8, 12, 18)
    writer = Writer(binary)
    model.write(writer)
    assert ConvolutionModel.read(Reader(writer.getvalue(), "x", binary=binary)) == model


def test_info_names_sizes_and_offsets() -> None:
    assert _model("time-offsets=0,1 height-offsets=0").info() == (
        "num-filters-in=2, num-filters-out=3, height-in=6, height-out=6, height-subsample-out=1, "
        "{time,height}-offsets=[0,0 1,0], required-time-offsets=[0,1], input-dim=12, output-dim=18"
    )


@pytest.mark.parametrize(
    ("offsets", "required", "height_in", "fault"),
    [
        (((0, 0),), (0,), 6, None),
        (((0, 9),), (0,), 6, "no output height can use the offset 0,9"),
        (((0, 0),), (0,), 4, "output height 4 has no offset of a required time within the input"),
        (((0, 2), (1, 0)), (0,), 6, "output height 4 has no offset of a required time within the input"),
        (((0, 0),), (0,), 2**31, f"input dim {2**31} and output dim 6 must fit 32 bits"),
    ],
)
def test_impossible_models_say_their_fault(
    offsets: tuple[tuple[int, int], ...], required: tuple[int, ...], height_in: int, fault: str
) -> None:
    assert ConvolutionModel(offsets, required, 1, 1, height_in, 6, 1).fault() == fault
