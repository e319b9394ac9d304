"""The graph of a source made by hand, cindex by cindex."""

from __future__ import annotations

import numpy as np
import pytest

from nnet3.base.index import NO_TIME
from nnet3.engine.lowering.build_graph import build_graph, computable_outputs
from nnet3.engine.lowering.graph import ComputationGraph
from nnet3.engine.lowering.source import LoweringRequest, RequestedRows, Use
from nnet3.errors import NotComputableError, RequestError
from tests.toy_source import ToySource, table

NOTHING = np.zeros((0, 3), np.int32)


def request(
    source: ToySource,
    given: dict[str, np.ndarray],
    wanted: dict[str, np.ndarray],
    samples: np.ndarray | None = None,
) -> LoweringRequest:
    return LoweringRequest(
        [RequestedRows(source.number(name), name, rows) for name, rows in given.items()],
        [RequestedRows(source.number(name), name, rows) for name, rows in wanted.items()],
        samples=samples,
    )


def uses(graph: ComputationGraph, node: int) -> dict[tuple[int, ...], list[tuple[str, int, int] | None]]:
    """For each index of a node what its slots refer to: name, n and t."""
    first = int(graph.first[node])
    return {
        tuple(graph.indexes[first + row].tolist()): [
            None if i < 0 else (graph.node_names[graph.node[i]], int(graph.indexes[i, 0]), int(graph.indexes[i, 1]))
            for i in ids
        ]
        for row, ids in enumerate(graph.slots[node].tolist())
    }


def recurrent() -> ToySource:
    """h(t) = f(W, x(t), delay), delay(t) = h(t - 2), or 0.5 where there is none; y = half of h; J = sum of y."""
    source = ToySource()
    source.provided("x", 4)
    source.parameter("W", 6, 4)
    source.gathered("delay", 6, ("h", -2), optional=True)
    source.kernel("h", 6, ("W", Use.WHOLE), ("x", Use.ROW), ("delay", Use.ROW))
    source.view("y", "h", 3, 3)
    source.gathered("all y", 3, ("y", 0))
    source.kernel("J", 1, ("all y", Use.ALL_SAMPLES), ("W", Use.WHOLE), num_rows=1)
    return source


def test_values_without_samples_a_view_a_delay_and_a_sum() -> None:
    source = recurrent()
    frames = table([0], range(5))
    graph = build_graph(source, request(source, {"x": frames}, {"J": NOTHING}, samples=frames))
    counts = dict(zip(graph.node_names, np.diff(graph.first).tolist(), strict=True))
    assert counts == {"x": 5, "W": 1, "delay": 5, "h": 5, "y": 5, "all y": 5, "J": 1}
    assert uses(graph, source.number("h"))[0, 3, 0] == [("W", 0, NO_TIME), ("x", 0, 3), ("delay", 0, 3)]
    assert graph.slot_operand[source.number("h")].tolist() == [0, 1, 2]
    delay = uses(graph, source.number("delay"))
    assert delay[0, 1, 0] == [None]
    assert delay[0, 2, 0] == [("h", 0, 0)]
    assert uses(graph, source.number("y"))[0, 4, 0] == [("h", 0, 4)]
    criterion = source.number("J")
    assert uses(graph, criterion) == {(0, NO_TIME, 0): [("W", 0, NO_TIME)]}
    assert graph.slot_operand[criterion].tolist() == [1]
    ids = graph.all_samples[criterion, 0]
    assert graph.indexes[ids].tolist() == frames.tolist()
    assert {graph.node_names[node] for node in graph.node[ids]} == {"all y"}
    assert [graph.node_names[node] for node in graph.node[graph.is_input]] == ["x"] * 5 + ["W"]
    assert graph.dependencies[0][-1] == sum(len(set(row) - {-1}) for t in graph.slots for row in t.tolist()) + 5
    assert "6: W" not in str(graph)
    assert "x [ (0, 0:4) ] provided" in str(graph)


def test_only_what_is_wanted() -> None:
    source = recurrent()
    graph = build_graph(source, request(source, {"x": table([7], range(-3, 6))}, {"y": table([7], [4])}))
    assert sorted(t for _, t, _ in uses(graph, source.number("h"))) == [-2, 0, 2, 4]
    assert graph.first[source.number("J")] == graph.first[source.number("J") + 1]


