"""Exported programs are proved: over a finite field their graphs compute what the programs compute."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import nnet3
from nnet3.engine.ir.commands import Repeat
from nnet3.export.blocks import Blocks, Rectangle
from nnet3.export.family_program import FamilyProgram
from nnet3.export.graph import GraphBuilder
from nnet3.export.program import EXPORTED, FixedProgram
from nnet3.model.nnet import Nnet
from nnet3.model.requests import compile_family
from tests.export.field_graph import different_outputs
from tests.families.networks import BLSTM, POOLING, TDNN, request_for

SCALED = """
    input-node name=input dim=3
    component name=a type=AffineComponent input-dim=6 output-dim=4
    component name=b type=AffineComponent input-dim=4 output-dim=4
    component-node name=a component=a input=Append(Scale(0.5, Offset(input, -1)), Sum(input, Offset(input, 2)))
    component-node name=b component=b input=a
    output-node name=output input=Sum(Offset(b, 1), Scale(-0.25, a))
"""
FAST_LSTM = """
    input dim=6 name=input
    relu-layer name=first dim=10
    fast-lstmp-layer name=loop cell-dim=12 recurrent-projection-dim=6 non-recurrent-projection-dim=6 delay=-1
    output-layer name=output dim=5
"""
LSTMS = """
    input dim=6 name=input
    lstm-layer name=one cell-dim=10 delay=-2
    lstmp-layer name=two cell-dim=8 recurrent-projection-dim=4 non-recurrent-projection-dim=4 delay=3
    output-layer name=output dim=5
"""
GRUS = """
    input dim=6 name=input
    gru-layer name=one cell-dim=10
    fast-opgru-layer name=two cell-dim=12 recurrent-projection-dim=8 non-recurrent-projection-dim=4
    output-layer name=output dim=5
"""
CONFIGS = {"scaled": SCALED, "tdnn": TDNN, "blstm": BLSTM, "pooling": POOLING}
LAYERS = {"fast lstm": FAST_LSTM, "lstms": LSTMS, "grus": GRUS}
RECURRENT = {"blstm", *LAYERS}


def network(name: str) -> Nnet:
    made = Nnet.from_config(CONFIGS[name], seed=1) if name in CONFIGS else Nnet.from_xconfig(LAYERS[name], seed=1)
    made.set_test_mode()
    return made


def fixed(name: str) -> list[str]:
    """The outputs that the graph for twelve frames computes in another way."""
    nnet = network(name)
    computation = nnet3.compile(nnet, request_for(nnet, 12), EXPORTED)
    return different_outputs(computation, FixedProgram(computation), nnet.components)


def of_all_lengths(name: str, periods: int) -> list[str]:
    """Those of the graph for all lengths, in which a recurrence is a loop, for so many periods more than the fewest."""
    nnet = network(name)
    compiled = compile_family(nnet, request_for(nnet, 110), EXPORTED)
    computation = compiled.family.at(periods, compiled.precompute)
    assert any(isinstance(each, Repeat) for each in computation.commands) == (name in RECURRENT)
    return different_outputs(computation, FamilyProgram(compiled.family, compiled.precompute), nnet.components, periods)


@pytest.mark.parametrize("name", [*CONFIGS, *LAYERS])
def test_fixed_lengths(name: str) -> None:
    assert fixed(name) == []


@pytest.mark.parametrize("name", [*CONFIGS, "fast lstm"])
@pytest.mark.parametrize("periods", [0, 3])
def test_all_lengths(name: str, periods: int) -> None:
    assert of_all_lengths(name, periods) == []


# ---- planted mistakes ----


def lose_second_writes(write: Callable[..., None]) -> Callable[..., None]:
    def written(self: Blocks, matrix: int, place: Any, value: Any) -> None:
        if self.unwritten(matrix, place):
            write(self, matrix, place, value)

    return written


def take_the_row_before(rows_of: Callable[..., Any]) -> Callable[..., Any]:
    return lambda self, value, first, *rest: rows_of(self, value, first - (first != 0), *rest)


def begin_with_zeros(graph: GraphBuilder, before: Blocks, matrix: int, place: Rectangle) -> Any:
    return graph.whole(graph.filled(0.0, place.rows, place.right - place.left))


def test_rows_one_too_early_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(GraphBuilder, "rows_of", take_the_row_before(GraphBuilder.rows_of))
    assert fixed("tdnn") == ["output"]


def test_a_scale_that_is_left_out_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(GraphBuilder, "scaled", lambda self, value, factor: value)
    assert fixed("scaled") == ["output"]


def test_a_sum_of_which_one_term_is_lost_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Blocks, "write", lose_second_writes(Blocks.write))
    assert fixed("scaled") == ["output"]


def test_a_loop_that_begins_with_zeros_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nnet3.export.loops._start", begin_with_zeros)
    assert of_all_lengths("blstm", 1) == ["output"]
