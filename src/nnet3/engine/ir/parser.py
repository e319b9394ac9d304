"""The parser of the full printed text: `parse_computation(c.text(full=True))` runs as c does.

>>> print(parse_computation('''
...     m1(4, 3)
...     m2(4, 3)
...     input 'x' is m1
...     output 'y' is m2
...     m1 = undefined(4, 3)
...     m1 = user input [for node: 'x']
...     m2 = zeros(4, 3)
...     m2(0:1, :) += 0.5 * m1(2:3, :)
...     output m2 to user [for node: 'y']
...     '''))
# 2 matrices, 5 commands, 1 segment
m1(4, 3)
m2(4, 3)
c0: m1 = undefined(4, 3)
c1: m1 = user input [for node: 'x']
c2: m2 = zeros(4, 3)
c3: m2(0:1, :) += 0.5 * m1(2:3, :)
c4: output m2 to user [for node: 'y']

Lines may be indented, numbered (`c3: `), empty or comments (`# `). What a program does not use has other numbers than
before, such as sub-matrices and tables that no command names.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import fields
from typing import Any

import numpy as np

from nnet3.engine.ir.computation import NnetComputation
from nnet3.engine.ir.cursor import Cursor, Unexpected
from nnet3.engine.ir.declarations import COMMAND_CLASSES
from nnet3.engine.ir.kernel import InputPromises, KernelInfo
from nnet3.engine.ir.lines import Line
from nnet3.engine.ir.program_tables import IoInfo, KernelRows, Matrix, MatrixInfo, OutsideMatrix, SubMatrix
from nnet3.errors import Span

_NUMBERED = re.compile(r"c\d+: ")
_MOST_MATRICES = 10**6


def parse_computation(text: str, source: str = "program") -> NnetComputation:
    """Returns the computation of a text in the full printed text; nothing is checked but names and ranges of rows.

    Raises ConfigError with the position in `source`, what was expected and what was got.
    """
    reader = _Reader()
    for number, line in enumerate(text.splitlines(), start=1):
        words = line.strip()
        if words and not words.startswith("#"):
            start = line.index(words)
            found = _NUMBERED.match(words)
            start, words = (start + found.end(), words[found.end() :]) if found else (start, words)
            reader.read(Span(source, number, start + 1, len(words), line))
    matrices = reader.computation.matrices
    matrices[1:] = [size if size.num_rows else Matrix(1, 1) for size in matrices[1:]]  # numbers that nobody uses
    return reader.computation


class _Reader:
    """Reads line after line into a computation."""

    def __init__(self) -> None:
        self.computation = NnetComputation()
        self.submatrices: dict[tuple[SubMatrix, bytes], int] = {}
        self.entry: dict[str, np.ndarray] | None = None  # the last precomputed entry, for arrays to come
        self._headers: dict[str, Callable[[Cursor], None]] = {
            r"m\d+\(\d+, \d+\)( ==| in |$)": self._matrix,
            "kernel ": self._kernel,
            "(input|output) ['\"]": self._io,
            "with |memos |made ": self._whole,
            "precomputed ": self._precomputed,
            r".* = \w+\([\d, ]*\) \[": self._array,
        }
        self._commands = [self._command(each.line_syntax) for each in COMMAND_CLASSES.values()]

    def read(self, span: Span) -> None:
        cursor = Cursor(self.computation, self.submatrices, span)
        headers = [read for pattern, read in self._headers.items() if re.match(pattern, cursor.text)]
        for read in headers or self._commands:
            cursor.at = 0
            try:
                read(cursor)
                cursor.end()
            except Unexpected:
                continue
            return
        raise cursor.error()

    def _command(self, line: Line) -> Callable[[Cursor], None]:
        return lambda cursor: self.computation.commands.append(line.read(cursor))

    def _matrix(self, cursor: Cursor) -> None:
        c = self.computation
        cursor.literal("m")
        number = cursor.count()
        cursor.literal("(")
        rows = cursor.count()
        cursor.literal(", ")
        cols = cursor.count()
        cursor.literal(")")
        info = self._info(cursor)
        name = cursor.name(quoted=True) if cursor.skip(" in outside memory ") else ""
        writable = not cursor.skip(" (read only)")
        cursor.end()
        if not 0 < number < _MOST_MATRICES or rows < 1 or cols < 1:
            raise cursor.refuse("a matrix of some rows and columns", 0)
        if number < len(c.matrices) and c.matrices[number].num_rows:
            raise cursor.refuse(f"no second line for m{number}", 0)
        c.matrices += [Matrix(0, 0)] * (number + 1 - len(c.matrices))
        c.matrices[number] = Matrix(rows, cols)
        whole = cursor.submatrix_of(SubMatrix(number, 0, rows, 0, cols))
        if info is not None:
            c.matrix_info[number] = info
        if name:
            c.outside.append(OutsideMatrix(name, whole, writable))

    def _info(self, cursor: Cursor) -> MatrixInfo | None:
        if not cursor.skip(" == "):
            return None
        is_deriv = cursor.skip("derivative: ")
        if not is_deriv:
            cursor.literal("value: ")
        node = cursor.name(" ")
        cursor.literal(" ")
        return MatrixInfo(node, is_deriv, None if cursor.skip("without samples") else cursor.indexes())

    def _kernel(self, cursor: Cursor) -> None:
        cursor.literal("kernel ")
        at = cursor.at
        name, position = cursor.labelled(" ")
        cursor.literal(" ")
        flags = _flags(cursor, KernelInfo)
        cursor.literal(" of")
        inputs: list[InputPromises] = []
        while cursor.skip(", " if inputs else " "):
            inputs.append(InputPromises(**_flags(cursor, InputPromises)))
        cursor.end()
        before = sum(kernel.name == name for kernel in self.computation.kernels)
        if position != before + 1:
            raise cursor.refuse(f"'{name}#{before + 1}'" if before else f"'{name}'", at)
        self.computation.kernels.append(KernelInfo(name, tuple(inputs), **flags))

    def _io(self, cursor: Cursor) -> None:
        """Reads `input 'x' is m1, derivative m2`."""
        is_output = cursor.skip("output ")
        if not is_output:
            cursor.literal("input ")
        name = cursor.name(quoted=True)
        cursor.literal(" is ")
        value = cursor.submatrix()
        deriv = cursor.submatrix() if cursor.skip(", derivative ") else 0
        cursor.end()
        (self.computation.outputs if is_output else self.computation.inputs).append(IoInfo(name, value, deriv))

    def _whole(self, cursor: Cursor) -> None:
        """Reads what is true of the whole program."""
        if cursor.skip("with model derivative"):
            self.computation.need_model_derivative = True
        elif cursor.skip("memos "):
            self.computation.num_memos = cursor.count()
        else:
            cursor.literal("made for ")
            aspect = cursor.name(quoted=True)
            cursor.literal(" ")
            self.computation.fingerprint[aspect] = cursor.name(quoted=True)

    def _precomputed(self, cursor: Cursor) -> None:
        """Reads `precomputed 1 of node, forward: [ (0, 0:5) ] to [ (0, 0) ]`; its arrays follow."""
        c = self.computation
        cursor.literal(f"precomputed {len(c.precomputed)}")
        if cursor.skip(" of "):
            node = cursor.name(",")
            runs_backward = cursor.skip(", backward")
            if not runs_backward:
                cursor.literal(", forward")
            go_on = cursor.skip(", going on")
            cursor.literal(": ")
            inputs = cursor.indexes()
            cursor.literal(" to ")
            c.precomputed_rows.append(KernelRows(node, runs_backward, inputs, cursor.indexes(), go_on))
        cursor.end()
        self.entry = {}
        c.precomputed.append(self.entry)

    def _array(self, cursor: Cursor) -> None:
        """Reads `rows = int64(2, 2) [0, 1, 2, 3]`, an array of the last precomputed entry."""
        name = cursor.name(" = ")
        cursor.literal(" = ")
        at = cursor.at
        dtype = cursor.name(r"\(")
        shape: list[int] = []
        cursor.listed(lambda: shape.append(cursor.count()), "(", ")")
        cursor.literal(" ")
        values: list[Any] = []
        read = cursor.real if dtype.startswith("float") else cursor.number
        is_bool = dtype == "bool"
        cursor.listed(lambda: values.append(cursor.flag() if is_bool else read()))
        cursor.end()
        if not re.fullmatch(r"bool|u?int(8|16|32|64)|float(16|32|64)", dtype) or np.prod(shape) != len(values):
            raise cursor.refuse("a dtype, and as many values as the shape has", at)
        if self.entry is None:
            raise cursor.refuse("a line of a precomputed entry above", 0)
        self.entry[name] = np.array(values, dtype).reshape(shape)


def _flags(cursor: Cursor, kind: type) -> dict[str, bool]:
    """Returns the flags `[row_by_row, not backprop_is_linear]` of KernelInfo or InputPromises."""
    known = {each.name: each.default for each in fields(kind) if isinstance(each.default, bool)}
    found: dict[str, bool] = {}

    def flag() -> None:
        value = not cursor.skip("not ")
        at = cursor.at
        name = cursor.name(r"[],]")
        if name not in known:
            raise cursor.refuse(f"a promise of {kind.__name__}", at)
        found[name] = value

    cursor.listed(flag)
    return found
