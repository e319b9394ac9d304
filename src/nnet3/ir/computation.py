"""NnetComputation: a program of commands on the matrices and tables of `ProgramTables`, and its printed form."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np

from nnet3.ir.commands_control import Repeat, SegmentMarker
from nnet3.ir.declarations import Command
from nnet3.ir.formatting import index_table
from nnet3.ir.program_tables import ProgramTables
from nnet3.text.html import folded

MOST_SHOWN_COMMANDS = 500  # in a notebook


@dataclass(frozen=True, eq=False)
class FamilyMember:
    """A program as one of a family: `at` gives any member by k, and `kept` holds results derived for all members.

    `entries` gives the kernels' precomputed arrays, by k.
    """

    k: int
    at: Callable[[int], NnetComputation]
    entries: Callable[[int], Sequence[Mapping[str, np.ndarray] | None]]
    kept: dict[str, Any]

    def __reduce__(self) -> tuple[Any, ...]:
        """A copy of a program is of no family."""
        return type(None), ()


@dataclass(frozen=True, eq=False)
class RowNumbers:
    """The numbers of rows in a program of a family: programs differing in numbers of rows alone.

    `blocks`: the first row and the number of rows of every sub-matrix, (sub-matrices, 2); `matrices`: the rows of every
    matrix; `num_turns`: the turns of each Repeat; `turns`, `index_tables` and `precomputed`: the program's own fields.
    `kept`: results derived for the whole family.
    """

    blocks: np.ndarray
    matrices: np.ndarray
    turns: Mapping[int, np.ndarray]
    num_turns: Sequence[int]
    index_tables: Sequence[np.ndarray]
    precomputed: Sequence[Mapping[str, np.ndarray] | None]
    kept: dict[str, Any]

    def __reduce__(self) -> tuple[Any, ...]:
        """A copy of a program is alone."""
        return type(None), ()


@dataclass(repr=False)
class NnetComputation(ProgramTables):
    """A program of matrix commands, free of front-ends: kernels are named, rows are numbers.

    Commands refer to matrices, sub-matrices and tables by position.
    """

    commands: list[Command] = field(default_factory=list)
    num_memos: int = 0
    #: The network that it was compiled for, as digests by aspect; nobody compares if it is empty.
    fingerprint: dict[str, str] = field(default_factory=dict)
    #: Things that others have derived from the finished program, such as plans; None if it may still change.
    attachments: MutableMapping[str, Any] | None = field(default=None, compare=False)
    #: Its place in a family; None for a program that was made alone, or may have been changed.
    member: FamilyMember | None = field(default=None, compare=False)
    #: Its numbers of rows, if other programs have the same commands; None for one that may have been changed.
    row_numbers: RowNumbers | None = field(default=None, compare=False)
    #: True if its plans and links are proved, because the options of its task say so.
    prove: bool = field(default=False, compare=False)

    def __str__(self) -> str:
        return self.text()

    def __repr__(self) -> str:
        return f"<NnetComputation: {self.summary()}>"

    def _repr_html_(self) -> str:
        return folded(self.summary(), self.text(MOST_SHOWN_COMMANDS), is_open=True)

    def copy(self) -> NnetComputation:
        """Returns a copy whose lists may be changed; the immutable entries are shared."""
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        values |= {name: list(value) for name, value in values.items() if isinstance(value, list)}
        values |= {"matrix_info": dict(self.matrix_info), "turns": dict(self.turns)}
        return NnetComputation(**values | {"attachments": None, "member": None, "row_numbers": None})

    # ---- loops ----

    def repeats(self) -> Iterator[tuple[Repeat, range]]:
        """Yields all Repeats with the numbers of their bodies' commands."""
        for number, command in enumerate(self.commands):
            if isinstance(command, Repeat):
                yield command, range(number + 1, number + 1 + command.length)

    def commands_in_bodies(self) -> set[int]:
        """Returns the numbers of the commands that a Repeat repeats."""
        return {number for _, body in self.repeats() for number in body}

    # ---- the printed form: matrices, then one line a command, `c3: m2 += 0.5 * m1(0:9, 20:39)` ----

    def text(self, max_commands: int | None = None) -> str:
        """Returns the computation as text: at most `max_commands` commands, and how many were left out."""
        lines = [f"# {self.summary()}", *self.introductions()]
        shown, in_body = self.commands[:max_commands], self.commands_in_bodies()
        lines += [self.numbered_command(number, number in in_body) for number in range(len(shown))]
        if len(shown) < len(self.commands):
            lines.append(f"... {len(self.commands) - len(shown)} more commands")
        return "\n".join(lines)

    def summary(self) -> str:
        """Returns one line with the numbers of matrices, commands and segments."""
        segments = 1 + sum(isinstance(command, SegmentMarker) for command in self.commands)
        counts = (
            _count(len(self.matrices) - 1, "matrix", "matrices"),
            _count(len(self.commands), "command"),
            _count(segments, "segment"),
        )
        return ", ".join(counts)

    def numbered_command(self, number: int, in_body: bool = False) -> str:
        """Returns a command after its number, `c3: m2 += m1`; indented in the body of a Repeat."""
        return f"{'  ' * in_body}c{number}: {self.commands[number].text(self)}"

    def introductions(self) -> list[str]:
        """Returns a line for every used matrix: size, contents, and the name of outside memory."""
        outside = {
            self.submatrices[bound.submatrix].matrix: bound
            for bound in self.outside
            if 0 < bound.submatrix < len(self.submatrices)
        }
        used = self.used_matrices() | set(outside)
        lines = []
        for matrix, size in enumerate(self.matrices):
            if matrix not in used:
                continue
            line = f"m{matrix}({size.num_rows}, {size.num_cols}{', ' + size.dtype if size.dtype else ''})"
            info = self.matrix_info.get(matrix)
            if info is not None:
                rows = "without samples" if info.indexes is None else index_table(info.indexes)
                line += f" == {'derivative' if info.is_deriv else 'value'}: {info.node} {rows}"
            if matrix in outside:
                bound = outside[matrix]
                line += f" in outside memory '{bound.name}'{'' if bound.writable else ' (read only)'}"
            lines.append(line)
        return lines

    def used_matrices(self) -> set[int]:
        """Returns the numbers of the matrices that some command names."""
        named = {number for command in self.commands for number in command.form.operands(command)}
        for command in self.commands:
            named.update(access.submatrix for access in command.accesses(self))
        return {self.submatrices[number].matrix for number in named if 0 < number < len(self.submatrices)}


