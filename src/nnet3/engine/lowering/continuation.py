"""Proves that the graphs of all longer requests continue those of two short ones.

Take two requests; the long one has P more frames, P a multiple of the period of the rules. The *state* of a node at a
time is all that sweeps know of the node's rows at this time: given, asked for, computable or needed; the slots in use;
the distances at which slots look. Suppose that the long request has the states of the short request with P frames
inserted. Then there are times a and b, at least P apart: states before b stay in place, states from a on move by P, and
between a and b states repeat with period P. So states with k P frames inserted are defined for every k.

States with frames inserted are right if every rule finds states of the short request. Take a rule at t, with a slot at
t + d of a node, and let a' and b' be the times of the node. The node has the states of the short request before b', and
from a' + k P on the states of the short request moved by k P. So the rule at t < b' - d finds the states that the short
request has for the rule at t, and the rule at t >= a' - d + k P finds the states for the rule at t - k P. P times in a
row fulfil the two conditions, and stand for all times between. Derivatives go from users to sources, so every rule must
find its users likewise. Then the states are a fixed point of all rules. The computable rows are the least fixed point,
hence a part of the rows computable by the states. Conversely, a program computes the needed rows, always from rows
computed before; so the needed rows are computable. The used rows lie between the states' needed and computable rows,
and by the rule of `GraphRules.computable` the used slots are equal.

Sweeps see a part of time. Where rows depend on rows beyond the edge of the part, states also give the rows and slots
computable and used if everything beyond were available. The computable rows lie between the two answers. Needed rows
use equal slots in the two answers, or `Sweeps.run` would have looked further.

A node that adds x(t - 20), where there is such a frame, to x(t) does not do so within 16 frames, and 41 are needed
for a frame that adds and is added:

>>> from tests.lowering.examples import echo
>>> [frames_missing(echo(length), echo(length + 1), 1) for length in (16, 40, 41)]
[5, 1, 0]
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from nnet3.base.index import T
from nnet3.engine.lowering.source import GraphRules, LoweringRequest
from nnet3.engine.lowering.sweeps import Sweeps

_NEVER = 2**40  # a time that no row has
_MOST_TIMES = 2**20
_NO_LIMITS = -(2**31), 2**31 - 1

Case = tuple[GraphRules, LoweringRequest]


def frames_missing(short: Case, long: Case, period: int) -> int | None:
    """Returns by how many frames two requests are too short to tell about all longer requests; 0 for none.

    `period`: the frames by which the second request is longer than the first; 0 for more sequences of equal lengths.
    None for requests that are not alike, and for requests that tell nothing at any length.
    """
    if period and any(rules.period is None or period % rules.period for rules, _ in (short, long)):
        return None
    one, other = _History(*short), _History(*long)
    if one.outline != other.outline:
        return None
    lines = [(*pair, _zone(*pair, period)) for pair in zip(one.lines, other.lines, strict=True)]
    zones = [zone for _, _, zone in lines]
    missing = max([0, *(period - (zone.end - zone.first) for zone in zones)])
    if not missing:
        limits = _zone_of_limits(short[1].deriv_times, long[1].deriv_times, period)
        missing = max([0, *(_missing(line, zone, limits, zones, period) for line, _, zone in lines)])
    return None if missing and (period == 0 or missing > _MOST_TIMES) else missing


class _Zone(NamedTuple):
    """The position where periods are inserted: nothing changes before `end`, what is from `first` on moves on."""

    first: int
    end: int


@dataclass(frozen=True, eq=False)
class _Line:
    """The states of a node: a row of numbers for each time of the node, in ascending order.

    `looks`: (line, least distance, greatest distance) of every slot of the node, and of every slot of a user that
    looks at the node. `fixed`: (line, time) of slots that look at one time only.
    """

    times: npt.NDArray[np.int64]
    states: npt.NDArray[np.int64]  # (times, numbers)
    looks: list[tuple[int, int, int]]
    fixed: list[tuple[int, int]]


class _History:
    """The states of all nodes in the domain of a request."""

    def __init__(self, source: GraphRules, request: LoweringRequest) -> None:
        self._sweeps = sweeps = Sweeps(source, request)
        sweeps.run()
        self._computabilities = [sweeps.computability, *([sweeps.best()] if sweeps.at_edge() else [])]
        ground = sweeps.ground
        nodes = [node for node, table in enumerate(ground.tables) if table is not None]
        self._number = {node: number for number, node in enumerate(nodes)}
        self.lines = [self._line(node) for node in nodes]
        looks = [(number, look) for number, line in enumerate(self.lines) for look in line.looks]
        for number, (other, least, greatest) in looks:
            self.lines[other].looks.append((number, -greatest, -least))
        xs = [ground.domain.grid(node).x_values for node in nodes]
        sizes = [(line.states.shape[1], line.looks, line.fixed) for line in self.lines]
        self.outline = nodes, xs, sizes, ground.num_classes, len(self._computabilities)

    def _line(self, node: int) -> _Line:
        sweeps, ground = self._sweeps, self._sweeps.ground
        grid, shape, empty = ground.domain.grid(node), ground.domain.shapes[node], ground.empty(node)
        assert shape is not None
        states: list[np.ndarray | None] = [sweeps.need[node]]
        states += [part[node] for each in self._computabilities for part in (each.known, each.used)]
        states += [rows.get(node, empty) for rows in (ground.given, ground.samples, sweeps.asked)]
        looks, fixed = [(self._number[s.source], s.dt, s.dt) for s in shape.shifts], list[tuple[int, int]]()
        for some in shape.scattered:
            states += [some.valid, some.xs]
            for times, valid in zip(some.times.T, some.valid.T, strict=True):
                moves = times - grid.table()[:, T]
                if not valid.any():
                    continue
                if (times[valid] == times[valid][0]).all() and (moves[valid] != moves[valid][0]).any():
                    fixed.append((self._number[some.source], int(times[valid][0])))
                else:
                    looks.append((self._number[some.source], int(moves[valid].min()), int(moves[valid].max())))
                    states.append(np.where(valid, moves, 0))
        rows = [np.asarray(each).reshape(grid.shape[0], -1) for each in states if each is not None]
        times = grid.times if sweeps.structure.has_samples[node] else np.zeros(1, np.int64)
        return _Line(times, np.concatenate(rows, axis=1).astype(np.int64), looks, fixed)


def _zone(short: _Line, long: _Line, period: int) -> _Zone:
    """Returns the zone where the states of the long line are the short line's states with a period inserted.

    Without such an insertion, the zone ends before it begins.
    """
    low, high = (int(end) for end in (min(short.times[0], long.times[0]), max(short.times[-1], long.times[-1])))
    if high - low > _MOST_TIMES:
        return _Zone(_NEVER, low)
    times = np.arange(low - period, high + 1)
    changes = times[_differ(short, long, times, 0)]
    moves = times[_differ(short, long, times, period)]
    return _Zone(int(moves[-1]) + 1 if len(moves) else -_NEVER, int(changes[0]) if len(changes) else _NEVER)


def _differ(short: _Line, long: _Line, times: npt.NDArray[np.int64], move: int) -> npt.NDArray[np.bool_]:
    """Returns for times t if the state of the short line differs from the long line's at t + move, (times,)."""
    positions = [_positions(line.times, at) for line, at in ((short, times), (long, times + move))]
    both = (positions[0] >= 0) & (positions[1] >= 0)
    differs = (positions[0] >= 0) != (positions[1] >= 0)
    differs[both] = (short.states[positions[0][both]] != long.states[positions[1][both]]).any(axis=1)
    return differs


