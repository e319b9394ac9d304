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

Where the zones between b and a are longer than the rules ask for, periods can be taken out as well, by the same
argument: so much is *spare*, and shorter requests follow too. `EarlierEnds` makes use of it.

A node that adds x(t - 20), where there is such a frame, to x(t) does not do so within 16 frames, and 41 are needed
for a frame that adds and is added:

>>> from tests.lowering.examples import echo
>>> [frames_missing(echo(length).sweeps, echo(length + 1).sweeps, 1) for length in (16, 40, 41)]
[5, 1, 0]
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import starmap
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from nnet3.base.index import T
from nnet3.engine.ir.objects import present
from nnet3.engine.lowering.grids import positions_of
from nnet3.engine.lowering.slot_table import Mask
from nnet3.engine.lowering.source import GraphRules, LoweringRequest
from nnet3.engine.lowering.sweeps import Sweeps, finished_sweeps

_NEVER = 2**40  # a time that no row has
_MOST_TIMES = 2**20
_NO_LIMITS = -(2**31), 2**31 - 1


def frames_missing(short: Sweeps, long: Sweeps, period: int) -> int | None:
    """Returns by how many frames two requests, with finished sweeps, are too short to tell about all longer ones.

    `period`: the frames by which the second request is longer than the first; 0 for more sequences of equal lengths.
    None for requests that are not alike, and for requests that tell nothing at any length.
    """
    if period and not all(_repeats(sweeps.source, period) for sweeps in (short, long)):
        return None
    one, other = _History(short), _History(long)
    if one.outline != other.outline:
        return None
    zones = _zones(one, other, period)
    missing = max([0, *(period - (zone.end - zone.first) for zone in zones)])
    if not missing:
        limits = _zone_of_limits(short.request.deriv_times, long.request.deriv_times, period)
        pairs = zip(one.lines, zones, strict=True)
        missing = max([0, *(_missing(line, zone, limits, zones, period) for line, zone in pairs)])
    return None if missing and (period == 0 or missing > _MOST_TIMES) else missing


