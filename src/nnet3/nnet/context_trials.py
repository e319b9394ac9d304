"""Left and right context of a simple network by trial: the way that works for every network.

One sequence is enough, so computability is a Boolean array over time for each pair (node, x): the least fixed point
of the nodes' rules, found node by node in the order of the network's strongly connected components.
"""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from nnet3.errors import NetworkError
from nnet3.index import T, X
from nnet3.nnet.nodes import ComponentNode, DescriptorNode, DimRangeNode, InputNode
from nnet3.nnet.parts import NetworkParts
from nnet3.schedule import DirectedGraph, strongly_connected_components

_FIRST_WINDOW, _SURE_WINDOW = 40, 640
_MOST_CELLS = 5_000_000  # (slots of all nodes) x times; windows up to the sure one are tried whatever it takes
_MAX_X = 4096  # distinct x values that one node may be asked for

_LEAST_X = -(2**31)
_Place = tuple[int, int]  # node number, x


def context_by_trials(parts: NetworkParts) -> tuple[int, int]:
    """(left, right) context, from windows of twice the length until one is long enough.

    Raises NetworkError if none that can be tried makes an output computable.
    """
    slots = sum(_num_slots(parts, number) for number in range(len(parts.nodes)))
    window = _FIRST_WINDOW
    while window <= _SURE_WINDOW or 3 * window * slots <= _MOST_CELLS:
        trials = [_trial(parts, shift, window) for shift in range(parts.modulus + 1)]
        if all(trial is not None for trial in trials):
            contexts = [trial for trial in trials if trial is not None]
            return max(left for left, _ in contexts), max(right for _, right in contexts)
        window *= 2
    raise NetworkError(f"no output is computable from {window // 2} frames of input: the context cannot be found")


def _num_slots(parts: NetworkParts, number: int) -> int:
    node = parts.nodes[number]
    if isinstance(node, DescriptorNode):
        return len(node.descriptor.slots())
    return (
        parts.component(node).wanted_inputs(np.zeros((1, 3), np.int32)).shape[1]
        if isinstance(node, ComponentNode)
        else 1
    )


def _trial(parts: NetworkParts, shift: int, window: int) -> tuple[int, int] | None:
    """Frames lost at the left and the right when input is given for t = shift .. shift + window - 1."""
    margin = window + parts.modulus
    times = np.arange(shift - margin, shift + window + margin, dtype=np.int32)
    trial = Computability(parts, times)
    trial.supply("input", (times >= shift) & (times < shift + window))
    trial.supply("ivector", (times >= shift - parts.modulus) & (times < shift + window))
    outputs = trial.solve(parts.node_number["output"])[margin : margin + window]
    if not outputs.any():
        return None
    first = int(outputs.argmax())
    after = outputs[first:]
    end = first + (len(after) if after.all() else int((~after).argmax()))
    return first, window - end


