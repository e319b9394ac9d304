"""Ranks: each box stands below all that it has arcs from, and no further down than need be."""

from __future__ import annotations

from collections import deque

from nnet3.drawing.graph import Arc, Graph


def rank_boxes(graph: Graph) -> tuple[dict[str, int], set[Arc]]:
    """Returns the rank of each box, from 0, and the arcs that lead upwards: delays, and those that close circles."""
    forward = [arc for arc in graph.arcs if not arc.is_delay and arc.a != arc.b]
    closing = _closing_arcs(graph, forward)
    forward = [arc for arc in forward if arc not in closing]
    ranks = _longest_paths(graph, forward)
    upwards = {arc for arc in graph.arcs if arc.a != arc.b and (arc in closing or ranks[arc.a] >= ranks[arc.b])}
    return ranks, upwards


def _users(graph: Graph, arcs: list[Arc]) -> dict[str, list[Arc]]:
    users: dict[str, list[Arc]] = {box.id: [] for box in graph.nodes}
    for arc in arcs:
        users[arc.a].append(arc)
    return users


def _closing_arcs(graph: Graph, arcs: list[Arc]) -> set[Arc]:
    """Returns the arcs back to a box on the path of a depth-first search; without them there are no circles."""
    users = _users(graph, arcs)
    closing: set[Arc] = set()
    state: dict[str, int] = {}  # 1: on the way, 2: done
    for box in graph.nodes:
        stack = [(box.id, iter(users[box.id]))] if box.id not in state else []
        state.setdefault(box.id, 1)
        while stack:
            here, arcs_left = stack[-1]
            arc = next(arcs_left, None)
            if arc is None:
                state[here] = 2
                stack.pop()
            elif state.get(arc.b) == 1:
                closing.add(arc)
            elif arc.b not in state:
                state[arc.b] = 1
                stack.append((arc.b, iter(users[arc.b])))
    return closing


def _longest_paths(graph: Graph, arcs: list[Arc]) -> dict[str, int]:
    users = _users(graph, arcs)
    waiting_for = dict.fromkeys(users, 0)
    for arc in arcs:
        waiting_for[arc.b] += 1
    sources = {box.id for box in graph.nodes if not waiting_for[box.id]}
    ready = deque(box.id for box in graph.nodes if box.id in sources)
    ranks = dict.fromkeys(users, 0)
    while ready:
        here = ready.popleft()
        for arc in users[here]:
            ranks[arc.b] = max(ranks[arc.b], ranks[here] + 1)
            waiting_for[arc.b] -= 1
            if not waiting_for[arc.b]:
                ready.append(arc.b)
    for source in sources:  # an input that only the third layer uses stands beside the second
        ranks[source] = min((ranks[arc.b] - 1 for arc in users[source]), default=0)
    return ranks