def _positions(known: npt.NDArray[np.int64], times: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    position = np.minimum(np.searchsorted(known, times), len(known) - 1)
    return np.where(known[position] == times, position, -1)


def _zone_of_limits(short: tuple[int, int] | None, long: tuple[int, int] | None, period: int) -> _Zone:
    """Returns where a period is inserted into the times that have derivatives."""
    (first, last), (later_first, later_last) = (limits or _NO_LIMITS for limits in (short, long))
    end = min([_NEVER, *([min(last, later_last) + 1] if last != later_last else [])])
    end = min(end, first, later_first) if first != later_first else end
    begin = max(first, later_first - period) if later_first - period != first else -_NEVER
    if last < _NO_LIMITS[1] and later_last - period != last:
        begin = max(last, later_last - period) + 1
    return _Zone(begin, end)


def _missing(line: _Line, zone: _Zone, limits: _Zone, zones: Sequence[_Zone], period: int) -> int:
    """Returns by how many frames the zone is too short for the rules of a node, 0 if it is not."""
    first = max([zone.first, limits.first, *(zones[other].first - least for other, least, _ in line.looks)])
    end = min([zone.end, limits.end, *(zones[other].end - greatest for other, _, greatest in line.looks)])
    missing = [0, *(time + 1 - zones[other].end for other, time in line.fixed)]
    before, inside = line.times < zone.first, (line.times >= zone.first) & (line.times < zone.end)
    behind = line.times >= zone.end
    if inside.any():
        missing.append(period - (end - first))
    if before.any():
        missing.append(int(line.times[before][-1]) + 1 - end)
    if behind.any():
        missing.append(first - int(line.times[behind][0]))
    return max(missing)