def test_equal_sequences_are_one_and_others_are_not() -> None:
    source = recurrent()
    frames = table([3, 5, 8], range(4))
    graph = build_graph(source, request(source, {"x": frames}, {"J": NOTHING}, samples=frames))
    assert graph.multiplicity == 3
    assert graph.members.tolist() == [[3, 5, 8]]
    assert set(graph.indexes[graph.indexes[:, 1] != NO_TIME, 0].tolist()) == {3}
    two = np.concatenate([table([0, 2], range(4)), table([1, 3], range(6))])
    graph = build_graph(source, request(source, {"x": two}, {"J": NOTHING}, samples=two))
    assert graph.members.tolist() == [[0, 2], [1, 3]]
    assert len(graph.all_samples[source.number("J"), 0]) == 10
    three = np.concatenate([table([0, 2], range(4)), table([1], range(6))])
    graph = build_graph(source, request(source, {"x": three}, {"J": NOTHING}, samples=three))
    assert graph.members.tolist() == [[0], [1], [2]]
    last = uses(graph, source.number("delay"))
    assert last[1, 5, 0] == [("h", 1, 3)]
    assert (2, 5, 0) not in last
    assert last[2, 3, 0] == [("h", 2, 1)]


def test_a_kernel_with_indexed_and_other_operands() -> None:
    source = ToySource()
    source.provided("x", 4)
    source.parameter("W", 6, 4)
    source.provided("z", 2)
    source.gathered("around", 4, ("x", 0))
    source.windowed("pool", 4, "around", [-1, 0, 1], ("W", Use.WHOLE), ("z", Use.ROW))
    node = source.number("pool")
    given = {"x": table([0], [0, 1, 5]), "z": table([0], range(8))}
    graph = build_graph(source, request(source, given, {"pool": table([0], [0, 4])}))
    assert graph.slot_operand[node].tolist() == [0, 1, 1, 1, 2]
    weights = ("W", 0, NO_TIME)
    assert uses(graph, node) == {
        (0, 0, 0): [weights, None, ("around", 0, 0), ("around", 0, 1), ("z", 0, 0)],
        (0, 4, 0): [weights, None, None, ("around", 0, 5), ("z", 0, 4)],
    }
    computable = computable_outputs(source, request(source, given, {"pool": table([0], range(-2, 9))}))
    assert np.flatnonzero(computable[0]).tolist() == [2, 3, 4, 6, 7, 8]  # t = 0..2, 4..6


def test_a_kernel_whose_values_are_given() -> None:
    source = recurrent()
    given = {"x": table([0], [4, 6]), "h": table([0], [2])}
    graph = build_graph(source, request(source, given, {"y": table([0], [6])}))
    node = source.number("h")
    assert uses(graph, node)[0, 2, 0] == [None, None, None]
    assert sorted(uses(graph, node)) == [(0, 2, 0), (0, 4, 0), (0, 6, 0)]
    assert graph.is_input[graph.first[node] : graph.first[node + 1]].tolist() == [True, False, False]


def test_products_of_parameters() -> None:
    source = ToySource()
    source.parameter("A", 3, 3)
    source.parameter("B", 3, 3)
    source.kernel("AB", 3, ("A", Use.WHOLE), ("B", Use.WHOLE), num_rows=3)
    source.view("corner", "AB", 1, 0)
    graph = build_graph(source, request(source, {}, {"AB": NOTHING}))
    assert graph.num_cindexes == 3
    assert uses(graph, 2) == {(0, NO_TIME, 0): [("A", 0, NO_TIME), ("B", 0, NO_TIME)]}
    assert graph.members.shape == (0, 1)


@pytest.mark.parametrize("looked_at", ["g", "h"])
def test_delays_both_ways_are_followed_to_the_end(looked_at: str) -> None:
    """Delays of 3 back and 2 ahead, nested."""
    source = ToySource()
    source.provided("x", 1)
    source.gathered("back", 1, ("h", -3), optional=True)
    source.gathered("ahead", 1, (looked_at, 2), optional=True)
    source.kernel("g", 1, ("x", Use.ROW), ("back", Use.ROW))
    source.kernel("h", 1, ("g", Use.ROW), ("ahead", Use.ROW))
    graph = build_graph(source, request(source, {"x": table([0], range(5000))}, {"h": table([0], [2500])}))
    needed, waiting = {("h", 2500)}, [("h", 2500)]
    while waiting:
        name, t = waiting.pop()
        for used in [("h", t - 3)] if name == "g" else [("g", t), (looked_at, t + 2)]:
            if used not in needed and 0 <= used[1] < 5000:
                needed.add(used)
                waiting.append(used)
    for name in ("g", "h"):
        assert {(name, t) for _, t, _ in uses(graph, source.number(name))} == {
            each for each in needed if each[0] == name
        }


