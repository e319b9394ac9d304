"""Examples of frames or sequences with supervision matrices (Kaldi: NnetExample), in files and merged."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Generic, Literal, TypeVar

import numpy as np

from nnet3.base.kaldi_io.general import GeneralMatrix, append_rows, compressed, scaled
from nnet3.base.kaldi_io.reader import Reader
from nnet3.base.kaldi_io.table_writer import TableWriter
from nnet3.base.kaldi_io.tables import TableReader
from nnet3.base.kaldi_io.writer import Writer
from nnet3.errors import ArgumentError, TrainingError
from nnet3.training.examples.queues import ExampleStructure, number_of_ios


@dataclass(frozen=True, eq=False)
class NnetIo:
    """The rows of an input, or the supervision of an output node, as in the file.

    `indexes` is (rows, 3) int32: n, t, x of each row. `matrix` has as many rows: a float32 array, a SparseMatrix or a
    CompressedMatrix, whose codes are kept.
    """

    name: str
    indexes: np.ndarray
    matrix: GeneralMatrix

    @property
    def structure(self) -> tuple[str, tuple[int, int], bytes]:
        """A value equal for ios that may share a minibatch: name, rows, columns and indexes."""
        rows, columns = self.matrix.shape
        return self.name, (rows, columns), np.ascontiguousarray(self.indexes, np.int32).tobytes()


def describe_rows(name: str, indexes: np.ndarray) -> str:
    """Returns words such as `input (6 rows, t = -1 to 4)`."""
    times = indexes[:, 1]
    return f"{name} ({len(times)} rows" + (f", t = {times.min()} to {times.max()})" if len(times) else ")")


def read_io(reader: Reader) -> NnetIo:
    """Reads the `<NnetIo>` at the reader's position."""
    name = reader.after("<NnetIo>").token()
    indexes = reader.index_vector()
    start = reader.position
    matrix = reader.general_matrix(keep_codes=True)
    if matrix.shape[0] != len(indexes):
        raise reader.error_at(start, f"'{name}' has {len(indexes)} indexes, but a matrix of {matrix.shape[0]} rows")
    reader.expect("</NnetIo>")
    return NnetIo(name, indexes, matrix)


def write_io(writer: Writer, io: NnetIo) -> None:
    """Writes the form read by `read_io`, byte for byte as Kaldi does."""
    writer.token("<NnetIo>")
    writer.token(io.name)
    writer.index_vector(io.indexes)
    writer.general_matrix(io.matrix)
    writer.token("</NnetIo>")


E = TypeVar("E")
OnDamage = Literal["error", "skip"]


@dataclass(frozen=True)
class ExampleKind(Generic[E]):
    """A kind of examples as functions, for programs that shuffle, merge and copy examples.

    `structure` is equal for examples that may be merged into one minibatch; `describe` is the structure in words. Rules
    of minibatch sizes ask for `size`. `merge` makes one example of several of equal structure, with compressed matrices
    if the second argument says so. `weighted` multiplies the supervision of `output`, `renamed` renames `output`.
    """

    token: str  # what an example begins with in a file, such as <Nnet3Eg>
    read: Callable[[Reader], E]
    write: Callable[[Writer, E], None]
    structure: Callable[[E], ExampleStructure]
    describe: Callable[[E], str]
    size: Callable[[E], int]
    merge: Callable[[Sequence[E], bool], E]
    weighted: Callable[[E, float], E]
    renamed: Callable[[E, str], E]


class ExampleReader(TableReader[E]):
    """Iterates over (key, example) of a table; only one example is held at a time.

    `on_damage`: "error" raises TableError at a damaged record, naming file, key and place; "skip" warns, counts the
    record in `num_damaged` and goes on with the next record. The rspecifier's option `p` equals "skip". `checksum` is
    the CRC-32 of the last example as stored in the file.
    """

    def __init__(self, rspecifier: str, kind: ExampleKind[E], on_damage: OnDamage = "error"):
        if on_damage not in ("error", "skip"):
            raise ArgumentError(f"on_damage must be 'error' or 'skip', got {on_damage!r}")
        self._kind, self.checksum = kind, 0
        super().__init__(rspecifier, self._read_one, begins=kind.token, permissive=on_damage == "skip")

    def _read_one(self, reader: Reader) -> E:
        start = reader.position
        example = self._kind.read(reader)
        self.checksum = zlib.crc32(reader.data[start : reader.position])
        return example

    @property
    def num_damaged(self) -> int:
        """The number of records left out so far."""
        return self.num_skipped


def example_writer(wspecifier: str, kind: ExampleKind[E]) -> TableWriter[E]:
    """Returns a writer of examples into a table."""
    return TableWriter(wspecifier, kind.write)


