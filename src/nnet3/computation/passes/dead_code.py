"""Drop the commands whose results nobody reads, and the matrices that nobody uses."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from nnet3.computation.analysis import READ, WRITE, Analysis, analyse
from nnet3.computation.computation import NnetComputation
from nnet3.computation.declarations import AccessKind, Command, Operand, Reference, with_values
from nnet3.computation.variables import Integers
from nnet3.index import distinct


def dead_code(computation: NnetComputation) -> NnetComputation:
    """The computation without commands that have neither side effects nor readers.

    A result that a command need not give (an optional operand, a memo) becomes 0, or -1, if nobody reads it.
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
    """What is needed: commands with side effects, and whatever something needed reads.

    `is_needed`: (commands,). Results count by themselves: one that is added to, and that nobody reads, needs nothing.
    """

    def __init__(self, analysis: Analysis) -> None:
        self.analysis, self.commands = analysis, analysis.computation.commands
        self.makers = {memo: number for number, memo in self._memos(AccessKind.WRITE)}
        self.results = self._optional_results()
        self.event_is_read = np.zeros(len(analysis.event_place) + 1, dtype=bool)  # the last one: of memos
        self.is_needed = self._find()
        self._leave_matrices()

    def _memos(self, access: AccessKind) -> list[tuple[int, int]]:
        """Command and memo, for all that make (WRITE) or use (READ) one."""
        found = []
        for command_class, numbers in self.analysis.accesses.numbers_of_class.items():
            name = _memo_field(command_class, access)
            if name:
                memos = [(number, getattr(self.commands[number], name)) for number in numbers]
                found += [(number, memo) for number, memo in memos if memo >= 0]
        return found

    def _acting(self) -> np.ndarray:
        """Commands that must stay whoever reads them, (commands,): those without any access are of no concern here."""
        analysis = self.analysis
        acting = np.ones(analysis.num_commands, dtype=bool)
        acting[analysis.accesses.command] = False
        outside = np.isin(analysis.matrix_of_access, list(analysis.computation.outside_by_matrix()))
        acting[analysis.accesses.command[outside & ((analysis.accesses.kind & WRITE) != 0)]] = True
        for command_class, numbers in analysis.accesses.numbers_of_class.items():
            if command_class.always_acts:
                acting[numbers] = True
            elif command_class.form.effect_flags:
                acting[[number for number in numbers if self.commands[number].side_effects]] = True
        return acting

    def _edges(self) -> np.ndarray:
        """(edges, 4), the last reader first: place of the reader, its event if that adds to a result that nobody may
        need (else -1), place of the writer, its event."""
        analysis = self.analysis
        reads = np.flatnonzero(((analysis.event_kind & READ) != 0) & (analysis.source_of_event >= 0))
        written = analysis.source_of_event[reads]
        is_result, is_optional = np.zeros((2, len(self.event_is_read)), dtype=bool)
        for mask, results in ((is_result, self.results), (is_optional, [r for r in self.results if r.is_added_to])):
            for events in self._events_of(results):
                mask[events] = True
        own, event = np.where(is_optional[reads], reads, -1), np.where(is_result[written], written, -1)
        reader, writer = analysis.event_place[reads], analysis.event_place[written]
        counts = (own >= 0) | (event >= 0)  # of the others only the commands matter, not each variable between them
        pairs = np.divmod(distinct((reader * analysis.num_places + writer)[~counts]), max(analysis.num_places, 1))
        none = np.full(len(pairs[0]), -1)
        edges = np.concatenate(
            [
                np.stack([reader[counts], own[counts], writer[counts], event[counts]], axis=1),
                np.stack([pairs[0], none, pairs[1], none], axis=1),
            ]
        )
        users = [(n, self.makers[memo]) for n, memo in self._memos(AccessKind.READ) if memo in self.makers]
        memos = np.array([(user, -1, maker, -1) for user, maker in users], dtype=np.int64).reshape(-1, 4)
        if analysis.loop is not None:
            again = memos[memos[:, 0] >= analysis.loop[0]]
            again[:, [0, 2]] += np.where(again[:, [0, 2]] >= analysis.loop[0], analysis.second_round, 0)
            memos = np.concatenate([memos, again])
        edges = np.concatenate([edges, memos])
        return edges[np.argsort(-edges[:, 0], kind="stable")]

    def _find(self) -> np.ndarray:
        analysis = self.analysis
        command_of_place = analysis.place_to_command(np.arange(analysis.num_places))
        edges = self._edges().tolist()
        needed = self._acting()
        while True:
            at_place, event_is_read = needed[command_of_place].tolist(), [False] * len(self.event_is_read)
            for reader, own, writer, event in edges:
                if event_is_read[own] if own >= 0 else at_place[reader]:
                    at_place[writer] = event_is_read[event] = True
            found = np.zeros(analysis.num_commands, dtype=bool)
            found[command_of_place[np.array(at_place, dtype=bool)]] = True
            self.event_is_read = np.array(event_is_read)
            if analysis.loop is None or (found == needed).all():
                return found
            needed = found  # in a loop: needed in one round is needed in all

    def _leave_matrices(self) -> None:
        """Allocations and deallocations are needed where something needed uses the matrix."""
        accesses, used = self.analysis.accesses, np.zeros(len(self.analysis.computation.matrices), dtype=bool)
        of_needed = self.is_needed[accesses.command]
        unread = self._unread_results()
        if unread:
            count = len(self.analysis.computation.submatrices)
            keys = [result.command * count + result.submatrix for result in unread]
            of_needed &= ~np.isin(accesses.command * count + accesses.submatrix, keys) | (accesses.kind == READ)
        used[self.analysis.matrix_of_access[of_needed]] = True
        for number, matrix in (*accesses.allocations, *accesses.deallocations):
            self.is_needed[number] = used[matrix]

    def narrowed_commands(self) -> dict[int, Command]:
        """Needed commands of which a part need not be made, as they become."""
        changes: dict[int, dict[str, object]] = {}
        for number, field, position, *_ in self._unread_results():
            values = changes.setdefault(number, {})
            numbers = list(values.get(field, getattr(self.commands[number], field)))  # type: ignore[call-overload]
            numbers[position] = 0
            values[field] = tuple(numbers)
        used = {memo for number, memo in self._memos(AccessKind.READ) if self.is_needed[number]}
        for memo, number in self.makers.items():
            if self.is_needed[number] and memo not in used:
                changes.setdefault(number, {})[_memo_field(type(self.commands[number]), AccessKind.WRITE)] = -1
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

    def _events_of(self, results: list[_Result]) -> list[Integers]:
        """The events of results, result by result, in each reading of a loop."""
        submatrices = np.array([result.submatrix for result in results], dtype=np.int64)
        numbers = np.array([result.command for result in results], dtype=np.int64)
        return [self.analysis.events_at(submatrices, places) for places in self.analysis.places_of(numbers)]

    def _unread_results(self) -> list[_Result]:
        """Results of needed commands that nobody needed reads."""
        if not self.results:
            return []
        counts = self.analysis.variables.counts(np.array([result.submatrix for result in self.results]))
        starts = np.cumsum(counts) - counts
        is_read = [np.logical_or.reduceat(self.event_is_read[e], starts) for e in self._events_of(self.results)]
        unread = np.flatnonzero(~np.logical_or.reduce(is_read)).tolist()
        return [self.results[i] for i in unread if self.is_needed[self.results[i].command]]


def _memo_field(command_class: type[Command], access: AccessKind) -> str:
    """The field that numbers the memo which a command makes, or uses; empty if it has none."""
    for name, declared, _ in command_class.form.reference_fields:
        if isinstance(declared, Reference) and declared.access is access:
            return name
    return ""


def _optional_fields(command_class: type[Command]) -> list[tuple[str, bool]]:
    """The fields (tuples) of sub-matrices that a command fills unless they are empty; whether it adds to them."""
    found = []
    for name, declared, several in command_class.form.operand_fields:
        is_filled = isinstance(declared, Operand) and declared.access in (AccessKind.WRITE, AccessKind.UPDATE)
        if several and is_filled and declared.optional:  # type: ignore[union-attr]
            found.append((name, declared.access is AccessKind.UPDATE))  # type: ignore[union-attr]
    return found
