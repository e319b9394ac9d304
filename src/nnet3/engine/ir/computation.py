"""NnetComputation: a program of commands on the matrices and tables of `ProgramTables`, and its printed text."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

import numpy as np

from nnet3.base.text.html import folded
from nnet3.engine.ir.commands_control import Repeat, SegmentMarker
from nnet3.engine.ir.declarations import Command
from nnet3.engine.ir.formatting import index_table, written_name
from nnet3.engine.ir.full_text import footer_lines, header_lines
from nnet3.engine.ir.program_tables import ProgramTables

MOST_SHOWN_COMMANDS = 500  # in a notebook
_MAKING = threading.RLock()


@dataclass(frozen=True, eq=False)
class FamilyMember:
    """A program as one of a family: `at` gives any member by k, and `kept` holds results derived for all members.

    `entries` gives the kernels' precomputed arrays, by k. `for_all` gives the program with numbers base + slope * step,
    but for its tables, and parts of its tables as functions of k, by kind and numbers.
    """

    k: int
    at: Callable[[int], NnetComputation]
    entries: Callable[[int], Sequence[Mapping[str, np.ndarray] | None]]
    kept: dict[str, Any]
    for_all: Callable[[int], tuple[NnetComputation, Callable[[str, Iterable[int]], Any]]] | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        """A copy of a program is of no family."""
        return type(None), ()


@dataclass(frozen=True, eq=False)
class RowNumbers:
    """The numbers of rows in a program of a family: programs differing in numbers of rows alone.

    `blocks`: the first row and the number of rows of every sub-matrix, (sub-matrices, 2); `matrices`: the rows of every
    matrix; `num_iterations`: the iterations of each Repeat; `iterations`, `index_tables` and `precomputed`: the
    program's own fields. `kept`: results derived for the whole family."""

    blocks: np.ndarray
    matrices: np.ndarray
    iterations: Mapping[int, np.ndarray]
    num_iterations: Sequence[int]
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
    #: Its position in a family; None for a program that was made alone, or may have been changed.
    member: FamilyMember | None = field(default=None, compare=False)
    #: Its numbers of rows, if other programs have the same commands; None for one that may have been changed.
    row_numbers: RowNumbers | None = field(default=None, compare=False)
    #: True if its plans and links are proved, because the options of its task say so.
    prove: bool = field(default=False, compare=False)
    #: An estimate of the memory that a lazy program takes once it is made.
    stored_bytes: int = field(default=0, init=False, repr=False, compare=False)
    #: What `analyse` has found, with all it was found from.
    _analysis: Any = field(default=None, init=False, repr=False, compare=False)

    def __str__(self) -> str:
        return self.text()

    def __repr__(self) -> str:
        return f"<NnetComputation: {self.summary()}>"

    def _repr_html_(self) -> str:
        return folded(self.summary(), self.text(MOST_SHOWN_COMMANDS), is_open=True)

    def copy(self) -> NnetComputation:
        """Returns a copy whose lists may be changed; the immutable entries are shared."""
        values = {each.name: getattr(self, each.name) for each in fields(self) if each.init}
        values |= {name: list(value) for name, value in values.items() if isinstance(value, list)}
        values |= {"matrix_info": dict(self.matrix_info), "iterations": dict(self.iterations)}
        return NnetComputation(**values | {"attachments": None, "member": None, "row_numbers": None})

    # ---- programs that are made when they are looked at ----

    @classmethod
    def lazy(cls, make: Callable[[], NnetComputation], num_bytes: int = 0, **known: Any) -> NnetComputation:
        """Returns a computation with some fields known; the first request for an unknown field makes all fields.

        With a plan the program runs without its commands. `known`: the known fields, all fields with a default of the
        class among them. `num_bytes`: an estimate of the memory that the program takes.
        """
        computation = object.__new__(cls)
        vars(computation).update(known, _make=make, stored_bytes=num_bytes)
        return computation

    @property
    def is_lazy(self) -> bool:
        """True if fields are still to be made."""
        return "_make" in vars(self)

    def made(self) -> NnetComputation:
        """Returns the computation itself, or one with all fields: the computation itself stays lazy."""
        with _MAKING:
            return vars(self)["_make"]() if self.is_lazy else self

    if not TYPE_CHECKING:  # for type checkers any name would be an attribute

        def __getattr__(self, name: str) -> Any:
            """Makes the fields that a lazy computation does not have."""
            if name not in _FIELDS:
                raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")
            self._complete()
            return vars(self)[name]

    def _complete(self) -> None:
        """Make the missing fields, unless another thread has made them."""
        with _MAKING:
            if self.is_lazy:
                made = self.made()
                for name in _FIELDS:
                    vars(self).setdefault(name, getattr(made, name))
                del vars(self)["_make"], vars(self)["stored_bytes"]

    def __getstate__(self) -> dict[str, Any]:
        self._complete()
        return vars(self)

    # ---- loops ----

    def repeats(self) -> Iterator[tuple[Repeat, range]]:
        """Yields all Repeats with the numbers of their bodies' commands."""
        for number, command in enumerate(self.commands):
            if isinstance(command, Repeat):
                yield command, range(number + 1, number + 1 + command.length)

    def commands_in_bodies(self) -> set[int]:
        """Returns the numbers of the commands that a Repeat repeats."""
        return {number for _, body in self.repeats() for number in body}

    # ---- the printed text: matrices, then one line a command, `c3: m2 += 0.5 * m1(0:9, 20:39)` ----

    def text(self, max_commands: int | None = None, *, full: bool = False) -> str:
        """Returns the computation as text: at most `max_commands` commands, and how many were left out.

        The full text leaves out nothing but the numbers of commands: `nnet3.engine.ir.parser.parse_computation` reads
        it."""
        in_body = self.commands_in_bodies()
        if full:
            commands = [f"{'  ' * (n in in_body)}{each.text(self, full)}" for n, each in enumerate(self.commands)]
            whole = [f"made for {aspect!r} {digest!r}" for aspect, digest in self.fingerprint.items()]
            whole += [f"memos {self.num_memos}"] if self.num_memos else []
            return "\n".join([*whole, *header_lines(self), *self.introductions(full), *footer_lines(self), *commands])
        lines = [f"# {self.summary()}", *self.introductions()]
        shown = self.commands[:max_commands]
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

    def introductions(self, full: bool = False) -> list[str]:
        """Returns a line for every used matrix: size, contents, and the name of outside memory."""
        outside = {
            self.submatrices[bound.submatrix].matrix: bound
            for bound in self.outside
            if 0 < bound.submatrix < len(self.submatrices)
        }
        used = self.used_matrices() | set(outside)
        if full:
            used |= self.exchanged_matrices()
        lines = []
        for matrix, size in enumerate(self.matrices):
            if matrix not in used:
                continue
            line = f"m{matrix}({size.num_rows}, {size.num_cols})"
            info = self.matrix_info.get(matrix)
            if info is not None:
                rows = "without samples" if info.indexes is None else index_table(info.indexes, full)
                kind = "derivative" if info.is_deriv else "value"
                line += f" == {kind}: {written_name(info.node, full)} {rows}"
            if matrix in outside:
                bound = outside[matrix]
                name = written_name(bound.name, full, quoted=True)
                line += f" in outside memory {name}{'' if bound.writable else ' (read only)'}"
            lines.append(line)
        return lines

    def used_matrices(self) -> set[int]:
        """Returns the numbers of the matrices that some command names."""
        named = {number for command in self.commands for number in command.schema.operands(command)}
        for command in self.commands:
            named.update(access.submatrix for access in command.accesses(self))
        return {self.submatrices[number].matrix for number in named if 0 < number < len(self.submatrices)}


def _count(number: int, noun: str, plural: str = "") -> str:
    return f"{number} {noun if number == 1 else plural or noun + 's'}"


_FIELDS = frozenset(field.name for field in fields(NnetComputation))


def lazy_like(other: NnetComputation, make: Callable[[], NnetComputation], **known: Any) -> NnetComputation:
    """Returns the computation of `make`, of the network and kind of `other`. `known`: fields that are known already."""
    alike = {name: getattr(other, name) for name in ("num_memos", "need_model_derivative", "fingerprint")}
    return NnetComputation.lazy(make, **alike | {"attachments": None, "member": None} | known)
