"""RequestSeries: the place of a request among requests with other lengths and numbers of sequences."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property, partial
from typing import Any, ClassVar, Protocol

import numpy as np

from nnet3.base.index import N, T, X, find_rows
from nnet3.base.options.compiling import CompileOptions
from nnet3.engine.driver import (
    FEWEST_MORE,
    FEWEST_SEQUENCES,
    CompileTask,
    LengthSeries,
    RaggedRelation,
    SequencesSeries,
    increments_beyond,
    rounded_up,
    rows_apart,
)
from nnet3.engine.families.ragged_rows import NotRaggedError
from nnet3.engine.lowering.structure import structure_of
from nnet3.model.nnet.network import Nnet
from nnet3.model.requests.io_specification import IoSpecification
from nnet3.model.requests.nnet_source import nnet_source

_EARLIEST = np.iinfo(np.int32).min
_FEWEST_RAGGED = 48  # periods of programs from which those for sequences of several lengths are made


class SeriesRequest(Protocol):
    """The members of a `ComputationRequest` that tell its series."""

    length_is_free: ClassVar[bool]

    @property
    def inputs(self) -> Sequence[IoSpecification]: ...

    @property
    def outputs(self) -> Sequence[IoSpecification]: ...

    @property
    def rows(self) -> list[np.ndarray]: ...

    def with_rows(self, inputs: Sequence[IoSpecification], outputs: Sequence[IoSpecification]) -> SeriesRequest:
        """Returns the request for other rows."""

    def key(self) -> tuple[object, ...]: ...

    def task(self, network: Any, options: CompileOptions | None = None) -> CompileTask: ...

    def deriv_times(self, options: CompileOptions) -> tuple[int, int] | None: ...


@dataclass(frozen=True, eq=False)
class RequestSeries:
    """The rows of tasks to which that of a request for a network belongs. `name`: the network's, in keys of series."""

    request: SeriesRequest
    network: Nnet
    name: str
    options: CompileOptions

    @cached_property
    def _length(self) -> int:
        """The time from the first to the last row of the shortest output.

        Where outputs have one time each and sequences are few, the length is the shortest input's.
        """
        outputs, inputs = (
            [int(np.ptp(io.indexes[:, T])) for io in ios] for ios in (self.request.outputs, self.request.inputs)
        )
        if any(outputs) or self._more_sequences >= FEWEST_MORE:
            return min(outputs)
        return min(filter(None, inputs), default=0)

    @cached_property
    def _time_step(self) -> int:
        return math.lcm(*(_time_step(table[:, T]) for table in self.request.rows))

    def by_length(self) -> LengthSeries | None:
        """Returns the series of requests that end some steps earlier or later; None for a request too short."""
        if not self.request.length_is_free:
            return self._series_of_sequences()
        if self.is_ragged():
            return None
        source = nnet_source(self.network)
        period = math.lcm(source.period or self.network.modulus, self._time_step)
        increment = math.lcm(period, structure_of(source).lag)
        k = increments_beyond(self._length // period, increment // period)
        if k < 0:
            return self._series_of_sequences()

        ending = cache(lambda j: self._ending_earlier((k - j) * increment))

        @cache
        def shorter(j: int) -> tuple[CompileTask, Sequence[np.ndarray]]:
            return ending(j).task(self.network, self.options), ending(j).rows

        shortest = [ending(j).key() for j in range(2)]
        key = {"nnet": self.name, "shortest": shortest, "increment": increment}
        sequences = partial(self._sequences_series, ending, increment)
        return LengthSeries(key, k, self.request.rows, shorter, (0, increment, 0), sequences)

    def _sequences_series(self, ending: Callable[[int], SeriesRequest], increment: int) -> SequencesSeries | None:
        """Returns the series of requests for more or fewer sequences; None for unlike sequences, or too few."""
        more = self._more_sequences
        if more < 1:
            return None

        def request(j: int, n: int) -> SeriesRequest:
            return _of_sequences(ending(j), FEWEST_SEQUENCES + n)

        def member(j: int, n: int) -> tuple[CompileTask, Sequence[np.ndarray]]:
            return request(j, n).task(self.network, self.options), request(j, n).rows

        shortest = [request(j, n).key() for j in range(2) for n in range(2)]
        key = {"nnet": self.name, "shortest of few": shortest, "increment": increment}
        return SequencesSeries(key, more, member)

    def _series_of_sequences(self) -> LengthSeries | None:
        """Returns the series of requests for more or fewer sequences; used where the request is too short to vary."""
        more = self._more_sequences
        if more < FEWEST_MORE:
            return None

        def fewer(n: int) -> tuple[CompileTask, Sequence[np.ndarray]]:
            request = _of_sequences(self.request, FEWEST_SEQUENCES + n)
            return request.task(self.network, self.options), request.rows

        shortest = [_of_sequences(self.request, FEWEST_SEQUENCES + n).key() for n in range(2)]
        key = {"nnet": self.name, "shortest of few": shortest, "increment": 0}
        return LengthSeries(key, more, self.request.rows, fewer, (1, 0, 0))

    @cached_property
    def _more_sequences(self) -> int:
        """The number of sequences beyond the fewest; -1 unless they are 0, 1, ..., and have equally many rows."""
        number = int(self.request.rows[0][:, N].max()) + 1
        return (
            max(-1, number - FEWEST_SEQUENCES)
            if all(_are_alike(table[:, N], number) for table in self.request.rows)
            else -1
        )

    @cached_property
    def _ends(self) -> np.ndarray | None:
        """The last time of each sequence in each input and output, (tables, sequences); None unless all have all."""
        rows = self.request.rows
        count = int(rows[0][:, N].max()) + 1
        if count > min(map(len, rows)):
            return None
        ends = np.full((len(rows), max(1, count)), _EARLIEST, dtype=np.int64)
        for row, table in zip(ends, rows, strict=True):
            if table[:, N].min() < 0 or table[:, N].max() != count - 1:
                return None
            np.maximum.at(row, table[:, N], table[:, T])
        return ends if (ends > _EARLIEST).all() else None

    def is_ragged(self) -> bool:
        """Returns true if its sequences, 0, 1, ..., end at different times."""
        return self._ends is not None and bool((self._ends != self._ends[:, :1]).any())

    def ragged(self) -> RaggedRelation | None:
        """The relation of the request to one for longer sequences, all alike, of which some end earlier; None if all
        end alike.

        Raises NotRaggedError for a request without this relation.
        """
        if not self.is_ragged():
            return None
        if self.request.deriv_times(self.options) is not None:
            raise NotRaggedError("derivatives are limited to a range of times")
        ends = self._ends
        assert ends is not None
        period = math.lcm(nnet_source(self.network).period or self.network.modulus, self._time_step)
        output_ends = ends[len(self.request.inputs)]
        longest = int(np.argmax(output_ends))
        missing = output_ends[longest] - output_ends
        numbers = np.argsort(missing, kind="stable")
        periods = int(output_ends[longest] - self.request.outputs[0].indexes[:, T].min()) // period + 1
        more = max(_FEWEST_RAGGED, rounded_up(periods)) - periods
        longer: list[IoSpecification] = []
        lasting = set[str]()
        for io, own_ends in zip((*self.request.inputs, *self.request.outputs), ends, strict=True):
            cells = _cells_of(io.indexes, longest)
            if (own_ends == own_ends[0]).all():
                lasting.add(io.name)
            else:
                margin = (own_ends - output_ends).min()
                if io in self.request.outputs and (own_ends - output_ends != margin).any():
                    raise NotRaggedError("outputs of a sequence do not end together")
                cells = cells[cells[:, T] <= output_ends[longest] + margin]
            if io.name not in lasting:
                cells = _continued(cells, period, more)
            if not _begin_alike(io.indexes, cells, own_ends):
                raise NotRaggedError(f"rows of {io.name} differ by more than where sequences end")
            by_time = bool((np.diff(io.indexes[:, N]) < 0).any())
            longer.append(replace(io, indexes=_of_all(cells, rounded_up(len(numbers)), by_time)))
        if not missing.any():
            raise NotRaggedError("outputs of all sequences end together, inputs do not")
        granularity = int(np.gcd.reduce(missing, initial=period))
        inputs = len(self.request.inputs)
        of_all = self.request.with_rows(longer[:inputs], longer[inputs:])
        return RaggedRelation(
            of_all.task(self.network, self.options),
            partial(of_all.task, self.network, rows_apart(self.options)),
            period,
            granularity,
            ((missing[numbers] + more * period) // granularity).tolist(),
            numbers.tolist(),
            {io.name: io.indexes for io in (*self.request.inputs, *self.request.outputs)},
            frozenset(lasting),
        )

    def _ending_earlier(self, time: int) -> SeriesRequest:
        """Returns the request without the last times of each input and output of sufficient length.

        Outputs of one time nearer to the end of the input than to its beginning end as much earlier.
        """

        def cut(io: IoSpecification) -> IoSpecification:
            times = io.indexes[:, T]
            kept = io.indexes[times <= times.max() - time]
            return replace(io, indexes=kept if len(kept) else io.indexes)

        def cut_output(io: IoSpecification) -> IoSpecification:
            first, last = self._ends_of_input
            at = int(io.indexes[0, T])
            if (io.indexes[:, T] != at).any() or last - at >= at - first:
                return cut(io)
            moved = io.indexes.copy()
            moved[:, T] -= time
            return replace(io, indexes=moved)

        request = self.request
        return request.with_rows(tuple(map(cut, request.inputs)), tuple(map(cut_output, request.outputs)))

    @cached_property
    def _ends_of_input(self) -> tuple[int, int]:
        """The first and the last time of the shortest input of several times; those of the first input if none has."""
        times = [io.indexes[:, T] for io in self.request.inputs]
        shortest = min(times, key=lambda each: (np.ptp(each) == 0, np.ptp(each)))
        return int(shortest.min()), int(shortest.max())


def _of_sequences(request: SeriesRequest, number: int) -> SeriesRequest:
    """Returns the request for the first sequences alone."""

    def cut(io: IoSpecification) -> IoSpecification:
        return replace(io, indexes=io.indexes[io.indexes[:, N] < number])

    return request.with_rows(tuple(map(cut, request.inputs)), tuple(map(cut, request.outputs)))


def _time_step(times: np.ndarray) -> int:
    """Returns the greatest common distance of times; 1 if there is only one."""
    return int(np.gcd.reduce(times - times[:1].astype(np.int64), initial=0)) or 1


def _are_alike(sequences: np.ndarray, number: int) -> bool:
    """Returns true if rows belong to sequences 0 .. `number` - 1, with equally many rows each."""
    if sequences.min() < 0 or sequences.max() != number - 1 or number > len(sequences):
        return False
    counts = np.bincount(sequences)
    return bool((counts == counts[0]).all())


def _cells_of(indexes: np.ndarray, sequence: int) -> np.ndarray:
    """Returns the rows of one sequence by t and x, with n = 0."""
    cells = indexes[indexes[:, N] == sequence]
    cells = cells[np.lexsort((cells[:, X], cells[:, T]))]
    cells[:, N] = 0
    return cells


def _begin_alike(indexes: np.ndarray, cells: np.ndarray, ends: np.ndarray) -> bool:
    """Returns true if each sequence has the given cells up to its end, and further ones only after the last of them."""
    rows = indexes[indexes[:, T] <= cells[-1, T]]
    counts = np.searchsorted(cells[:, T], ends, side="right")
    if (np.bincount(rows[:, N], minlength=len(ends)) != counts).any():
        return False
    rows[:, N] = 0
    return bool((find_rows(cells, rows) >= 0).all())


def _continued(cells: np.ndarray, period: int, periods: int) -> np.ndarray:
    """Returns the cells, sorted by time, with their last period repeated."""
    last = cells[cells[:, T] > cells[-1, T] - period]
    more = np.tile(last, (periods, 1))
    more[:, T] += np.repeat(period * np.arange(1, periods + 1), len(last)).astype(np.int32)
    return np.concatenate([cells, more])


def _of_all(cells: np.ndarray, sequences: int, by_time: bool) -> np.ndarray:
    """Returns the cells repeated for `sequences` sequences: ordered by time, or sequence after sequence."""
    rows = np.repeat(cells, sequences, axis=0) if by_time else np.tile(cells, (sequences, 1))
    rows[:, N] = np.tile(np.arange(sequences), len(cells)) if by_time else np.repeat(np.arange(sequences), len(cells))
    return rows