class EarlierEnds:
    """Proves that two requests which end earlier than a long one differ from it in the same way.

    Take the long request, and those that end s and s + P earlier, as in the proof above. Each row of the shortest at t
    is that of the other at t, and the long one's at t, if everything at which its rules look lies before the ends of
    the zones. It is that of the other at t + P, and the long one's at t + P, from the beginnings of the zones on, as
    long as the long one still has its zones there. If every row of the shortest is in one case or the other, whatever
    is found by comparing the graphs row by row is found for both or for neither.
    """

    def __init__(self, ending: Callable[[int], LoweringRequest], period: int) -> None:
        """`ending`: the request that ends so many frames earlier than the longest."""
        self._ending, self._period = ending, period
        self._alike: dict[int, tuple[int, int]] = {}  # the least and the most frames that are alike, by rest

    def alike(self, source: GraphRules, time: int) -> int:
        """Returns the least time such that ending this much earlier is like ending `time` earlier."""
        rest = time % self._period
        if rest not in self._alike:
            self._alike[rest] = self._find(source, rest)
        least, most = self._alike[rest]
        return least if least <= time <= most else time

    def _find(self, source: GraphRules, rest: int) -> tuple[int, int]:
        """Returns the least and the most time of this rest that are alike; the least is larger if none are."""
        period, nothing = self._period, (0, -1)
        if not _repeats(source, period):
            return nothing
        times = {0, period, rest, rest + period}
        ends = {time: _History(finished_sweeps(source, self._ending(time))) for time in times}
        short = ends[rest + period]
        if any(each.outline != short.outline for each in ends.values()):
            return nothing
        of_longest, own = _zones(ends[period], ends[0], period), _zones(short, ends[rest], period)
        zones = [_Zone(max(one.first, other.first), other.end) for one, other in zip(of_longest, own, strict=True)]
        lines = list(zip(short.lines, zones, of_longest, strict=True))
        missing = [
            max(period - (zone.end - zone.first), _missing(line, zone, _EVERYWHERE, zones, period))
            for line, zone, _ in lines
        ]
        spare = -max(missing, default=0)
        behind = [
            line.last + 1 - _zone_of_rules(line, known, _EVERYWHERE, of_longest).end
            for line, zone, known in lines
            if line.last >= zone.first
        ]
        periods = max([0, *(-(-each // period) for each in behind)])
        return rest + periods * period, rest + (1 + spare // period) * period


def _repeats(rules: GraphRules, period: int) -> bool:
    return rules.period is not None and period % rules.period == 0


def _zones(short: _History, long: _History, period: int) -> list[_Zone]:
    """Returns the zones where the states of the long lines are the short lines' states with a period inserted.

    Without such an insertion, a zone ends before it begins.
    """
    zones = [_Zone(_NEVER, -_NEVER)] * len(short.lines)
    groups: dict[tuple[int, int], list[int]] = defaultdict(list)  # nodes of a grid share its times
    for number, (one, other) in enumerate(zip(short.lines, long.lines, strict=True)):
        groups[id(one.times), id(other.times)].append(number)
    for numbers in groups.values():
        own, others = ([history.lines[number] for number in numbers] for history in (short, long))
        for number, zone in zip(numbers, _zones_of_grid(own, others, period), strict=False):
            zones[number] = zone
    return zones


class _Zone(NamedTuple):
    """The position where periods are inserted: nothing changes before `end`, what is from `first` on moves on."""

    first: int
    end: int


_EVERYWHERE = _Zone(-_NEVER, _NEVER)


@dataclass(frozen=True, eq=False)
class _Line:
    """The states of a node: a row of numbers for each time of the node, in ascending order. `needed`: its needed rows.

    `looks`: (line, least distance, greatest distance) of every slot of the node, and of every slot of a user that
    looks at the node. `fixed`: (line, time) of slots that look at one time only.
    """

    needed: Mask | None  # (times, xs, classes)
    times: npt.NDArray[np.int64]
    states: npt.NDArray[Any]  # (times, numbers)
    looks: list[tuple[int, int, int]]
    fixed: list[tuple[int, int]]

    @cached_property
    def last(self) -> int:
        """The last needed time."""
        times = self.times[:0] if self.needed is None else self.times[self.needed.any(axis=(1, 2))]
        return int(times[-1]) if len(times) else -_NEVER


class _History:
    """The states of all nodes in the domain of a request."""

    def __init__(self, sweeps: Sweeps) -> None:
        self._sweeps = sweeps
        self._computabilities = [sweeps.computability, *([sweeps.best()] if sweeps.at_edge else [])]
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
        grid, shape = ground.domain.grid(node), present(ground.domain.shapes[node])
        states: list[np.ndarray | None] = [sweeps.need[node], np.zeros(grid.shape[0], bool)]  # the second is never None
        states += [part[node] for each in self._computabilities for part in (each.known, each.used)]
        states += [rows.get(node) for rows in (ground.given, ground.samples, sweeps.asked)]
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
        rows = [each.reshape(grid.shape[0], -1) for each in states if each is not None]
        times = grid.times if sweeps.structure.has_samples[node] else np.zeros(1, np.int64)
        return _Line(sweeps.need[node], times, np.concatenate(rows, axis=1), looks, fixed)


def _zones_of_grid(short: Sequence[_Line], long: Sequence[_Line], period: int) -> Iterator[_Zone]:
    """Yields the zones of lines that have the same times; none for too many times."""
    own, others = short[0].times, long[0].times
    low, high = int(min(own[0], others[0])) - period, int(max(own[-1], others[-1]))
    if high - low > _MOST_TIMES:
        return
    times = np.arange(low, high + 1)
    states, later = (np.concatenate([line.states for line in lines], axis=1) for lines in (short, long))
    starts = np.cumsum([0, *(line.states.shape[1] for line in short[:-1])])
    differs = np.empty((2, len(times), len(short)), bool)  # at the same times, and a period later in the long lines
    for move, found in zip((0, period), differs, strict=True):
        rows, moved = positions_of(own, times), positions_of(others, times + move)
        found[:] = ((rows >= 0) != (moved >= 0))[:, np.newaxis]
        both = np.flatnonzero((rows >= 0) & (moved >= 0))
        found[both] = np.logical_or.reduceat(states[rows[both]] != later[moved[both]], starts, axis=1)
    changes, moves = differs
    ends = np.where(changes.any(axis=0), low + changes.argmax(axis=0), _NEVER)
    firsts = np.where(moves.any(axis=0), low + len(times) - moves[::-1].argmax(axis=0), -_NEVER)
    yield from starmap(_Zone, zip(firsts.tolist(), ends.tolist(), strict=True))


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
    """Returns by how many frames the zone is too short for the rules of a node; negative for spare frames."""
    first, end = _zone_of_rules(line, zone, limits, zones)
    missing = [-_NEVER, *(time + 1 - zones[other].end for other, time in line.fixed)]
    times = line.times.tolist()
    inside, behind = bisect_left(times, zone.first), bisect_left(times, zone.end)
    if inside < behind:
        missing.append(period - (end - first))
    if inside:
        missing.append(times[inside - 1] + 1 - end)
    if behind < len(times):
        missing.append(first - times[behind])
    return max(missing)


def _zone_of_rules(line: _Line, zone: _Zone, limits: _Zone, zones: Sequence[_Zone]) -> _Zone:
    """Returns the times at which the rules of a node look at zones alone, of its own and of others."""
    return _Zone(
        max([zone.first, limits.first, *(zones[other].first - least for other, least, _ in line.looks)]),
        min([zone.end, limits.end, *(zones[other].end - greatest for other, _, greatest in line.looks)]),
    )
