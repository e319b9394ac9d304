"""Drop the commands whose results nobody reads, and the matrices that nobody uses."""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

import numpy as np

from nnet3.computation.analysis import READ, WRITE, Analysis, analyse
from nnet3.computation.computation import NnetComputation
from nnet3.computation.declarations import AccessKind, Command, Operand, Reference, with_values


def dead_code(computation: NnetComputation) -> NnetComputation:
    """The computation without commands that have neither side effects nor readers.

    A result that a command need not give (an optional operand, a memo) becomes 0, or -1, if nobody reads it.
    """
    result = _without_dead_commands(computation)
    while result is not computation:
        computation, result = result, _without_dead_commands(result)
    return computation


def _without_dead_commands(computation: NnetComputation) -> NnetComputation:
    analysis = analyse(computation)
    needs = _Needs(analysis)
    needed = needs.needed.copy()
    used = np.zeros(len(computation.matrices), dtype=bool)
    used[analysis.matrix_of_access[needed[analysis.accesses.command]]] = True
    for number, matrix in (*analysis.accesses.allocations, *analysis.accesses.deallocations):
        needed[number] = used[matrix]
    narrowed = needs.without_unread_results()
    if not narrowed and needed.all():
        return computation
    result = computation.copy()
    for number, command in narrowed.items():
        result.commands[number] = command
    result.commands = [result.commands[number] for number in np.flatnonzero(needed).tolist()]
    return result


class _Result(NamedTuple):
    """A sub-matrix that a command fills and need not fill."""

    command: int
    field: str
    position: int
    submatrix: int


