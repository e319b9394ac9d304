"""Where examples lie in archives, and what groups them: who knows both reads only the examples used.

Processes that share minibatches all have to know which examples make a minibatch, but each uses its own part.
"""

from __future__ import annotations

import os
from array import array
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from hashlib import blake2b
from typing import Any, BinaryIO, NamedTuple, TypeVar

from nnet3.base.kaldi_io.archive import Extent, read_entry
from nnet3.base.kaldi_io.reader import Reader
from nnet3.errors import ModelFormatError, TrainingError
from nnet3.training.examples.example import ExampleKind
from nnet3.training.examples.queues import ExampleStructure

E = TypeVar("E")
_MOST_OPEN = 16  # files


class Grouping(NamedTuple):
    """What grouping asks of an example: see ExampleKind. The value of `structure` is a digest."""

    structure: ExampleStructure
    size: int
    description: str


class StoredExample(NamedTuple):
    """Example `number` of table `table`, in its file."""

    table: int
    number: int
    grouping: Grouping


class Groupings:
    """The different groupings of examples, numbered; one for all, without a kind, if they are not grouped."""

    def __init__(self, kind: ExampleKind[Any] | None) -> None:
        self._kind = kind
        self._numbers: dict[bytes, int] = {}
        self.all: list[Grouping] = [] if kind else [Grouping(ExampleStructure(0, b""), 0, "")]

    def number(self, example: Any) -> int:
        """Returns the number of the example's grouping, perhaps a new one."""
        if self._kind is None:
            return 0
        structure = self._kind.structure(example)
        digest = blake2b(repr(structure).encode(), digest_size=16).digest()
        number = self._numbers.setdefault(digest, len(self.all))
        if number == len(self.all):
            stored = ExampleStructure(structure.number, digest)
            self.all.append(Grouping(stored, self._kind.size(example), self._kind.describe(example)))
        return number


class StoredTable:
    """Where the examples of one archive lie in its file, and the numbers of their groupings."""

    def __init__(self, groupings: Groupings) -> None:
        self._groupings = groupings
        self.path = ""
        self._stamp = 0, 0
        self._starts, self._sizes, self._numbers = array("q"), array("q"), array("q")

    def add(self, extent: Extent, example: Any) -> None:
        """Adds the next example, which lies at `extent`."""
        if not self.path:
            self.path, self._stamp = extent.path, _stamp(os.stat(extent.path))
        self._starts.append(extent.start)
        self._sizes.append(extent.end - extent.start)
        self._numbers.append(self._groupings.number(example))

    def examples(self, table: int) -> Iterator[StoredExample]:
        """Yields the examples in their order; `table`: the table's number."""
        for number, number_of_grouping in enumerate(self._numbers):
            yield StoredExample(table, number, self._groupings.all[number_of_grouping])

    def open(self) -> BinaryIO:
        """Opens the file. Raises TrainingError if it is not as it was when it was read first."""
        try:
            file = open(self.path, "rb")  # noqa: SIM115 - the reader closes it
        except OSError as error:
            raise TrainingError(f"{self.path}: cannot read this file any more: {error.strerror}") from None
        if _stamp(os.fstat(file.fileno())) != self._stamp:
            file.close()
            raise TrainingError(f"{self.path}: this file has changed since training began: start training again")
        return file

    def read(self, file: BinaryIO, number: int, read: Callable[[Reader], E]) -> tuple[str, E]:
        """Returns the key and the example of a number. Raises TrainingError if the file does not hold it any more."""
        start, size = self._starts[number], self._sizes[number]
        try:
            file.seek(start)
            entry = read_entry(Reader(file.read(size), self.path, binary=False), read)
        except (ModelFormatError, OSError) as error:
            what = error.message if isinstance(error, ModelFormatError) else error.strerror
            raise TrainingError(f"{self.path}: the example at byte {start} cannot be read any more: {what}") from None
        assert entry is not None, "an entry lay there"
        return entry


class StoredReader:
    """Reads examples of some tables, with the files of the last tables open."""

    def __init__(self, tables: Sequence[StoredTable], read: Callable[[Reader], E]) -> None:
        self._tables, self._read = tables, read
        self._files: dict[int, BinaryIO] = {}

    def read(self, example: StoredExample) -> tuple[str, Any]:
        """Returns the key and the example."""
        if example.table not in self._files:
            while len(self._files) >= _MOST_OPEN:
                self._files.pop(next(iter(self._files))).close()
            self._files[example.table] = self._tables[example.table].open()
        return self._tables[example.table].read(self._files[example.table], example.number, self._read)

    def close(self) -> None:
        while self._files:
            self._files.popitem()[1].close()


def kind_of_stored(kind: ExampleKind[Any]) -> ExampleKind[Any]:
    """Returns the kind of stored examples of a kind: what grouping asks of it is stored."""
    return replace(
        kind,
        structure=lambda example: example.grouping.structure,
        describe=lambda example: example.grouping.description,
        size=lambda example: example.grouping.size,
    )


def _stamp(status: os.stat_result) -> tuple[int, int]:
    return status.st_size, status.st_mtime_ns