class Computability:
    """Which times of each (node, x) are computable; times outside the array count as not computable."""

    def __init__(self, parts: NetworkParts, times: np.ndarray):
        self.parts, self.times = parts, times
        self.supplied: dict[int, np.ndarray] = {}
        self.known: dict[_Place, np.ndarray] = {}
        self._sources_of: dict[_Place, list[_Place]] = {}
        self._wants: dict[_Place, tuple[np.ndarray, np.ndarray, np.ndarray]] = {}

    def supply(self, name: str, given: np.ndarray) -> None:
        if name in self.parts.node_number:
            self.supplied[self.parts.node_number[name]] = given

    def solve(self, output: int) -> np.ndarray:
        """Computability over time of node `output` at x = 0."""
        places = self._reachable((output, 0))
        number = {place: i for i, place in enumerate(places)}
        sources, users = [], []
        for place in places:
            for source in self._sources(place):
                sources.append(number[source])
                users.append(number[place])
        graph = DirectedGraph.from_edges(len(places), np.array(sources, int), np.array(users, int))
        component_of_place, num_components = strongly_connected_components(graph)
        members: list[list[_Place]] = [[] for _ in range(num_components)]
        for place, component in zip(places, component_of_place, strict=True):
            members[component].append(place)
        for group in members:
            self._fixed_point(group)
        return self.known[(output, 0)]

    def _reachable(self, start: _Place) -> list[_Place]:
        seen = {start}
        stack = [start]
        count: dict[int, int] = defaultdict(int)
        while stack:
            for source in self._sources(stack.pop()):
                if source not in seen:
                    seen.add(source)
                    stack.append(source)
                    count[source[0]] += 1
                    if count[source[0]] > _MAX_X:
                        name = self.parts.nodes[source[0]].name
                        raise NetworkError(
                            f"node '{name}' is asked for more than {_MAX_X} values of x: context unknown"
                        )
        return sorted(seen)

    def _sources(self, place: _Place) -> list[_Place]:
        if place not in self._sources_of:
            nodes, _, xs = self._wanted(place)
            keys: np.ndarray = np.unique((nodes.astype(np.int64) << 32) + (xs.astype(np.int64) - _LEAST_X))
            found = zip((keys >> 32).tolist(), ((keys & 0xFFFFFFFF) + _LEAST_X).tolist(), strict=True)
            self._sources_of[place] = list(found)
        return self._sources_of[place]

    def _wanted(self, place: _Place) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Node, position in time (-1 outside) and x of everything wanted: three arrays (times, slots)."""
        if place not in self._wants:
            indexes = np.zeros((len(self.times), 3), np.int32)
            indexes[:, T], indexes[:, X] = self.times, place[1]
            nodes, mapped = self._dependencies(place[0], indexes)
            position = mapped[:, :, T].astype(np.int64) - int(self.times[0])
            position[(position < 0) | (position >= len(self.times))] = -1
            self._wants[place] = nodes, position, mapped[:, :, X]
        return self._wants[place]

    def _dependencies(self, number: int, indexes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        node = self.parts.nodes[number]
        if isinstance(node, DescriptorNode):
            return node.descriptor.get_dependencies(indexes, self.parts.node_number)
        if isinstance(node, ComponentNode):
            mapped = self.parts.component(node).wanted_inputs(indexes)
            return np.full(mapped.shape[:2], number - 1, np.int32), mapped
        if isinstance(node, DimRangeNode):
            return np.full((len(indexes), 1), self.parts.node_number[node.source]), indexes[:, np.newaxis, :]
        return np.zeros((len(indexes), 0), np.int32), np.zeros((len(indexes), 0, 3), np.int32)

    def _fixed_point(self, group: list[_Place]) -> None:
        """Evaluate the places of one strongly connected component until nothing changes."""
        for place in group:
            self.known[place] = np.zeros(len(self.times), bool)
        changed = True
        while changed:
            changed = False
            for place in group:
                value = self._evaluate(place)
                if not np.array_equal(value, self.known[place]):
                    self.known[place] = value
                    changed = len(group) > 1 or place in self._sources(place)

    def _evaluate(self, place: _Place) -> np.ndarray:
        node = self.parts.nodes[place[0]]
        if isinstance(node, InputNode):
            given = self.supplied.get(place[0])
            return np.zeros(len(self.times), bool) if given is None or place[1] != 0 else given
        available = self._available(place)
        if isinstance(node, DescriptorNode):
            return node.descriptor.is_computable(available)[0]
        if isinstance(node, ComponentNode):
            indexes = np.zeros((len(self.times), 3), np.int32)
            indexes[:, T], indexes[:, X] = self.times, place[1]
            return self.parts.component(node).computable(indexes, available)[0]
        return available[:, 0]

    def _available(self, place: _Place) -> np.ndarray:
        nodes, position, xs = self._wanted(place)
        available = np.zeros(position.shape, bool)
        for source in self._sources(place):
            here = (nodes == source[0]) & (xs == source[1]) & (position >= 0)
            if source in self.known:
                available[here] = self.known[source][position[here]]
        return available
