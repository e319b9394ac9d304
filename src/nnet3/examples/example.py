"""Examples of frames or sequences with supervision matrices (Kaldi: NnetExample), in files and merged."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from nnet3.errors import ArgumentError, TrainingError
from nnet3.examples.io import NnetIo, describe_rows, read_io, write_io
from nnet3.examples.kind import ExampleKind
from nnet3.kaldi_io import Reader, Writer
from nnet3.kaldi_io.general import append_rows, compressed

TOKEN = "<Nnet3Eg>"
_MOST_IOS = 1_000_000


@dataclass(frozen=True, eq=False)
class Example:
    """Inputs and supervisions. A network tells them apart: it has input and output nodes of their names."""

    ios: tuple[NnetIo, ...]

    @property
    def num_sequences(self) -> int:
        """One more than the largest n of the first io."""
        return 1 + int(self.ios[0].indexes[:, 0].max(initial=-1))

    def io(self, name: str) -> NnetIo | None:
        """The first io of this name, if there is one."""
        return next((io for io in self.ios if io.name == name), None)


def read_example(reader: Reader) -> Example:
    """Reads the `<Nnet3Eg>` at the reader's position. ModelFormatError if it is damaged."""
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
    """Writes what `read_example` reads, byte for byte as Kaldi does."""
    writer.token(TOKEN)
    writer.token("<NumIo>")
    writer.int32(len(example.ios))
    for io in example.ios:
        write_io(writer, io)
    writer.token("</Nnet3Eg>")


def structure(example: Example) -> tuple[object, ...]:
    """Returns a value that is equal for examples that may be merged: the same ios in the same order."""
    return tuple(io.structure for io in example.ios)


def describe(example: Example) -> str:
    """Returns the structure of an example in words."""
    return ", ".join(describe_rows(io.name, io.indexes) for io in example.ios)


def size(example: Example) -> int:
    """Returns the largest number of indexes of an io."""
    return max(len(io.indexes) for io in example.ios)


def merge(examples: Sequence[Example], compress: bool = False) -> Example:
    """Returns one example with the rows of all: ios by name in alphabetical order, sequences numbered on.

    Sparse matrices stay sparse, all others become full ones, which are compressed if `compress`.
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


EXAMPLES: ExampleKind[Example] = ExampleKind(TOKEN, read_example, write_example, structure, describe, size, merge)
