"""ComputationRequest: the given inputs and the wanted outputs, and the task of compiling for them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import chain
from typing import Any

import numpy as np

from nnet3.compiler.nnet_source import nnet_source
from nnet3.driver import (
    FEWEST_MORE,
    FEWEST_SEQUENCES,
    CompileTask,
    LengthForm,
    RaggedForm,
    SequencesForm,
    rounded_up,
    steps_beyond,
)
from nnet3.errors import ArgumentError, RequestError, check_kind
from nnet3.families.ragged_rows import NotRaggedError
from nnet3.index import N, T, X, as_index_table, find_rows, format_indexes, has_duplicates
from nnet3.lowering.source import LoweringRequest, RequestedRows
from nnet3.lowering.structure import structure_of
from nnet3.nnet.network import Nnet
from nnet3.options import CompileOptions
from nnet3.structure.nodes import ComponentNode, InputNode
from nnet3.text import did_you_mean

_INT32 = np.iinfo(np.int32)
_DEFAULT_OPTIONS = CompileOptions()
_FEWEST_RAGGED = 48  # periods of programs from which those for sequences of several lengths are made


@dataclass(frozen=True, eq=False)
class IoSpecification:
    """A named input or output: its indexes (rows, 3) n, t, x in the order of the rows of its matrix.

    `has_deriv`: for an input, that its derivative is wanted; for an output, that its derivative will be given.
    """

    name: str
    indexes: np.ndarray
    has_deriv: bool = False

    def __init__(self, name: str, indexes: Any, has_deriv: bool = False):
        check_kind(name, str, "the name of an input or output", "a str")
        check_kind(has_deriv, (bool, np.bool_), f"has_deriv of '{name}'", "True or False")
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "indexes", as_index_table(indexes, f"indexes of '{name}'"))
        object.__setattr__(self, "has_deriv", bool(has_deriv))

    def key(self) -> tuple[str, bytes, bool]:
        """Equal for equal specifications."""
        return self.name, self.indexes.tobytes(), self.has_deriv

    def __str__(self) -> str:
        return f"{self.name} {format_indexes(self.indexes)}{' with derivative' if self.has_deriv else ''}"


@dataclass(frozen=True, eq=False)
class ComputationRequest:
    """Inputs provided (for input nodes, or ready-made values of component nodes) and outputs wanted."""

    inputs: Sequence[IoSpecification]
    outputs: Sequence[IoSpecification]
    need_model_derivative: bool = False
    store_component_stats: bool = False

    def __post_init__(self) -> None:
        for kind in ("inputs", "outputs"):
            ios = getattr(self, kind)
            if not isinstance(ios, Sequence) or not all(isinstance(io, IoSpecification) for io in ios):
                alone = ": put it in a list" if isinstance(ios, IoSpecification) else ""
                shown = f"a {type(ios).__name__}{alone}" if not isinstance(ios, list | tuple) else repr(ios)[:80]
                raise ArgumentError(f"{kind} of a request must be a list of IoSpecification, got {shown}")
            object.__setattr__(self, kind, tuple(ios))
        for flag in ("need_model_derivative", "store_component_stats"):
            check_kind(getattr(self, flag), (bool, np.bool_), flag, "True or False")
            object.__setattr__(self, flag, bool(getattr(self, flag)))

    @property
    def needs_backward(self) -> bool:
        return any(io.has_deriv for io in (*self.inputs, *self.outputs)) or self.need_model_derivative

    @property
    def rows(self) -> list[np.ndarray]:
        """The indexes of all inputs and outputs."""
        return [io.indexes for io in (*self.inputs, *self.outputs)]

    def key(self) -> tuple[object, ...]:
        """Equal for equal requests: what a cache of computations looks up."""
        ios = tuple(io.key() for io in self.inputs), tuple(io.key() for io in self.outputs)
        return (*ios, self.need_model_derivative, self.store_component_stats)

    def check(self, nnet: Nnet) -> None:
        """Raise RequestError unless names, indexes and flags fit each other and the network."""
        if not isinstance(nnet, Nnet):
            hint = ": give its .nnet" if hasattr(nnet, "nnet") else ""
            raise RequestError(f"expected a network to compile, got {type(nnet).__name__}{hint}")
        if not self.outputs:
            raise RequestError("the request asks for no output")
        for kind, ios, names in (
            ("input", self.inputs, [n.name for n in nnet.nodes if isinstance(n, (InputNode, ComponentNode))]),
            ("output", self.outputs, self._output_names(nnet)),
        ):
            seen: set[str] = set()
            for io in ios:
                _check_io(kind, io, names, seen)
        if self.needs_backward and not any(io.has_deriv for io in self.outputs):
            raise RequestError("derivatives are asked for, but no output has has_deriv=True: nothing to start from")
        for name, component in nnet.components.items() if self.needs_backward else ():
            if component.inference_only:
                raise RequestError(
                    f"derivatives are asked for, but component '{name}' has none: {component.inference_only}"
                )

    def _output_names(self, nnet: Nnet) -> list[str]:
        """The nodes that outputs may name."""
        return nnet.output_names

    def task(self, network: Nnet, options: CompileOptions | None = None) -> CompileTask:
        """The task of compiling the request for a network as it is now. Raises RequestError unless they fit."""
        self.check(network)
        options, fingerprint = checked_options(options), network.fingerprint()
        name, times = "\n".join(chain(*fingerprint.items())), self.deriv_times(options)
        return CompileTask(
            {"nnet": name, "request": self.key()},
            lambda: (nnet_source(network), lowering_request(network, self, times)),
            options,
            fingerprint,
            partial(self._form, network, name, options),
            partial(self._ragged_form, network, options),
            self.ends_apart,
        )

    @cached_property
    def _length(self) -> int:
        """The time from the first to the last row of the shortest output.

        Where outputs have one time each and sequences are few, it is that of the shortest input.
        """
        outputs, inputs = ([int(np.ptp(io.indexes[:, T])) for io in ios] for ios in (self.outputs, self.inputs))
        if any(outputs) or self._more_sequences >= FEWEST_MORE:
            return min(outputs)
        return min(filter(None, inputs), default=0)

    @cached_property
    def _time_step(self) -> int:
        return math.lcm(*(_time_step(table[:, T]) for table in self.rows))

    def _form(self, network: Nnet, name: str, options: CompileOptions) -> LengthForm | None:
        """The request as one of those that end some steps of time earlier or later; None if it is too short for it."""
        if self.ends_apart:
            return None
        source = nnet_source(network)
        period = math.lcm(source.period or network.modulus, self._time_step)
        step = math.lcm(period, structure_of(source).lag)
        k = steps_beyond(self._length // period, step // period)
        if k < 0:
            return self._form_of_sequences(network, name, options)

        def shorter(j: int) -> tuple[CompileTask, Sequence[np.ndarray]]:
            request = self._ending_earlier((k - j) * step)
            return request.task(network, options), request.rows

        shortest = [self._ending_earlier((k - j) * step).key() for j in range(2)]
        key = {"nnet": name, "shortest": shortest, "step": step}
        sequences = partial(self._sequences_form, network, name, options, k, step)
        return LengthForm(key, k, self.rows, shorter, (0, step, 0), sequences)

    def _sequences_form(
        self, network: Nnet, name: str, options: CompileOptions, k: int, step: int
    ) -> SequencesForm | None:
        """The request as one of those for more or fewer sequences; None if they are not alike, or too few."""
        more = self._more_sequences
        if more < 1:
            return None

        def request(j: int, n: int) -> ComputationRequest:
            return self._ending_earlier((k - j) * step)._of_sequences(FEWEST_SEQUENCES + n)

        def member(j: int, n: int) -> tuple[CompileTask, Sequence[np.ndarray]]:
            return request(j, n).task(network, options), request(j, n).rows

        shortest = [request(j, n).key() for j in range(2) for n in range(2)]
        key = {"nnet": name, "shortest of few": shortest, "step": step}
        return SequencesForm(key, more, member)

    def _form_of_sequences(self, network: Nnet, name: str, options: CompileOptions) -> LengthForm | None:
        """The request, too short for others of its kind, as one of those for more or fewer sequences."""
        more = self._more_sequences
        if more < FEWEST_MORE:
            return None

        def fewer(n: int) -> tuple[CompileTask, Sequence[np.ndarray]]:
            request = self._of_sequences(FEWEST_SEQUENCES + n)
            return request.task(network, options), request.rows

        shortest = [self._of_sequences(FEWEST_SEQUENCES + n).key() for n in range(2)]
        key = {"nnet": name, "shortest of few": shortest, "step": 0}
        return LengthForm(key, more, self.rows, fewer, (1, 0, 0))

    @cached_property
    def _more_sequences(self) -> int:
        """The number of sequences beyond the fewest; -1 unless they are 0, 1, ..., and have equally many rows."""
        number = int(self.rows[0][:, N].max()) + 1
        return max(-1, number - FEWEST_SEQUENCES) if all(_are_alike(table[:, N], number) for table in self.rows) else -1

    @cached_property
    def _ends(self) -> np.ndarray | None:
        """The last time of each sequence in each input and output, (tables, sequences); None unless all have all."""
        count = int(self.rows[0][:, N].max()) + 1
        if count > min(map(len, self.rows)):
            return None
        ends = np.full((len(self.rows), max(1, count)), _INT32.min, dtype=np.int64)
        for row, table in zip(ends, self.rows, strict=True):
            if table[:, N].min() < 0 or table[:, N].max() != count - 1:
                return None
            np.maximum.at(row, table[:, N], table[:, T])
        return ends if (ends > _INT32.min).all() else None

    @property
    def ends_apart(self) -> bool:
        """True if its sequences, 0, 1, ..., end at different times."""
        return self._ends is not None and bool((self._ends != self._ends[:, :1]).any())

    def _ragged_form(self, network: Nnet, options: CompileOptions) -> RaggedForm | None:
        """The request as one for longer sequences that are all alike, of which some end earlier; None if all end alike.

        Raises NotRaggedError if it is not.
        """
        if not self.ends_apart:
            return None
        if self.deriv_times(options) is not None:
            raise NotRaggedError("derivatives are limited to a range of times")
        ends = self._ends
        assert ends is not None
        period = math.lcm(nnet_source(network).period or network.modulus, self._time_step)
        output_ends = ends[len(self.inputs)]
        longest = int(np.argmax(output_ends))
        missing = output_ends[longest] - output_ends
        numbers = np.argsort(missing, kind="stable")
        periods = int(output_ends[longest] - self.outputs[0].indexes[:, T].min()) // period + 1
        more = max(_FEWEST_RAGGED, rounded_up(periods)) - periods
        longer, lasting = list[IoSpecification](), set[str]()
        for io, own_ends in zip((*self.inputs, *self.outputs), ends, strict=True):
            cells = _cells_of(io.indexes, longest)
            if (own_ends == own_ends[0]).all():
                lasting.add(io.name)
            else:
                margin = (own_ends - output_ends).min()
                if io in self.outputs and (own_ends - output_ends != margin).any():
                    raise NotRaggedError("outputs of a sequence do not end together")
                cells = cells[cells[:, T] <= output_ends[longest] + margin]
            if io.name not in lasting:
                cells = _continued(cells, period, more)
            if not _begin_alike(io.indexes, cells, own_ends):
                raise NotRaggedError(f"rows of {io.name} differ by more than where sequences end")
            by_time = bool((np.diff(io.indexes[:, N]) < 0).any())
            longer.append(IoSpecification(io.name, _of_all(cells, rounded_up(len(numbers)), by_time), io.has_deriv))
        if not missing.any():
            raise NotRaggedError("outputs of all sequences end together, inputs do not")
        unit = int(np.gcd.reduce(missing, initial=period))
        inputs = len(self.inputs)
        of_all = replace(self, inputs=longer[:inputs], outputs=longer[inputs:])
        disabled = options.disabled_passes | {"share_copies", "work_in_place"}
        return RaggedForm(
            of_all.task(network, options),
            partial(of_all.task, network, replace(options, disabled_passes=disabled)),
            period,
            unit,
            ((missing[numbers] + more * period) // unit).tolist(),
            numbers.tolist(),
            {io.name: io.indexes for io in (*self.inputs, *self.outputs)},
            frozenset(lasting),
        )

    def _ending_earlier(self, time: int) -> ComputationRequest:
        """The request without the last times of each input and output that is long enough.

        Outputs of one time that is nearer to the end of the input than to its beginning end as much earlier.
        """

        def cut(io: IoSpecification) -> IoSpecification:
            times = io.indexes[:, T]
            kept = io.indexes[times <= times.max() - time]
            return IoSpecification(io.name, kept if len(kept) else io.indexes, io.has_deriv)

        def cut_output(io: IoSpecification) -> IoSpecification:
            first, last = self._ends_of_input
            at = int(io.indexes[0, T])
            if (io.indexes[:, T] != at).any() or last - at >= at - first:
                return cut(io)
            moved = io.indexes.copy()
            moved[:, T] -= time
            return IoSpecification(io.name, moved, io.has_deriv)

        return replace(self, inputs=tuple(map(cut, self.inputs)), outputs=tuple(map(cut_output, self.outputs)))

    @cached_property
    def _ends_of_input(self) -> tuple[int, int]:
        """The first and the last time of the shortest input of several times; those of the first input if none has."""
        times = [io.indexes[:, T] for io in self.inputs]
        shortest = min(times, key=lambda each: (np.ptp(each) == 0, np.ptp(each)))
        return int(shortest.min()), int(shortest.max())

    def _of_sequences(self, number: int) -> ComputationRequest:
        """The request for the first sequences alone."""

        def cut(io: IoSpecification) -> IoSpecification:
            return IoSpecification(io.name, io.indexes[io.indexes[:, N] < number], io.has_deriv)

        return replace(self, inputs=tuple(map(cut, self.inputs)), outputs=tuple(map(cut, self.outputs)))

    def deriv_times(self, options: CompileOptions) -> tuple[int, int] | None:
        """The first and the last t with derivatives; None for no limits. Raises RequestError if there is none."""
        first, last = options.min_deriv_time, options.max_deriv_time
        if options.max_deriv_time_relative is not None:
            times = [io.indexes[:, T].max() for io in self.outputs if len(io.indexes)]
            last = int(max(times, default=0)) + options.max_deriv_time_relative
        if first is None and last is None:
            return None
        first = int(_INT32.min) if first is None else first
        last = int(_INT32.max) if last is None else last
        if first > last:
            raise RequestError(
                f"min_deriv_time is {first}, but max_deriv_time_relative = {options.max_deriv_time_relative} ends "
                f"derivatives at t = {last}: give a larger one, or an earlier min_deriv_time"
            )
        return first, last

    def __str__(self) -> str:
        lines = [f"input {io}" for io in self.inputs] + [f"output {io}" for io in self.outputs]
        flags = [name for name in ("need_model_derivative", "store_component_stats") if getattr(self, name)]
        return "\n".join(lines + flags)


class StateRequest(ComputationRequest):
    """A request of a stream: outputs may also name component nodes, whose rows the next request is given."""

    def _output_names(self, nnet: Nnet) -> list[str]:
        return [*nnet.output_names, *(node.name for node in nnet.nodes if isinstance(node, ComponentNode))]

    def _form(self, network: Nnet, name: str, options: CompileOptions) -> LengthForm | None:
        """The request as one for more or fewer sequences: its length is not free."""
        return self._form_of_sequences(network, name, options)


def _time_step(times: np.ndarray) -> int:
    """The greatest common distance of times; 1 if there is only one."""
    return int(np.gcd.reduce(times - times[:1].astype(np.int64), initial=0)) or 1


def _are_alike(sequences: np.ndarray, number: int) -> bool:
    """True if the rows of a table are of so many sequences, 0, 1, ..., and equally many of each."""
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
    """True if each sequence has those of these cells that lie before its end, and no others but later ones."""
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
    """Returns these cells of so many sequences: one time after the other, or one sequence after the other."""
    rows = np.repeat(cells, sequences, axis=0) if by_time else np.tile(cells, (sequences, 1))
    rows[:, N] = np.tile(np.arange(sequences), len(cells)) if by_time else np.repeat(np.arange(sequences), len(cells))
    return rows


def check_request(nnet: Nnet, request: ComputationRequest) -> None:
    """Raise ArgumentError for something that is no request, RequestError for one that does not fit the network."""
    check_kind(request, ComputationRequest, "the request", "a ComputationRequest")
    request.check(nnet)


def checked_options(options: CompileOptions | None) -> CompileOptions:
    """The options, or the default ones. Raises ArgumentError for something else."""
    check_kind(options, (CompileOptions, type(None)), "the options of compile", "CompileOptions")
    return _DEFAULT_OPTIONS if options is None else options


def lowering_request(
    nnet: Nnet, request: ComputationRequest, deriv_times: tuple[int, int] | None = None
) -> LoweringRequest:
    """The request in terms of node numbers; derivatives only for t from deriv_times[0] to deriv_times[1]."""

    def rows(io: IoSpecification) -> RequestedRows:
        return RequestedRows(nnet.node_number[io.name], io.name, io.indexes, io.has_deriv)

    return LoweringRequest(
        [rows(io) for io in request.inputs],
        [rows(io) for io in request.outputs],
        request.need_model_derivative,
        request.store_component_stats,
        deriv_times=deriv_times,
    )


def _check_io(kind: str, io: IoSpecification, names: list[str], seen: set[str]) -> None:
    if io.name not in names:
        hint = did_you_mean(io.name, names) or f"it has {', '.join(names)}"
        raise RequestError(f"the network has no {kind} '{io.name}'; {hint}")
    if io.name in seen:
        raise RequestError(f"{kind} '{io.name}' occurs twice in the request")
    seen.add(io.name)
    if len(io.indexes) == 0:
        raise RequestError(f"{kind} '{io.name}' has no indexes")
    if has_duplicates(io.indexes):
        first = find_rows(io.indexes, io.indexes)
        row = int(np.flatnonzero(first != np.arange(len(first)))[0])
        index = tuple(int(v) for v in io.indexes[row])
        raise RequestError(f"{kind} '{io.name}' has index (n, t, x) = {index} twice (again in row {row})")