TOKEN = "<Nnet3Eg>"
_MOST_IOS = 1_000_000


@dataclass(frozen=True, eq=False)
class Example:
    """Inputs and supervisions. A network tells inputs from supervisions by the names of its input and output nodes."""

    ios: tuple[NnetIo, ...]

    @property
    def num_sequences(self) -> int:
        """One more than the largest n of the first io."""
        return 1 + int(self.ios[0].indexes[:, 0].max(initial=-1))

    def io(self, name: str) -> NnetIo | None:
        """Returns the first io of a name; None if missing."""
        return next((io for io in self.ios if io.name == name), None)


def read_example(reader: Reader) -> Example:
    """Reads the `<Nnet3Eg>` at the reader's position. ModelFormatError for a damaged example."""
    reader.expect(TOKEN)
    reader.expect("<NumIo>")
    start = reader.position
    count = reader.int32()
    if not 1 <= count <= _MOST_IOS:
        raise reader.error_at(start, f"an example cannot have {count} inputs and outputs")
    example = Example(tuple(read_io(reader) for _ in range(count)))
    reader.expect("</Nnet3Eg>")
    return example


def write_example(writer: Writer, example: Example) -> None:
    """Writes the form read by `read_example`, byte for byte as Kaldi does."""
    writer.token(TOKEN)
    writer.token("<NumIo>").int32(len(example.ios))
    for io in example.ios:
        write_io(writer, io)
    writer.token("</Nnet3Eg>")


def structure(example: Example) -> ExampleStructure:
    """Returns a value equal for mergeable examples: equal ios in equal order."""
    return structure_of_ios(example.ios)


def structure_of_ios(ios: Sequence[NnetIo]) -> ExampleStructure:
    """Returns a value equal for equal ios in equal order."""
    number = number_of_ios((io.name, io.indexes, io.matrix.shape) for io in ios)
    return ExampleStructure(number, tuple(io.structure for io in ios))


def describe(example: Example) -> str:
    """Returns the structure of an example in words."""
    return ", ".join(describe_rows(io.name, io.indexes) for io in example.ios)


def size(example: Example) -> int:
    """Returns the largest number of indexes of an io."""
    return max(len(io.indexes) for io in example.ios)


def merge(examples: Sequence[Example], compress: bool = False) -> Example:
    """Returns one example with the rows of all: ios by name in alphabetical order, sequences numbered on.

    Sparse matrices stay sparse, all others become full, or compressed with `compress`.
    """
    if not examples:
        raise ArgumentError("there are no examples to merge")
    step = examples[0].num_sequences
    return Example(tuple(merge_ios([example.ios for example in examples], step, compress)))


def merge_ios(ios_of_example: Sequence[Sequence[NnetIo]], step: int, compress: bool) -> list[NnetIo]:
    """Joins the ios of several examples by name; the n of example k grow by k * step.

    Raises TrainingError for more sequences than can be numbered, and for ios of one name with different columns.
    """
    if step * len(ios_of_example) >= 2**31:
        raise TrainingError(f"{len(ios_of_example)} examples of {step} sequences are too many to be numbered")
    names = sorted({io.name for ios in ios_of_example for io in ios})
    return [_join(name, ios_of_example, step, compress) for name in names]


def _join(name: str, ios_of_example: Sequence[Sequence[NnetIo]], step: int, compress: bool) -> NnetIo:
    parts = [(number, io) for number, ios in enumerate(ios_of_example) for io in ios if io.name == name]
    indexes = np.concatenate([io.indexes for _, io in parts]).astype(np.int32, copy=False)
    indexes[:, 0] += np.repeat([step * number for number, _ in parts], [len(io.indexes) for _, io in parts])
    try:
        matrix = append_rows([io.matrix for _, io in parts])
    except ArgumentError as error:
        raise TrainingError(f"'{name}': {error}") from None
    return NnetIo(name, indexes, compressed(matrix) if compress else matrix)


def weighted(example: Example, weight: float) -> Example:
    """Returns the example with the supervision of `output` times a weight."""
    return _with_output(example, lambda io: io if weight == 1.0 else replace(io, matrix=scaled(io.matrix, weight)))


def renamed(example: Example, name: str) -> Example:
    """Returns the example with another name for `output`."""
    return _with_output(example, lambda io: replace(io, name=name))


def _with_output(example: Example, change: Callable[[NnetIo], NnetIo]) -> Example:
    if example.io("output") is None:
        raise TrainingError(f"this example has no 'output', but {', '.join(io.name for io in example.ios)}")
    return Example(tuple(change(io) if io.name == "output" else io for io in example.ios))


EXAMPLES: ExampleKind[Example] = ExampleKind(
    *(TOKEN, read_example, write_example, structure, describe, size, merge, weighted, renamed)
)
