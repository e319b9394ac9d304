"""Finds cycles of a network that never move in time: no value on such a cycle can be computed.

An arc from node B to node A says that A at t may need B at t + offset. If round some closed walk the offsets sum to
zero, a value would depend on itself. Only arcs with a fixed offset for every index count, so no arcs through Round,
ReplaceIndex or a Switch; cycles through Round, ReplaceIndex or a Switch are found when a request is compiled.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nnet3.base.index import T, X, indexes_at
from nnet3.engine.schedule import DirectedGraph, epochs, strongly_connected_components
from nnet3.errors import ConfigError
from nnet3.model.structure.node_rules import NodeRules
from nnet3.model.structure.nodes import DescriptorNode
from nnet3.model.structure.parts import NetworkParts

_PROBED_TIMES = np.array([0, 1, 7, -3, 1001])
_MOST_PROBED = 500

_UNIT = 2**31
_MOST_POINTS = 2000  # of the search for a cycle to show, from each node
_ORDERS = ((_UNIT, 1), (_UNIT, -1), (1, _UNIT), (1, -_UNIT))
"""Weights of t and x that make a move (t, x) one number: t counts first and then x, or x and then t, either sign.

If in one of them (or its negative) all cycles count as positive, no walk round several of them stands still."""


@dataclass(frozen=True)
class _Arc:
    user: int
    source: int
    offset: tuple[int, int]  # t, x


def check_cycles_move(parts: NetworkParts) -> None:
    """Raises ConfigError at a descriptor on a cycle that never moves."""
    rules = NodeRules(parts)
    arcs = [arc for number in recurrent_nodes(rules) for arc in _arcs_of(rules, number)]
    for cycle_arcs in map(_in_search_order, _on_cycles(arcs)):
        if not _all_cycles_move(cycle_arcs):
            _complain(parts, cycle_arcs)


def _on_cycles(arcs: list[_Arc]) -> list[list[_Arc]]:
    """Returns the arcs on cycles, in a list for each strongly connected component."""
    users, sources = (np.array(column, int) for column in ([a.user for a in arcs], [a.source for a in arcs]))
    graph = DirectedGraph.from_edges(max(users.max(initial=0), sources.max(initial=0)) + 1, sources, users)
    part_of_node, _ = strongly_connected_components(graph)
    found: dict[int, list[_Arc]] = {}
    for arc in arcs:
        if part_of_node[arc.user] == part_of_node[arc.source]:
            found.setdefault(int(part_of_node[arc.user]), []).append(arc)
    return list(found.values())


def recurrent_nodes(rules: NodeRules) -> list[int]:
    """Returns the nodes that may need themselves."""
    num_nodes = len(rules.parts.nodes)
    arcs = [(source, user) for user in range(num_nodes) for source in rules.may_use(user)]
    epoch_of_node, is_recurrent = epochs(DirectedGraph.from_edges(num_nodes, *np.array(arcs, int).reshape(-1, 2).T))
    return np.flatnonzero(is_recurrent[epoch_of_node]).tolist()


def _in_search_order(arcs: list[_Arc]) -> list[_Arc]:
    """Sorts arcs along the cycles, for fast progress of a pass of relaxation."""
    arcs_of: dict[int, list[_Arc]] = {}
    for arc in arcs:
        arcs_of.setdefault(arc.user, []).append(arc)
    ordered: list[_Arc] = []
    seen, waiting = {arcs[0].user}, [arcs[0].user]
    while waiting:
        for arc in arcs_of[waiting.pop()]:
            ordered.append(arc)
            if arc.source not in seen:
                seen.add(arc.source)
                waiting.append(arc.source)
    return ordered


def _complain(parts: NetworkParts, arcs: list[_Arc]) -> None:
    standing = [arc for arc in arcs if arc.offset == (0, 0)]
    walk = None if not _all_cycles_move(standing) else _closed_walk(arcs)
    path = _some_cycle(arcs if _all_cycles_move(standing) else standing) if walk is None else [a.user for a in walk]
    nodes = [parts.nodes[number] for number in path]
    names = [node.name for node in nodes if not node.is_hidden]
    span = next((node.span for node in nodes if isinstance(node, DescriptorNode)), nodes[0].span)
    hint = "give one reference on it an Offset, such as IfDefined(Offset(x, -1))"
    if walk is not None:
        taken = ", ".join(_taken(parts, arc) for arc in walk if arc.offset != (0, 0))
        hint = f"its offsets cancel ({taken}): let every Offset on it point the same way"
    raise ConfigError(f"a cycle that never moves in time: {' <- '.join([*names, names[0]])}", span, hint)


def _taken(parts: NetworkParts, arc: _Arc) -> str:
    """ "'a' takes 'b' at t-1"; a hidden input goes by the name of its component node."""
    user, source = map(parts.visible_name, (arc.user, arc.source))
    t, x = arc.offset
    at = ", ".join(f"{letter}{offset:+d}" for letter, offset in (("t", t), ("x", x)) if offset)
    return f"'{user}' takes {'its input' if user == source and arc.source == arc.user - 1 else repr(source)} at {at}"


def _closed_walk(arcs: list[_Arc]) -> list[_Arc] | None:
    """Returns a short closed walk whose offsets sum to zero; None if a bounded search finds none."""
    arcs_of: dict[int, list[_Arc]] = {}
    for arc in arcs:
        arcs_of.setdefault(arc.user, []).append(arc)
    for start in arcs_of:
        begin = (start, 0, 0)
        came: dict[tuple[int, int, int], tuple[tuple[int, int, int], _Arc] | None] = {begin: None}
        waiting = [begin]
        for point in waiting:
            for arc in arcs_of.get(point[0], ()):
                reached = (arc.source, point[1] + arc.offset[0], point[2] + arc.offset[1])
                if reached == begin:
                    return _walk_to(point, came, arc)
                if reached not in came and len(came) < _MOST_POINTS:
                    came[reached] = (point, arc)
                    waiting.append(reached)
    return None


def _walk_to(
    point: tuple[int, int, int],
    came: dict[tuple[int, int, int], tuple[tuple[int, int, int], _Arc] | None],
    last: _Arc,
) -> list[_Arc]:
    walk = [last]
    step = came[point]
    while step is not None:
        point, arc = step
        walk.append(arc)
        step = came[point]
    return walk[::-1]


def _arcs_of(rules: NodeRules, number: int) -> list[_Arc]:
    """Returns an arc for each slot with a single source node and a fixed offset for every index."""
    times = np.concatenate([_PROBED_TIMES, np.arange(min(rules.parts.nodes[number].modulus, _MOST_PROBED))])
    probes = indexes_at(times)
    probes[:, X] = np.arange(len(times)) % 3
    sources, indexes = rules.slots(number, probes)
    moves = indexes.astype(np.int64) - probes[:, np.newaxis]
    same = (moves == moves[:1]).all(axis=(0, 2)) & (sources == sources[:1]).all(axis=0)
    offsets = zip(sources[0, same].tolist(), moves[0, same, T].tolist(), moves[0, same, X].tolist(), strict=True)
    return [_Arc(number, source, (t, x)) for source, t, x in offsets]


def _all_cycles_move(arcs: list[_Arc]) -> bool:
    return any(_all_cycles_positive(arcs, sign * t, sign * x) for t, x in _ORDERS for sign in (1, -1))


def _all_cycles_positive(arcs: list[_Arc], t_weight: int, x_weight: int) -> bool:
    """Returns True if the weighted offsets sum to > 0 round every cycle: Bellman-Ford on offsets lowered by a hair.

    A distance below the sum of all negative lengths shows that a path has used some arc twice.
    """
    nodes = {arc.user for arc in arcs} | {arc.source for arc in arcs}
    stretch = len(nodes)
    lengths = [(t_weight * arc.offset[0] + x_weight * arc.offset[1]) * stretch - 1 for arc in arcs]
    least = sum(length for length in lengths if length < 0)
    distance = dict.fromkeys(nodes, 0)
    for _ in range(len(nodes) + 1):
        changed = False
        for arc, length in zip(arcs, lengths, strict=True):
            reach = distance[arc.user] + length
            if reach < least:
                return False
            if reach < distance[arc.source]:
                distance[arc.source] = reach
                changed = True
        if not changed:
            return True
    return False


def _some_cycle(arcs: list[_Arc]) -> list[int]:
    """Returns the nodes of some cycle; in a strongly connected component every walk comes back, so a cycle exists."""
    inside = _on_cycles(arcs)[0]
    source_of = {arc.user: arc.source for arc in reversed(inside)}
    position: dict[int, int] = {}
    node = inside[0].user
    while node not in position:
        position[node] = len(position)
        node = source_of[node]
    return list(position)[position[node] :]


def startless_warnings(parts: NetworkParts) -> list[str]:
    """Returns a line for each recurrence without a possible start, with its location and a hint."""
    stuck = sorted(never_computable(parts))
    if not stuck:
        return []
    rules, position_of = NodeRules(parts), {number: position for position, number in enumerate(stuck)}
    pairs = [
        (position_of[source], position_of[user])
        for user in stuck
        for source in rules.needs(user)
        if source in position_of
    ]
    sources, users = np.array(pairs, int).T
    group_of, _ = strongly_connected_components(DirectedGraph.from_edges(len(stuck), sources, users))
    inside = group_of[sources] == group_of[users]
    waiting = set(group_of[users[~inside]].tolist())  # for another group
    return [
        _warning(parts, {stuck[position] for position in np.flatnonzero(group_of == group).tolist()})
        for group in dict.fromkeys(group_of[users[inside]].tolist())
        if group not in waiting
    ]


def never_computable(parts: NetworkParts) -> set[int]:
    """Returns the nodes not computable at any index from any input."""
    rules = NodeRules(parts)
    users: dict[int, list[int]] = {}
    for number in range(len(parts.nodes)):
        for source in parts.sources(number):
            users.setdefault(source, []).append(number)
    computable: set[int] = set()
    waiting = list(range(len(parts.nodes)))[::-1]  # mostly they are written after what they need
    while waiting:
        number = waiting.pop()
        if number not in computable and _is_computable(rules, number, computable):
            computable.add(number)
            waiting += users.get(number, [])
    return set(range(len(parts.nodes))) - computable


def _is_computable(rules: NodeRules, number: int, computable: set[int]) -> bool:
    if computable.issuperset(rules.may_use(number)):
        return True
    available = [not computable.isdisjoint(sources) for sources in rules.slot_sources(number)]
    return bool(rules.availability(number, np.array([available]))[0])


def _warning(parts: NetworkParts, group: set[int]) -> str:
    """Suggests a term, and the term's line, to wrap in IfDefined, preferably a term with an offset in time."""
    needed = [
        (number, forward, reference)
        for number in sorted(group)
        if isinstance(node := parts.nodes[number], DescriptorNode)
        for forward in node.descriptor.needed_slots()
        for reference in forward.nodes()
        if parts.node_number[reference.node] in group
    ]
    delays = [need for need in needed if (plain := need[1].plain()) and plain[1]]
    number, forward, reference = (delays or needed)[0]
    span = next(forward.nodes()).span or parts.nodes[number].span
    message = (
        f"the recurrence through '{parts.visible_name(number)}' has no way to start: '{reference.node}' needs its own "
        "value of another time, always"
    )
    hint = f"write IfDefined({forward}), which is zero where there is no such value"
    return f"{span.place}: {message}\n{span.excerpt(hint)}" if span else f"{message}; {hint}"
