"""Pictures of networks unrolled in time."""

from __future__ import annotations

import pytest

from nnet3.errors import DrawingError
from nnet3.model.nnet import Nnet
from nnet3.model.nnet.picture import network_graph
from nnet3.model.nnet.unrolled import Frames, unrolled_graph
from tests.nnet.drawn_networks import RNN, TDNN


def test_unrolled_in_time() -> None:
    graph = unrolled_graph(Nnet.from_config(RNN), Frames(0, 2, 0, 9))
    places = {box.id: f"{box.lines[0]} {box.lines[1].removeprefix('t = ')}" for box in graph.nodes}
    names = [f"input {t}" for t in range(4)] + [f"sum + h {t}" for t in range(4)] + [f"output {t}" for t in range(3)]
    assert list(places.values()) == names
    assert {(places[arc.a], places[arc.b]) for arc in graph.arcs if arc.is_delay} == {
        (f"sum + h {t}", f"sum + h {t + 1}") for t in range(3)
    }
    assert {(places[arc.a], places[arc.b]) for arc in graph.arcs if not arc.is_delay} == {
        *((f"input {t}", f"sum + h {t}") for t in range(4)),
        *((f"sum + h {t + 1}", f"output {t}") for t in range(3)),
    }
    assert graph.is_grid
    assert {box.lines[0]: box.rank for box in graph.nodes} == {"input": 0, "sum + h": 1, "output": 2}


def test_values_of_one_time_and_row_lie_side_by_side() -> None:
    config = """
        input-node name=input dim=3
        component name=k type=NoOpComponent dim=3
        component-node name=a component=k input=input
        component-node name=b component=k input=Offset(input, 1)
        component-node name=c component=k input=Offset(input, 2)
        output-node name=output input=Sum(a, b, c)
    """
    graph = unrolled_graph(Nnet.from_config(config), Frames(0, 1, 0, 9))
    columns: dict[str, list[float | None]] = {}
    for box in graph.nodes:
        columns.setdefault(box.lines[0], []).append(box.column)
    assert columns == {
        "input": [1.0, 4.0, 7.0, 10.0],  # a column of its own for each time, three boxes wide
        "a": [0.0, 3.0],
        "b": [1.0, 4.0],
        "c": [2.0, 5.0],
        "output": [1.0, 4.0],
    }


def test_only_what_is_needed_is_drawn() -> None:
    nnet = Nnet.from_config(TDNN)
    graph = unrolled_graph(nnet, Frames(0, 2, -5, 9))
    boxes = {box.lines for box in graph.nodes}
    assert ("ivector", "t = 0") in boxes
    assert {t for name, t in boxes if name == "tdnn2.noop"} == {"t = 0"}
    assert {t for name, t in boxes if name == "tdnn2.linear"} == {"t = 0", "t = 3"}
    assert {t for name, t in boxes if name == "tdnn1"} == {"t = -1", "t = 0", "t = 2", "t = 3"}
    assert {t for name, t in boxes if name == "input"} == {f"t = {t}" for t in (-2, -1, 1, 2, 4, 5)}


def test_too_large_or_impossible() -> None:
    nnet = Nnet.from_config(RNN)
    with pytest.raises(DrawingError, match=r"no output can be computed at t = 0 to 1 from input at 5 to 6"):
        unrolled_graph(nnet, Frames(0, 1, 5, 6))
    with pytest.raises(DrawingError, match="would not be readable: ask for fewer"):
        unrolled_graph(nnet, Frames(0, 2000, 0, 2001))
    with pytest.raises(DrawingError, match="a picture of 100003 frames"):
        unrolled_graph(nnet, Frames(0, 100_000, 0, 5))
    many = "".join(f"output-node name=n{k} input=Offset(input, {k})\n" for k in range(3001))
    with pytest.raises(DrawingError, match="a picture of 3002 boxes"):
        network_graph(Nnet.from_config(f"input-node name=input dim=1\n{many}").parts)
