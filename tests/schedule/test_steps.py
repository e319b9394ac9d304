"""Steps of random small nets: every item after what it needs, and the three rules of the order of steps."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from call_count import count_calls
from nnet3.schedule import (
    NO_ITEM,
    DirectedGraph,
    Step,
    StepKind,
    epochs,
    locate_items,
    make_steps,
    phases,
)


@dataclass
class Net:
    """A made-up computation: item i is (node, t) and needs other items."""

    kinds: list[StepKind] = field(default_factory=list)
    items: list[tuple[int, int]] = field(default_factory=list)
    needs: list[list[int]] = field(default_factory=list)
    viewed: dict[int, int] = field(default_factory=dict)  # view item -> the item it looks at
    given_inputs: list[tuple[int, np.ndarray]] = field(default_factory=list)
    given_outputs: list[tuple[int, np.ndarray]] = field(default_factory=list)
    rank: list[int] = field(default_factory=list)
    reorders: bool = False
    answers: dict[tuple[int, ...], tuple[int, list[int], list[int]]] = field(default_factory=dict)
    asked: list[tuple[int, list[int]]] = field(default_factory=list)

    def add_node(self, kind: StepKind) -> int:
        self.kinds.append(kind)
        return len(self.kinds) - 1

    def add_item(self, node: int, t: int, needs: list[int]) -> int:
        self.items.append((node, t))
        self.needs.append(needs)
        return len(self.items) - 1

    def items_of(self, node: int) -> list[int]:
        return [item for item, (owner, _) in enumerate(self.items) if owner == node]

    def inputs_of(self, node: int, items: np.ndarray) -> tuple[int, np.ndarray, np.ndarray]:
        read = sorted({needed for item in items.tolist() for needed in self.needs[item]})
        own = items.tolist()
        if self.reorders:
            read, own = [NO_ITEM, *read[::-1]], [*own[::-1], NO_ITEM]
        self.asked.append((node, items.tolist()))
        self.answers[tuple(own)] = (node - 1, read, own)
        return node - 1, np.array(read), np.array(own)

    def phase(self) -> np.ndarray:
        indptr = np.cumsum([0] + [len(needed) for needed in self.needs])
        needed = np.array([item for part in self.needs for item in part], dtype=np.int32)
        node_of_item = np.array([node for node, _ in self.items])
        needing = np.repeat(np.arange(len(self.items)), np.diff(indptr))
        graph = DirectedGraph.from_edges(len(self.kinds), node_of_item[needed], node_of_item[needing])
        return phases(indptr, needed, epochs(graph)[0][node_of_item])

    def steps(self) -> list[Step]:
        return make_steps(
            node_of_item=np.array([node for node, _ in self.items], dtype=np.int32),
            phase_of_item=self.phase(),
            rank_of_item=np.array(self.rank),
            kind_of_node=np.array(self.kinds),
            given_inputs=self.given_inputs,
            given_outputs=self.given_outputs,
            inputs_of=self.inputs_of,
            source_of_item=np.array([self.viewed.get(item, -1) for item in range(len(self.items))]),
        )


@st.composite
def nets(draw: st.DrawFn) -> Net:
    net, num_t = Net(reorders=draw(st.booleans())), draw(st.integers(1, 4))
    sources: list[int] = []  # items that an input node may refer to

    def some(pool: list[int]) -> list[int]:
        return draw(st.lists(st.sampled_from(pool), max_size=3)) if pool else []

    def given(node: int, pool: list[int]) -> tuple[int, np.ndarray]:
        order = draw(st.permutations(pool))
        return node, np.array(order + [NO_ITEM] * draw(st.integers(0, 1)), dtype=np.int64)

    def add_view(node: int) -> None:
        seen = draw(st.lists(st.sampled_from(net.items_of(node)), unique=True, max_size=3))
        view = net.add_node(StepKind.VIEW)
        for item in seen:
            net.viewed[len(net.items)] = item
            sources.append(net.add_item(view, net.items[item][1], [item]))

    for _ in range(draw(st.integers(1, 2))):
        node = net.add_node(StepKind.INPUT)
        sources.extend(net.add_item(node, t, []) for t in range(num_t))
        net.given_inputs.append(given(node, net.items_of(node)))
        if draw(st.booleans()):
            add_view(node)
    for _ in range(draw(st.integers(0, 3))):
        below, recurrent = list(sources), draw(st.booleans())
        input_node, node = net.add_node(StepKind.COMPUTING_INPUT), net.add_node(StepKind.COMPUTING)
        inputs: list[int] = []
        provided: list[int] = []
        for t in range(num_t):
            if draw(st.integers(0, 4)) == 0:
                provided.append(net.add_item(node, t, []))
                continue
            needs = some(below) + (some(net.items_of(node)) if recurrent else [])
            inputs.append(net.add_item(input_node, t, needs))
            net.add_item(node, t, sorted({inputs[-1], *some(inputs)}))
        if provided:
            net.given_inputs.append(given(node, provided))
        sources += net.items_of(node)
        for _ in range(draw(st.integers(0, 2))):
            add_view(node)
    for _ in range(draw(st.integers(1, 2))):
        node = net.add_node(StepKind.OUTPUT)
        for t in range(num_t):
            net.add_item(node, t, some(sources))
        net.given_outputs.append(given(node, net.items_of(node)))
    net.rank = draw(st.permutations(range(len(net.items))))
    return net


def real(items: np.ndarray) -> list[int]:
    return [item for item in items.tolist() if item != NO_ITEM]


@given(nets())
def test_each_item_is_in_one_step_of_its_node(net: Net) -> None:
    steps = net.steps()
    count = [0] * len(net.items)
    for step in steps:
        assert step.items.dtype == np.int32
        for item in real(step.items):
            assert net.items[item][0] == step.node
            count[item] += 1
        provided = step.kind == StepKind.INPUT and net.kinds[step.node] == StepKind.COMPUTING
        assert provided or step.kind == net.kinds[step.node]
    for item, (node, _) in enumerate(net.items):
        assert count[item] >= 1 if net.kinds[node] == StepKind.COMPUTING_INPUT else count[item] == 1


@given(nets())
def test_everything_an_item_needs_is_in_an_earlier_step(net: Net) -> None:
    done: set[int] = set()
    for step in net.steps():
        for item in real(step.items):
            assert set(net.needs[item]) <= done
        done.update(real(step.items))


@given(nets())
def test_rule_a_requested_rows_keep_their_order(net: Net) -> None:
    steps = [step for step in net.steps() if step.kind != StepKind.VIEW]
    num_inputs, num_outputs = len(net.given_inputs), len(net.given_outputs)
    assert all(step.kind == StepKind.INPUT for step in steps[:num_inputs])
    assert all(step.kind == StepKind.OUTPUT for step in steps[-num_outputs:])
    found = [(step.node, step.items.tolist()) for step in steps[:num_inputs] + steps[-num_outputs:]]
    assert found == [(node, items.tolist()) for node, items in net.given_inputs + net.given_outputs]


@given(nets())
def test_rule_b_a_computing_step_follows_its_input(net: Net) -> None:
    steps = net.steps()
    for place, step in enumerate(steps):
        if step.kind == StepKind.COMPUTING:
            input_node, read, own = net.answers[tuple(step.items.tolist())]
            before = steps[place - 1]
            assert step.source == place - 1
            assert before.kind == StepKind.COMPUTING_INPUT
            assert (before.node, before.items.tolist()) == (input_node, read)
            assert step.items.tolist() == own
        if step.kind == StepKind.COMPUTING_INPUT:
            assert steps[place + 1].kind == StepKind.COMPUTING


@given(nets())
def test_rule_c_a_view_mirrors_the_step_it_looks_at(net: Net) -> None:
    steps = net.steps()
    for place, step in enumerate(steps):
        if step.kind != StepKind.VIEW:
            continue
        assert all(between.kind == StepKind.VIEW for between in steps[step.source + 1 : place])
        viewed = {seen: view for view, seen in net.viewed.items() if net.items[view][0] == step.node}
        assert step.items.tolist() == [viewed.get(item, NO_ITEM) for item in steps[step.source].items.tolist()]


@given(nets())
def test_a_step_holds_one_node_and_phase_in_order_of_rank(net: Net) -> None:
    net.steps()
    phase = net.phase()
    keys = []
    for node, items in net.asked:
        assert len({int(phase[item]) for item in items}) == 1
        assert items == sorted(items, key=lambda item: net.rank[item])
        keys.append((int(phase[items[0]]), node))
    assert keys == sorted(set(keys))


@given(nets())
def test_locate_items_finds_each_item_again(net: Net) -> None:
    steps = net.steps()
    step_of_item, row_of_item = locate_items(steps, len(net.items))
    for item, (node, _) in enumerate(net.items):
        if net.kinds[node] == StepKind.COMPUTING_INPUT:
            assert step_of_item[item] == row_of_item[item] == -1
        else:
            assert steps[step_of_item[item]].items[row_of_item[item]] == item


def test_nodes_may_gather_their_own_inputs() -> None:
    # Two computing nodes over an input, without input nodes and without an output.
    steps = make_steps(
        node_of_item=np.array([0, 0, 2, 2, 1, 1]),
        phase_of_item=np.array([0, 0, 2, 2, 1, 1]),
        rank_of_item=np.array([0, 1, 1, 0, 0, 1]),
        kind_of_node=np.array([StepKind.INPUT, StepKind.COMPUTING, StepKind.COMPUTING]),
        given_inputs=[(0, np.array([1, 0]))],
        given_outputs=[],
    )
    assert [(step.node, step.items.tolist(), step.source) for step in steps] == [
        (0, [1, 0], -1),
        (1, [4, 5], -1),
        (2, [3, 2], -1),
    ]
    assert [str(step) for step in steps[:2]] == ["input: node 0, 2 rows", "computing: node 1, 2 rows"]


def test_nodes_of_a_recurrence_take_turns() -> None:
    steps = make_steps(
        node_of_item=np.array([0, 0, 0, 1, 1, 1]),
        phase_of_item=np.array([4, 0, 2, 1, 5, 3]),
        rank_of_item=np.arange(6),
        kind_of_node=np.array([StepKind.COMPUTING, StepKind.COMPUTING]),
        given_inputs=[],
        given_outputs=[],
    )
    assert [step.items.tolist() for step in steps] == [[1], [3], [2], [5], [0], [4]]


def test_a_view_says_which_step_it_is_of() -> None:
    step = Step(3, np.zeros(2, dtype=np.int32), StepKind.VIEW, source=7)
    assert str(step) == "view of step 7: node 3, 2 rows"


@pytest.mark.parametrize("kind", [StepKind.INPUT, StepKind.OUTPUT])
def test_an_item_missing_from_the_request_is_our_own_bug(kind: StepKind) -> None:
    with pytest.raises(AssertionError, match="not in the request"):
        make_steps(np.array([0]), np.array([0]), np.array([0]), np.array([kind]), [], [])


def test_nothing_to_do_takes_no_steps() -> None:
    empty = np.zeros(0, dtype=np.int32)
    assert make_steps(empty, empty, empty, np.array([StepKind.COMPUTING]), [], []) == []
    assert [array.tolist() for array in locate_items([], 2)] == [[-1, -1], [-1, -1]]


def wide_steps(num_n: int) -> None:
    """An input, a recurrent layer of 5 time steps with two views of it, and an output; items are (block, n)."""
    item = np.arange(21 * num_n).reshape(21, num_n)
    blocks = [0] * 5 + [2] * 5 + [3] * 5 + [4] * 5 + [5]
    phase = [0] * 5 + [1, 2, 3, 4, 5] + [6] * 11
    source = np.full(item.shape, -1)
    source[10:20] = np.concatenate([item[5:10], item[5:10]])
    kind = [StepKind.INPUT, StepKind.COMPUTING_INPUT, StepKind.COMPUTING, StepKind.VIEW, StepKind.VIEW, StepKind.OUTPUT]
    steps = make_steps(
        np.repeat(blocks, num_n),
        np.repeat(phase, num_n),
        np.arange(item.size),
        np.array(kind),
        [(0, item[:5].ravel())],
        [(5, item[20])],
        lambda node, items: (node - 1, items[:0], items),
        source.ravel(),
    )
    assert len(steps) == 1 + 5 * 4 + 1


def test_the_number_of_calls_does_not_depend_on_the_number_of_sequences() -> None:
    assert count_calls(wide_steps, 2) == count_calls(wide_steps, 200)