class _Needs:
    """Which commands need which: by the variables they read, and by memos."""

    def __init__(self, analysis: Analysis) -> None:
        self.analysis, self.commands = analysis, analysis.computation.commands
        reads = np.flatnonzero(((analysis.event_kind & READ) != 0) & (analysis.source_of_event >= 0))
        self.reading_event, self.written_event = reads, analysis.source_of_event[reads]
        reader, writer = analysis.event_place[self.reading_event], analysis.event_place[self.written_event]
        self.makers = {c: n for n, c in self._memos(AccessKind.WRITE)}
        users = [(number, self.makers[memo]) for number, memo in self._memos(AccessKind.READ) if memo in self.makers]
        memo_user, memo_maker = np.array(users, dtype=np.int64).reshape(-1, 2).T
        if analysis.loop is not None:
            shift = analysis.num_commands - analysis.loop[0]
            again = memo_user >= analysis.loop[0]
            maker_again = np.where(memo_maker >= analysis.loop[0], memo_maker + shift, memo_maker)
            memo_user = np.append(memo_user, memo_user[again] + shift)
            memo_maker = np.append(memo_maker, maker_again[again])
        self.reader, self.writer = np.append(reader, memo_user), np.append(writer, memo_maker)

    def _memos(self, access: AccessKind) -> list[tuple[int, int]]:
        """Command and memo, for all that make (WRITE) or use (READ) one."""
        found = []
        fields = {c: _memo_field(c, access) for c in {type(command) for command in self.commands}}
        for number, command in enumerate(self.commands):
            name = fields[type(command)]
            if name and getattr(command, name) >= 0:
                found.append((number, getattr(command, name)))
        return found

    @cached_property
    def _acting(self) -> np.ndarray:
        """Commands that must stay whoever reads them, (commands,): those without any access are of no concern here."""
        analysis = self.analysis
        acting = np.ones(analysis.num_commands, dtype=bool)
        acting[analysis.accesses.command] = False
        outside = np.isin(analysis.matrix_of_access, list(analysis.computation.outside_by_matrix()))
        acting[analysis.accesses.command[outside & ((analysis.accesses.kind & WRITE) != 0)]] = True
        classes = {type(command) for command in self.commands}
        may_act = {c for c in classes if c.always_acts or c.form.effect_flags}
        acting[[n for n, c in enumerate(self.commands) if type(c) in may_act and c.side_effects]] = True
        return acting

    @cached_property
    def needed(self) -> np.ndarray:
        """Whether each command acts, or something needed reads what it makes, (commands,)."""
        analysis = self.analysis
        read = self._acting.copy()
        read[analysis.place_to_command(self.writer)] = True
        if read.all() and analysis.loop is None:
            return read
        command_of_place = analysis.place_to_command(np.arange(analysis.num_places))
        order = np.argsort(-self.reader, kind="stable")
        edges = list(zip(self.reader[order].tolist(), self.writer[order].tolist(), strict=True))
        needed = self._acting
        while True:
            at_place = needed[command_of_place].tolist()
            for reader, writer in edges:
                if at_place[reader]:
                    at_place[writer] = True
            found = np.zeros(analysis.num_commands, dtype=bool)
            found[command_of_place[np.array(at_place, dtype=bool)]] = True
            if (found == needed).all() or analysis.loop is None:
                return found
            needed = found  # in a loop: needed in one round is needed in all

    def without_unread_results(self) -> dict[int, Command]:
        """Needed commands of which a part need not be made, as they become."""
        changes: dict[int, dict[str, object]] = {}
        results = self._results()
        for i in np.flatnonzero(~self._are_read(results)).tolist():
            number, field, position, _ = results[i]
            values = changes.setdefault(number, {})
            numbers = list(values.get(field, getattr(self.commands[number], field)))  # type: ignore[call-overload]
            numbers[position] = 0
            values[field] = tuple(numbers)
        used = {memo for number, memo in self._memos(AccessKind.READ) if self.needed[number]}
        for memo, number in self.makers.items():
            if self.needed[number] and memo not in used:
                changes.setdefault(number, {})[_memo_field(type(self.commands[number]), AccessKind.WRITE)] = -1
        return {number: with_values(self.commands[number], **values) for number, values in changes.items()}

    def _results(self) -> list[_Result]:
        """What needed commands fill and need not fill: operands of theirs that may be empty."""
        fields = {c: _optional_results(c) for c in {type(command) for command in self.commands}}
        outside = set(self.analysis.computation.outside_by_matrix())
        blocks = self.analysis.computation.submatrices
        found = []
        for number in np.flatnonzero(self.needed).tolist():
            command = self.commands[number]
            for name in fields[type(command)]:
                for position, submatrix in enumerate(getattr(command, name)):
                    if submatrix and blocks[submatrix].matrix not in outside:
                        found.append(_Result(number, name, position, submatrix))
        return found

    def _are_read(self, results: list[_Result]) -> np.ndarray:
        """Whether a needed command reads any of what is written, (results,)."""
        if not results:
            return np.zeros(0, dtype=bool)
        analysis = self.analysis
        used = np.zeros(len(analysis.event_place) + 1, dtype=bool)
        reader = analysis.place_to_command(analysis.event_place[self.reading_event])
        used[self.written_event[self.needed[reader]]] = True
        submatrices = np.array([result.submatrix for result in results])
        number = np.array([result.command for result in results])
        is_read = analysis.any_event(used, submatrices, number)
        if analysis.loop is not None:
            again = np.flatnonzero(number >= analysis.loop[0])
            place = number[again] + analysis.num_commands - analysis.loop[0]
            is_read[again] |= analysis.any_event(used, submatrices[again], place)
        return is_read


def _memo_field(command_class: type[Command], access: AccessKind) -> str:
    """The field that numbers the memo which a command makes, or uses; empty if it has none."""
    for name, declared, _ in command_class.form.reference_fields:
        if isinstance(declared, Reference) and declared.access is access:
            return name
    return ""


def _optional_results(command_class: type[Command]) -> list[str]:
    """The fields (tuples) of sub-matrices that a command fills unless they are empty."""
    found = []
    for name, declared, several in command_class.form.operand_fields:
        is_filled = isinstance(declared, Operand) and declared.access in (AccessKind.WRITE, AccessKind.UPDATE)
        if several and is_filled and declared.optional:  # type: ignore[union-attr]
            found.append(name)
    return found