def _count(number: int, noun: str, plural: str = "") -> str:
    return f"{number} {noun if number == 1 else plural or noun + 's'}"


_MAKING = threading.RLock()
_FIELDS = frozenset(field.name for field in fields(NnetComputation))


class LazyComputation(NnetComputation):
    """A computation with some fields known; the first request for an unknown field makes all fields.

    From then on the object is an NnetComputation like any other. With a plan the program runs without commands.
    """

    def __init__(self, make: Callable[[], NnetComputation], num_bytes: int, **known: Any) -> None:
        """`known`: the known fields, all fields with a default of the class among them."""
        self.__dict__.update(known)
        self.stored_bytes, self._make = num_bytes, make

    def made(self) -> NnetComputation:
        """Returns the computation, without completing `self`."""
        with _MAKING:
            return self if not isinstance(self, LazyComputation) else self._make()

    def __getattr__(self, name: str) -> Any:
        if name not in _FIELDS:
            raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")
        LazyComputation._complete(self)
        return self.__dict__[name]

    def _complete(self) -> None:
        """Make the missing fields, unless another thread has done so: then `self` is an NnetComputation already."""
        with _MAKING:
            if not isinstance(self, LazyComputation):
                return
            made = self._make()
            for name in _FIELDS:
                self.__dict__.setdefault(name, getattr(made, name))
            del self._make
            self.__class__ = NnetComputation  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        LazyComputation._complete(self)
        return self == other

    def __reduce_ex__(self, protocol: Any) -> Any:
        LazyComputation._complete(self)
        return self.__reduce_ex__(protocol)


def lazy_like(
    other: NnetComputation, make: Callable[[], NnetComputation], row_numbers: RowNumbers, **known: Any
) -> LazyComputation:
    """Returns the computation of `make`, of the network and kind of `other`, with the given numbers of rows.

    `known`: further fields, known already.
    """
    return LazyComputation(
        make,
        0,
        num_memos=other.num_memos,
        need_model_derivative=other.need_model_derivative,
        fingerprint=other.fingerprint,
        attachments=None,
        member=None,
        row_numbers=row_numbers,
        **known,
    )
