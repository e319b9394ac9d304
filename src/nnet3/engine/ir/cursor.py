"""A position in a line of a program, and the readers of operands and side tables: `formatting` the other way."""

from __future__ import annotations

import re
from ast import literal_eval
from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np

from nnet3.base.index import NO_TIME
from nnet3.engine.ir.formatting import WORD
from nnet3.engine.ir.program_tables import ProgramTables, SubMatrix
from nnet3.errors import ConfigError, Span

NUMBER = re.compile(r"[+-]?\d{1,9}(?![\d.])")
REAL = re.compile(r"[+-]?(\d+(\.\d*)?(e[+-]?\d+)?|inf|nan)")
FLAG = re.compile("True|False")
COUNT = re.compile(r"\d{1,7}(?!\d)")
QUOTED = re.compile(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"")

Read = TypeVar("Read")


class Unexpected(Exception):
    """What a reader expects does not stand here; another reader may try."""


class Cursor:
    """A position in one line; it remembers the last position where reading failed, and what was expected there.

    `submatrices`: the numbers of the sub-matrices by block and by first rows and numbers of rows in later iterations.
    """

    def __init__(
        self,
        computation: ProgramTables,
        submatrices: dict[tuple[SubMatrix, bytes], int],
        span: Span,
    ) -> None:
        self.computation, self.submatrices, self.span = computation, submatrices, span
        self.text, self.at = span.words, 0
        self._failed, self._expected = (0, False), list[str]()
        self._read_here: dict[int, tuple[int, int]] = {}  # sub-matrices and their ends, by position

    def fail(self, expected: str, at: int | None = None) -> Unexpected:
        """Returns what to raise where `expected` does not stand, here or at another position of the line."""
        return self._fail_at(expected, self.at if at is None else at, is_sure=False)

    def refuse(self, expected: str, at: int) -> Unexpected:
        """Returns what to raise where something of the expected type stands at a position, which does not fit."""
        return self._fail_at(expected, at, is_sure=True)

    def _fail_at(self, expected: str, at: int, *, is_sure: bool) -> Unexpected:
        position = at, is_sure
        if position > self._failed:
            self._failed, self._expected = position, []
        if position == self._failed and expected not in self._expected:
            self._expected.append(expected)
        return Unexpected()

    def error(self) -> ConfigError:
        """Returns the error at the last position where reading failed."""
        at, _ = self._failed
        rest = self.text[at:]
        got = f"'{rest[:20]}'" if rest else "the end of the line"
        wanted = " or ".join(self._expected)
        return ConfigError(f"expected {wanted}, got {got}", self.span.part(at, max(1, len(rest[:20]))))

    # ---- characters ----

    def take(self, pattern: re.Pattern[str], expected: str) -> str:
        """Returns what matches the pattern here, and goes behind it."""
        found = pattern.match(self.text, self.at)
        if found is None:
            raise self.fail(expected)
        self.at = found.end()
        return found[0]

    def skip(self, text: str) -> bool:
        """Returns true, and goes behind the text, if the text stands here."""
        stands = self.text.startswith(text, self.at)
        self.at += len(text) * stands
        return stands

    def literal(self, text: str) -> None:
        if not self.skip(text):
            raise self.fail(f"'{text}'")

    def end(self) -> None:
        if self.at != len(self.text):
            raise self.fail("the end of the line")

    def maybe(self, read: Callable[[], Read]) -> Read | None:
        """Returns what is read here; None, without moving, if something else stands here."""
        at = self.at
        try:
            return read()
        except Unexpected:
            self.at = at
            return None

    # ---- values ----

    def number(self) -> int:
        return int(self.take(NUMBER, "a whole number"))

    def count(self) -> int:
        return int(self.take(COUNT, "a number of at most 7 digits"))

    def real(self) -> float:
        return float(self.take(REAL, "a number"))

    def flag(self) -> bool:
        return self.take(FLAG, "True or False") == "True"

    def name(self, following: str = "", *, quoted: bool = False) -> str:
        """Returns a name: a word before the text `following`, or anything in quotes."""
        if quoted or self.text[self.at : self.at + 1] in ("'", '"'):
            return str(literal_eval(self.take(QUOTED, "a name in quotes")))
        behind = f"?(?={following})" if following else ""
        return self.take(re.compile(WORD + behind), "a name")

    def kernel(self, following: str) -> int:
        """Returns the number of a kernel with a line of its own: `affine`, or `affine#2` for the second of the name."""
        at = self.at
        name, position = self.labelled(following)
        found = [number for number, kernel in enumerate(self.computation.kernels) if kernel.name == name]
        if position > len(found):
            raise self.refuse(f"a kernel with a line of its own above, such as 'kernel {name} [] of []'", at)
        return found[position - 1]

    def labelled(self, following: str) -> tuple[str, int]:
        """Returns a name, and 2 for a second kernel of this name."""
        name = self.name(f"#|{following}")
        return name, max(1, self.count()) if self.skip("#") else 1

    def listed(self, item: Callable[[], None], begin: str = "[", end: str = "]", separator: str = ", ") -> None:
        """Reads items between brackets."""
        self.literal(begin)
        if self.skip(end):
            return
        item()
        while not self.skip(end):
            if not self.skip(separator):
                raise self.fail(f"'{separator}' or '{end}'")
            item()

    def run(self) -> tuple[int, int]:
        """Returns the first number and the number of numbers of `3:5`, or of `3`."""
        at = self.at
        first = self.number()
        last = self.number() if self.skip(":") else first
        if last < first or last - first >= 10**7:
            raise self.refuse("a range whose last number is not below its first", at)
        return first, last - first + 1

    # ---- operands ----

    def matrix(self) -> int:
        """Returns the number of a matrix that has a line of its own, `m3`."""
        at = self.at
        if not self.skip("m"):
            raise self.fail("a sub-matrix such as m1 or m1(0:9, :)")
        number = self.count()
        matrices = self.computation.matrices
        if not 0 < number < len(matrices) or not matrices[number].num_rows:
            raise self.refuse(f"a matrix with a line of its own above, such as 'm{number}(4, 3)'", at)
        return number

    def submatrix(self) -> int:
        """Returns the number of the sub-matrix `m3`, `m3(0:9 + 4i, 20:39)` or `[]`."""
        if self.skip("[]"):
            return 0
        if self.at in self._read_here:
            number, self.at = self._read_here[self.at]
            return number
        begin = self.at
        number = self._submatrix()
        self._read_here[begin] = number, self.at
        return number

    def _submatrix(self) -> int:
        matrix = self.matrix()
        size = self.computation.matrices[matrix]
        rows, step, columns, later = (0, size.num_rows), 0, (0, size.num_cols), list[tuple[int, int]]()
        if self.skip("("):
            rows = self._range(size.num_rows)
            while self.skip(" then "):
                later.append(self.run())
            step = self._step()
            self.literal(", ")
            columns = self._range(size.num_cols)
            self.literal(")")
        return self.submatrix_of(SubMatrix(matrix, *rows, *columns, step), later)

    def _range(self, size: int) -> tuple[int, int]:
        at = self.at
        if self.skip(":"):
            return 0, size
        first, count = self.run()
        if first < 0 or first + count > size:
            raise self.refuse(f"a range within 0:{size - 1}", at)
        return first, count

    def _step(self) -> int:
        """Returns what is added in each iteration, 4 for ` + 4i`."""
        sign = 1 if self.skip(" + ") else -1 if self.skip(" - ") else 0
        if not sign:
            return 0
        size = 1 if self.skip("i") else self.count()
        if size != 1 or self.text[self.at - 1] != "i":
            self.literal("i")
        return sign * size

    def submatrix_of(self, block: SubMatrix, later: Sequence[tuple[int, int]] = ()) -> int:
        """Returns the number of a block; `later`: its first row and number of rows in iterations after the first."""
        iterations = np.array([(block.row_offset, block.num_rows), *later], dtype=np.int64)
        key = block, iterations.tobytes() if later else b""
        if key not in self.submatrices:
            self.submatrices[key] = number = self.computation.add_submatrices(np.array([block]))
            if later:
                self.computation.iterations[number] = iterations
        return self.submatrices[key]

    # ---- side tables ----

    def index_list(self) -> int:
        """Returns the number of the table `[0:11, -1x4]`."""
        rows: list[int] = []

        def item() -> None:
            if not self._none(rows, [-1]):
                first, count = self.run()
                rows.extend(range(first, first + count))

        self._items(item)
        return self.computation.new_index_table(np.array(rows, np.int32))

    def multi_list(self) -> int:
        """Returns the number of the table `[m1(0:3, :), -1x2, m2[7]]`."""
        pairs: list[tuple[int, int]] = []

        def item() -> None:
            if not self._none(pairs, [(-1, -1)]):
                number = self.submatrix()
                first, count = 0, self.computation.submatrices[number].num_rows
                if self.skip("["):
                    first, count = self._range(count)
                    self.literal("]")
                pairs.extend((number, row) for row in range(first, first + count))

        self._items(item)
        return self.computation.new_multi_table(np.array(pairs, np.int32).reshape(-1, 2))

    def range_list(self) -> int:
        """Returns the number of the table `[0:3, -, 4]`."""
        ranges: list[tuple[int, int]] = []

        def item() -> None:
            if self.skip("-"):
                ranges.append((0, 0))
            else:
                first, count = self.run()
                ranges.append((first, first + count))

        self._items(item)
        return self.computation.new_range_table(np.array(ranges, np.int32).reshape(-1, 2))

    def table(self, list_name: str) -> int:
        """Returns the number of a side table of the list `list_name`."""
        readers = {"index_tables": self.index_list, "multi_tables": self.multi_list, "range_tables": self.range_list}
        return readers[list_name]()

    def _items(self, item: Callable[[], None]) -> None:
        def whole_item() -> None:
            self._not_cut()
            item()

        self.listed(whole_item)

    def _not_cut(self) -> None:
        if self.text.startswith("...", self.at):
            raise self.refuse("the whole list, as text(full=True) writes it", self.at)

    def _none(self, found: list[Read], none: list[Read]) -> bool:
        """Reads `-1` or `-1x4`, and adds as many times none; returns false if something else stands here."""
        if not self.skip("-1"):
            return False
        found += none * (self.count() if self.skip("x") else 1)
        return True

    # ---- indexes ----

    def indexes(self) -> np.ndarray:
        """Returns the indexes `[ (0, -1:1) (1, 5) (0:7, 2) (1, 0:3, 2) (1, -) ]`, (rows, 3) int32."""
        rows: list[tuple[int, int, int]] = []
        self.literal("[ ")
        while not self.skip("]"):
            self._not_cut()
            self.literal("(")
            n, count = self.run()
            self.literal(", ")
            times = (NO_TIME, 1) if self.skip("-)") or self.skip("-,") else self.run()
            if times[0] == NO_TIME:
                self.at -= 1
            x = self.number() if self.skip(", ") else 0
            self.literal(") ")
            rows += [(a, t, x) for t in range(times[0], sum(times)) for a in range(n, n + count)]
        return np.array(rows, np.int32).reshape(-1, 3)
