"""Dead code elimination: commands without readers of their results, matrices without users."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from nnet3.base.index import distinct
from nnet3.engine.ir.analysis import READ, WRITE, Analysis, analyse
from nnet3.engine.ir.computation import NnetComputation
from nnet3.engine.ir.declarations import AccessMode, Command, OperandField, Role, with_values
from nnet3.engine.ir.variables import Integers


def dead_code(computation: NnetComputation) -> NnetComputation:
    """Drop commands with neither side effects nor readers.

    An optional result of a command (an optional operand, a memo) without readers becomes 0, or -1.
    """
    needs = _Needs(analyse(computation))
    narrowed = needs.narrowed_commands()
    if not narrowed and needs.is_needed.all():
        return computation
    result = computation.copy()
    for number, command in narrowed.items():
        result.commands[number] = command
    result.commands = [result.commands[number] for number in np.flatnonzero(needs.is_needed).tolist()]
    return result


class _Result(NamedTuple):
    """A sub-matrix that a command fills and need not fill."""

    command: int
    field: str
    position: int
    submatrix: int
    is_added_to: bool


class _Needs:
    """Liveness: commands with side effects are needed, and every command with a result read by a needed command.

    `is_needed` is a mask, (commands,). A command adding to a result reads it, but needs it only if the sum is read.
    """

    def __init__(self, analysis: Analysis) -> None:
        self.analysis, self.commands = analysis, analysis.computation.commands
        accesses = analysis.accesses
        self.makers, self.memo_uses = accesses.memo_makers, accesses.memo_uses
        self.results = self._optional_results()
        self.event_is_read = np.zeros(len(analysis.event_command) + 1, dtype=bool)  # the last one: of memos
        # All events of a result that is added to are one: the command reads the whole of it if any part is read.
        self._shared = np.arange(len(self.event_is_read))
        self.is_needed = self._find()
        self._leave_matrices()

    def _acting(self) -> np.ndarray:
        """Returns the roots of liveness, a mask (commands,): commands that stay even without readers of results."""
        analysis = self.analysis
        acting = np.ones(analysis.num_commands, dtype=bool)
        acting[analysis.accesses.command] = False
        outside = np.isin(analysis.matrix_of_access, list(analysis.computation.outside_by_matrix()))
        acting[analysis.accesses.command[outside & ((analysis.accesses.mode & WRITE) != 0)]] = True
        for command_class, numbers in analysis.accesses.numbers_of_class.items():
            if command_class.role is not Role.COMPUTE:
                acting[numbers] = True
            elif command_class.schema.effect_flags:
                acting[[number for number in numbers if self.commands[number].side_effects]] = True
        return acting

    def _edges(self) -> np.ndarray:
        """Def-use edges, (edges, 4), the last reader first: reader, reader's event, writer, writer's event.

        An event is -1 except for an optional result: reads of an optional result count, not the command.
        """
        analysis = self.analysis
        reads = np.flatnonzero(((analysis.event_mode & READ) != 0) & (analysis.source_of_event >= 0))
        written = analysis.source_of_event[reads]
        is_result, is_optional = np.zeros((2, len(self.event_is_read)), dtype=bool)
        is_result[self._events_of(self.results)] = True
        added_to = [result for result in self.results if result.is_added_to]
        events, starts = self._events_of(added_to), self._first_events(added_to)
        is_optional[events] = True
        self._shared[events] = np.repeat(events[starts], np.diff(starts, append=len(events)))
        own = np.where(is_optional[reads], self._shared[reads], -1)
        event = np.where(is_result[written], self._shared[written], -1)
        reader, writer = analysis.event_command[reads], analysis.event_command[written]
        counts = (own >= 0) | (event >= 0)  # of the others only the commands matter, not each variable between them
        pairs = np.divmod(distinct((reader * analysis.num_commands + writer)[~counts]), max(analysis.num_commands, 1))
        none = np.full(len(pairs[0]), -1)
        edges = np.concatenate(
            [
                np.stack([reader[counts], own[counts], writer[counts], event[counts]], axis=1),
                np.stack([pairs[0], none, pairs[1], none], axis=1),
            ]
        )
        users = [(user, self.makers[memo]) for user, memo in self.memo_uses if memo in self.makers]
        memos = np.array([(user, -1, maker, -1) for user, maker in users], dtype=np.int64).reshape(-1, 4)
        edges = np.concatenate([edges, memos])
        return edges[np.argsort(-edges[:, 0], kind="stable")]

    def _find(self) -> np.ndarray:
        needed, event_is_read = self._acting().tolist(), [False] * len(self.event_is_read)
        for reader, own, writer, event in self._edges().tolist():
            if event_is_read[own] if own >= 0 else needed[reader]:
                needed[writer] = event_is_read[event] = True
        self.event_is_read = np.array(event_is_read)[self._shared]
        return np.array(needed, dtype=bool)

    def _leave_matrices(self) -> None:
        """Keep the allocations and deallocations of matrices that a needed command uses."""
        accesses, used = self.analysis.accesses, np.zeros(len(self.analysis.computation.matrices), dtype=bool)
        of_needed = self.is_needed[accesses.command]
        unread = self._unread_results()
        if unread:
            count = len(self.analysis.computation.submatrices)
            keys = [result.command * count + result.submatrix for result in unread]
            of_needed &= ~np.isin(accesses.command * count + accesses.submatrix, keys) | (accesses.mode == READ)
        used[self.analysis.matrix_of_access[of_needed]] = True
        for number, matrix in (*accesses.allocations, *accesses.deallocations):
            self.is_needed[number] = used[matrix]

    def narrowed_commands(self) -> dict[int, Command]:
        """Returns the needed commands, narrowed, with a superfluous result."""
        changes: dict[int, dict[str, object]] = {}
        for number, field, position, *_ in self._unread_results():
            values = changes.setdefault(number, {})
            numbers = list(values.get(field, getattr(self.commands[number], field)))  # type: ignore[call-overload]
            numbers[position] = 0
            values[field] = tuple(numbers)
        used = {memo for number, memo in self.memo_uses if self.is_needed[number]}
        for memo, number in self.makers.items():
            if self.is_needed[number] and memo not in used:
                changes.setdefault(number, {})[self.commands[number].schema.makes_memo] = -1
        return {number: with_values(self.commands[number], **values) for number, values in changes.items()}

    # ---- results that a command need not give ----

    def _optional_results(self) -> list[_Result]:
        outside = set(self.analysis.computation.outside_by_matrix())
        blocks = self.analysis.computation.submatrices
        found = []
        for command_class, numbers in self.analysis.accesses.numbers_of_class.items():
            for name, is_added_to in _optional_fields(command_class):
                for number in numbers:
                    for position, submatrix in enumerate(getattr(self.commands[number], name)):
                        if submatrix and blocks[submatrix].matrix not in outside:
                            found.append(_Result(number, name, position, submatrix, is_added_to))
        return found

    def _events_of(self, results: list[_Result]) -> Integers:
        """Returns the events of results, result by result."""
        submatrices = np.array([result.submatrix for result in results], dtype=np.int64)
        return self.analysis.events_at(submatrices, np.array([result.command for result in results], dtype=np.int64))

    def _first_events(self, results: list[_Result]) -> Integers:
        """Returns the first event of each result, as a position among all events."""
        counts = self.analysis.variables.counts(np.array([result.submatrix for result in results], dtype=np.int64))
        return np.cumsum(counts) - counts

    def _unread_results(self) -> list[_Result]:
        """Returns the results of needed commands that no needed command reads."""
        if not self.results:
            return []
        events, starts = self._events_of(self.results), self._first_events(self.results)
        is_read = np.logical_or.reduceat(self.event_is_read[events], starts)
        return [self.results[i] for i in np.flatnonzero(~is_read).tolist() if self.is_needed[self.results[i].command]]


def _optional_fields(command_class: type[Command]) -> list[tuple[str, bool]]:
    """Returns the tuple fields of sub-matrices that a command may leave empty, with flags for fields added to."""
    found = []
    for name, declared, several in command_class.schema.operand_fields:
        is_filled = isinstance(declared, OperandField) and declared.access in (AccessMode.WRITE, AccessMode.UPDATE)
        if several and is_filled and declared.optional:  # type: ignore[union-attr]
            found.append((name, declared.access is AccessMode.UPDATE))  # type: ignore[union-attr]
    return found
