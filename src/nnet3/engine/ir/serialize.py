"""Conversion of a computation to plain data (a header for JSON, and named arrays) and back.

Commands are stored class by class and field by field, as declared: whole numbers in one int64 array,
real numbers in a float64 array, texts as numbers in a list of texts, tuples as their lengths and one flat list. Nothing
here knows any command.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, fields
from itertools import chain, islice
from operator import attrgetter
from typing import Any

import numpy as np

from nnet3.engine.ir.computation import NnetComputation
from nnet3.engine.ir.declarations import COMMAND_CLASSES, Command, FieldSchema, PlainValue, Schema
from nnet3.engine.ir.kernel import InputPromises, KernelInfo
from nnet3.engine.ir.objects import Distinct
from nnet3.engine.ir.program_tables import IoInfo, KernelRows, Matrix, MatrixInfo, OutsideMatrix, SubMatrix
from nnet3.engine.ir.references import limits, table_problems
from nnet3.engine.ir.variables import block_table, matrix_sizes
from nnet3.errors import ModelFormatError

VERSION = 13  # a new one wherever fields change: caches find files by it

Arrays = dict[str, np.ndarray]


def to_data(computation: NnetComputation) -> tuple[dict[str, Any], Arrays]:
    """Returns the header (lists, dicts, strings, numbers) and the arrays of a computation."""
    arrays: Arrays = {
        "matrices": matrix_sizes(computation),
        "submatrices": block_table(computation),
    }
    for name in ("index_tables", "multi_tables", "range_tables"):
        arrays |= _joined(name, getattr(computation, name), 0 if name == "index_tables" else 2)
    arrays |= _joined("iterations", computation.iterations.values(), 2, np.int64)
    header: dict[str, Any] = {
        "format": "nnet3 computation",
        "version": VERSION,
        "info": _info_to_data(computation, arrays),
        "outside": [list(bound) for bound in computation.outside],
        "iterations": list(computation.iterations),
        "precomputed": _precomputed_to_data(computation, arrays),
        "precomputed_rows": [[rows.node, rows.runs_backward, rows.go_on] for rows in computation.precomputed_rows],
        "kernels": [asdict(kernel) for kernel in computation.kernels],
        "inputs": [[io.name, io.value, io.deriv] for io in computation.inputs],
        "outputs": [[io.name, io.value, io.deriv] for io in computation.outputs],
        "num_memos": computation.num_memos,
        "need_model_derivative": computation.need_model_derivative,
        "fingerprint": dict(computation.fingerprint),
    }
    header.update(_commands_to_data(computation.commands, arrays))
    return header, arrays


def from_data(header: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> NnetComputation:
    """Returns the computation given to `to_data`. All numbers refer to existing objects; the checker can say more.

    Raises ModelFormatError for data that is not of this format or version.
    """
    if not isinstance(header, Mapping) or header.get("format") != "nnet3 computation":
        raise ModelFormatError("this is no stored computation")
    if header.get("version") != VERSION:
        raise ModelFormatError(
            f"the stored computation has version {header.get('version')!r}, expected {VERSION}: compile it again"
        )
    try:
        computation = _read(header, arrays)
        problem = next(chain(table_problems(computation), _missing(computation)), None)
    except (KeyError, ValueError, TypeError, IndexError, AttributeError, OverflowError) as error:
        detail = f"{type(error).__name__}: {error}"
        raise ModelFormatError(f"the stored computation is damaged ({detail}): compile it again") from error
    if problem is not None:
        raise ModelFormatError(f"the stored computation is damaged ({problem}): compile it again")
    return computation


def _joined(name: str, tables: Collection[np.ndarray], columns: int, dtype: type = np.int32) -> Arrays:
    """Returns tables as one array and their lengths; 0 columns are plain lists. `_split` is the other way."""
    empty: np.ndarray = np.zeros((0, columns) if columns else 0, dtype)
    lengths = np.array(list(map(len, tables)), np.int64)
    return {f"{name}.lengths": lengths, name: np.concatenate([empty, *tables]).astype(dtype)}


def _missing(computation: NnetComputation) -> Iterator[str]:
    """Yields multi tables with missing sub-matrices; fields of commands were checked when they were read."""
    for number, table in enumerate(computation.multi_tables):
        if len(table) and not ((table[:, 0] >= -1) & (table[:, 0] < len(computation.submatrices))).all():
            yield f"multi table {number} names a sub-matrix that does not exist"


# ---- everything but the commands ----


def _info_to_data(computation: NnetComputation, arrays: Arrays) -> list[list[Any]]:
    """Returns [matrix, node, is derivative, number of its index table or -1] each; equal tables are stored once."""
    tables = Distinct[np.ndarray]()
    result: list[list[Any]] = []
    for matrix, info in computation.matrix_info.items():
        number = -1
        if info.indexes is not None:
            number = tables.number_of(info.indexes, info.indexes.tobytes())
        result.append([matrix, info.node, info.is_deriv, number])
    arrays |= _joined("indexes", tables, 3)
    return result


def _precomputed_to_data(computation: NnetComputation, arrays: Arrays) -> list[list[str] | None]:
    """Returns the names of the arrays of each entry, which are stored as `precomputed.NUMBER.NAME`."""
    result: list[list[str] | None] = []
    for number, entry in enumerate(computation.precomputed):
        result.append(None if entry is None else list(entry))
        arrays.update({f"precomputed.{number}.{name}": array for name, array in (entry or {}).items()})
    for number, rows in enumerate(computation.precomputed_rows):
        arrays |= {f"precomputed_rows.{number}.inputs": rows.inputs, f"precomputed_rows.{number}.outputs": rows.outputs}
    return result


def _read(header: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> NnetComputation:
    indexes = _split(arrays, "indexes", 3)
    computation = NnetComputation(
        matrices=list(map(Matrix._make, _integers(arrays["matrices"], 2).tolist())),
        submatrices=list(map(SubMatrix._make, _integers(arrays["submatrices"], 6).tolist())),
        matrix_info={
            _typed(matrix, int): MatrixInfo(_typed(node, str), _typed(is_deriv, bool), indexes[i] if i >= 0 else None)
            for matrix, node, is_deriv, i in header["info"]
        },
        outside=[
            OutsideMatrix(_typed(name, str), _typed(submatrix, int), _typed(writable, bool))
            for name, submatrix, writable in header["outside"]
        ],
        iterations=dict(zip(header["iterations"], _split(arrays, "iterations", 2), strict=True)),
        index_tables=_split(arrays, "index_tables", 0),
        multi_tables=_split(arrays, "multi_tables", 2),
        range_tables=_split(arrays, "range_tables", 2),
        precomputed=[
            None if names is None else {_typed(n, str): np.asarray(arrays[f"precomputed.{i}.{n}"]) for n in names}
            for i, names in enumerate(header["precomputed"])
        ],
        precomputed_rows=[
            KernelRows(
                _typed(node, str),
                _typed(runs_backward, bool),
                _integers(arrays[f"precomputed_rows.{i}.inputs"], 3),
                _integers(arrays[f"precomputed_rows.{i}.outputs"], 3),
                _typed(go_on, bool),
            )
            for i, (node, runs_backward, go_on) in enumerate(header["precomputed_rows"])
        ],
        kernels=[_kernel(data) for data in header["kernels"]],
        inputs=list(map(_io, header["inputs"])),
        outputs=list(map(_io, header["outputs"])),
        num_memos=_typed(header["num_memos"], int),
        need_model_derivative=_typed(header["need_model_derivative"], bool),
        fingerprint={_typed(aspect, str): _typed(digest, str) for aspect, digest in header["fingerprint"].items()},
    )
    if computation.precomputed[:1] != [None] or computation.matrices[:1] != [Matrix(0, 0)]:
        raise ValueError("its entries 0 are not empty")
    computation.commands = _CommandReader(header, arrays, computation).commands()
    return computation


def _typed(value: Any, kind: type) -> Any:
    if type(value) is not kind:
        raise TypeError(f"expected {kind.__name__}, got {value!r}"[:80])
    return value


def _integers(array: np.ndarray, columns: int) -> np.ndarray:
    """Returns the array if it holds integers in `columns` columns; 0 is a plain list."""
    if array.dtype.kind not in "iu" or array.shape[1:] != ((columns,) if columns else ()):
        raise ValueError(f"expected integers in {columns or 'no'} columns, got {array.dtype} {array.shape}")
    return array


def _io(data: Sequence[Any]) -> IoInfo:
    name, value, deriv = data
    return IoInfo(_typed(name, str), _typed(value, int), _typed(deriv, int))


def _split(arrays: Mapping[str, np.ndarray], name: str, columns: int) -> list[np.ndarray]:
    joined, lengths = _integers(arrays[name], columns), _integers(arrays[f"{name}.lengths"], 0)
    ends = np.cumsum(lengths)
    if (lengths < 0).any() or (ends[-1] if len(ends) else 0) != len(joined):
        raise ValueError("the lengths of its tables do not fit")
    return [joined[end - length : end] for end, length in zip(ends.tolist(), lengths.tolist(), strict=True)]


def _kernel(data: Mapping[str, Any]) -> KernelInfo:
    if set(data) != {field.name for field in fields(KernelInfo)}:
        raise ValueError(f"a kernel with the fields {sorted(data)}"[:80])
    inputs = tuple(InputPromises(**{name: _typed(value, bool) for name, value in i.items()}) for i in data["inputs"])
    flags = {name: _typed(value, bool) for name, value in data.items() if name not in ("name", "inputs")}
    return KernelInfo(_typed(data["name"], str), inputs, **flags)


# ---- the commands ----


def _commands_to_data(commands: Sequence[Command], arrays: Arrays) -> dict[str, Any]:
    groups: dict[type[Command], list[Command]] = defaultdict(list)
    for command in commands:
        groups[type(command)].append(command)
    for command_class in groups:
        if COMMAND_CLASSES.get(command_class.__name__) is not command_class:
            raise TypeError(f"another class of commands is called {command_class.__name__}: it is not found again")
    number_of_class = {command_class: number for number, command_class in enumerate(groups)}
    texts: dict[str, int] = {}
    integers: list[int] = []
    reals: list[float] = []
    for command_class, group in groups.items():
        for field in command_class.schema.fields:
            values = list(map(attrgetter(field.name), group))
            if field.several:
                integers += map(len, values)
                values = list(chain.from_iterable(values))
            kind = _kind(field)
            if kind is str:
                values = [texts.setdefault(text, len(texts)) for text in values]
            (reals if kind is float else integers).extend(values)
    arrays["commands.order"] = np.array([number_of_class[type(c)] for c in commands], dtype=np.int64)
    arrays["commands.integers"] = np.array(integers, dtype=np.int64)
    arrays["commands.reals"] = np.array(reals, dtype=np.float64)
    return {"classes": [[c.__name__, len(group)] for c, group in groups.items()], "texts": list(texts)}


def _kind(field: FieldSchema) -> type:
    return field.declared.kind if isinstance(field.declared, PlainValue) else int


class _CommandReader:
    """Reads commands from their arrays, class by class and field by field."""

    def __init__(self, header: Mapping[str, Any], arrays: Mapping[str, np.ndarray], computation: NnetComputation):
        self.computation = computation
        self.texts = [_typed(text, str) for text in header["texts"]]
        self.classes = [(COMMAND_CLASSES[name], _typed(count, int)) for name, count in header["classes"]]
        self.order = _integers(arrays["commands.order"], 0)
        self.integers = _integers(arrays["commands.integers"], 0)
        self.reals = arrays["commands.reals"]
        if self.reals.dtype != np.float64 or self.reals.ndim != 1:
            raise ValueError("its real numbers are not float64")
        self.integers_taken = self.reals_taken = 0

    def commands(self) -> list[Command]:
        if ((self.order < 0) | (self.order >= len(self.classes))).any():
            raise ValueError("a command is of a class that is not there")
        counts = np.bincount(self.order, minlength=len(self.classes)).tolist()
        if counts != [count for _, count in self.classes]:
            raise ValueError("the counts of its commands do not fit")
        groups = [self._group(command_class, count) for command_class, count in self.classes]
        if self.integers_taken != len(self.integers) or self.reals_taken != len(self.reals):
            raise ValueError("there is more than its commands need")
        return list(map(next, map(groups.__getitem__, self.order.tolist())))

    def _group(self, command_class: type[Command], count: int) -> Iterator[Command]:
        schema: Schema = command_class.schema
        columns = [self._column(field, count) for field in schema.fields]
        make: Callable[[type[Command]], Command] = object.__new__
        commands = [make(command_class) for _ in range(count)]
        for command, values in zip(commands, zip(*columns, strict=True), strict=False):
            command.__dict__.update(zip(schema.names, values, strict=True))
        return iter(commands)

    def _column(self, field: FieldSchema, count: int) -> list[Any]:
        if not field.several:
            return self._values(field, count)
        lengths = self._take_integers(count)
        if (lengths < 0).any():
            raise ValueError(f"{field.name} has a negative length")
        values = iter(self._values(field, int(lengths.sum())))
        return [tuple(islice(values, length)) for length in lengths.tolist()]

    def _values(self, field: FieldSchema, count: int) -> list[Any]:
        kind = _kind(field)
        if kind is float:
            self.reals_taken += count
            if self.reals_taken > len(self.reals):
                raise ValueError("there are too few real numbers for its commands")
            return self.reals[self.reals_taken - count : self.reals_taken].tolist()
        numbers = self._take_integers(count)
        limit = limits(self.computation, field.declared)
        if limit is not None and len(numbers) and not limit[0] <= numbers.min() <= numbers.max() < limit[1]:
            raise ValueError(f"{field.name} {numbers.min()} to {numbers.max()}, expected {limit[0]} to {limit[1] - 1}")
        if kind is str:
            return [self.texts[number] for number in numbers.tolist()]
        return (numbers != 0).tolist() if kind is bool else numbers.tolist()

    def _take_integers(self, count: int) -> np.ndarray:
        self.integers_taken += count
        if self.integers_taken > len(self.integers):
            raise ValueError("there are too few numbers for its commands")
        return self.integers[self.integers_taken - count : self.integers_taken]