def test_samples_must_be_told_and_must_be_there() -> None:
    source = recurrent()
    with pytest.raises(RequestError, match="'J' runs over all samples, but the request does not say which"):
        build_graph(source, request(source, {"x": table([0], range(4))}, {"J": NOTHING}))
    wide = request(source, {"x": table([0], range(4))}, {"J": NOTHING}, samples=table([0], range(6)))
    with pytest.raises(NotComputableError, match=r"not computable: J needs x t=0\.\.5; given 0\.\.3"):
        build_graph(source, wide)
    assert [rows.tolist() for rows in computable_outputs(source, wide)] == [[False]]


@pytest.mark.parametrize("lacking", ["x", "y", "z"])
def test_all_samples_of_each_operand_must_be_there(lacking: str) -> None:
    """Whichever of them lacks one, and if it is a value without samples that lacks it."""
    source = ToySource()
    for name in ("x", "y", "z"):
        source.provided(name, 1)
        source.gathered(f"all {name}", 1, (name, 0))
    source.kernel("K", 1, ("all z", Use.ALL_SAMPLES), num_rows=1)
    source.kernel("J", 1, ("K", Use.WHOLE), ("all x", Use.ALL_SAMPLES), ("all y", Use.ALL_SAMPLES), num_rows=1)
    frames = table([0], range(5))
    for last in (4, 5):
        given = {"x": frames, "y": frames, "z": frames, lacking: table([0], range(last))}
        found = computable_outputs(source, request(source, given, {"J": NOTHING}, samples=frames))
        assert [rows.tolist() for rows in found] == [[last == 5]]


def test_an_endless_recurrence_is_named() -> None:
    source = ToySource()
    source.provided("x", 1)
    source.gathered("delay", 1, ("count", -1000), optional=True)
    source.kernel("count", 1, ("delay", Use.ROW))
    source.kernel("y", 1, ("count", Use.ROW), ("x", Use.ROW))
    with pytest.raises(RequestError, match="the recurrence through 'count' never ends"):
        build_graph(source, request(source, {"x": table([0], range(3))}, {"y": table([0], range(3))}))


@pytest.mark.parametrize(("num_nodes", "names"), [(8, "'a7', 'a8' never"), (9, "'a7', 'a8', ... never")])
def test_eight_nodes_of_an_endless_recurrence_are_named(num_nodes: int, names: str) -> None:
    source = ToySource()
    source.gathered("delay", 1, (f"a{num_nodes}", -1), optional=True)
    for number in range(1, num_nodes + 1):
        source.kernel(f"a{number}", 1, (f"a{number - 1}" if number > 1 else "delay", Use.ROW))
    with pytest.raises(RequestError, match=f"the recurrence through 'a1', .*, {names} ends"):
        build_graph(source, request(source, {}, {"a1": table([0], range(3))}))


def test_a_kernel_with_rows_of_its_own_may_look_at_all_samples() -> None:
    """Such as x less its mean: one row of it needs all of x."""
    source = ToySource()
    source.provided("x", 2)
    source.gathered("all x", 2, ("x", 0))
    source.kernel("y", 2, ("x", Use.ROW), ("all x", Use.ALL_SAMPLES))
    frames = table([0], range(4))
    graph = build_graph(source, request(source, {"x": frames}, {"y": frames[1:2]}, samples=frames))
    assert graph.indexes[graph.all_samples[source.number("y"), 1]].tolist() == frames.tolist()
    wide = request(source, {"x": frames}, {"y": frames}, samples=table([0], range(6)))
    assert not computable_outputs(source, wide)[0].any()


def test_each_output_out_of_reach_is_explained() -> None:
    source = recurrent()
    with pytest.raises(NotComputableError) as caught:
        build_graph(source, request(source, {"x": table([0, 1], range(4))}, {"y": table([0, 1], range(2, 6))}))
    assert str(caught.value) == "not computable: y (4:5) needs x t=4..5; given 0..3"
