"""The places of examples in archives, and their forms: who knows them reads only the examples used.

Processes that share minibatches all have to know which examples make a minibatch, but each uses its own part.
"""

from __future__ import annotations

import os
from array import array
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from hashlib import blake2b
from typing import Any, NamedTuple, TypeVar

from nnet3.base.kaldi_io.archive import Extent, read_entry
from nnet3.base.kaldi_io.reader import Reader
from nnet3.errors import ModelFormatError, TrainingError
from nnet3.training.examples.example import ExampleKind

E = TypeVar("E")
_MOST_OPEN = 16  # files


class Form(NamedTuple):
    """What grouping asks of an example: see ExampleKind. `structure` is a digest."""

    structure: bytes
    size: int
    description: str


class StoredExample(NamedTuple):
    """Example `number` of table `table`, in its file."""

    table: int
    number: int
    form: Form


class Forms:
    """The forms of examples, numbered; one for all, without a kind, if they are not grouped."""

    def __init__(self, kind: ExampleKind[Any] | None) -> None:
        self._kind = kind
        self._numbers: dict[bytes, int] = {}
        self.forms: list[Form] = [] if kind else [Form(b"", 0, "")]

    def number(self, example: Any) -> int:
        """Returns the number of the example's form, perhaps a new one."""
        if self._kind is None:
            return 0
        digest = blake2b(repr(self._kind.structure(example)).encode(), digest_size=16).digest()
        number = self._numbers.setdefault(digest, len(self.forms))
        if number == len(self.forms):
            self.forms.append(Form(digest, self._kind.size(example), self._kind.describe(example)))
        return number


class StoredTable:
    """The places of the examples of one archive, in one file, and the numbers of their forms."""

    def __init__(self, forms: Forms) -> None:
        self._forms = forms
        self.path = ""
        self._stamp = 0, 0
        self._starts, self._sizes, self._numbers = array("q"), array("q"), array("q")

    def add(self, extent: Extent, example: Any) -> None:
        """Adds the next example, which lies at `extent`."""
        if not self.path:
            self.path, self._stamp = extent.path, _stamp(os.stat(extent.path))
        self._starts.append(extent.start)
        self._sizes.append(extent.end - extent.start)
        self._numbers.append(self._forms.number(example))

    def examples(self, table: int) -> Iterator[StoredExample]:
        """Yields the examples in their order; `table`: the table's number."""
        for number, form in enumerate(self._numbers):
            yield StoredExample(table, number, self._forms.forms[form])

    def open(self) -> int:
        """Returns a descriptor of the file. Raises TrainingError if it is not as it was when its places were found."""
        try:
            file = os.open(self.path, os.O_RDONLY)
        except OSError as error:
            raise TrainingError(f"{self.path}: cannot read this file any more: {error.strerror}") from None
        if _stamp(os.fstat(file)) != self._stamp:
            os.close(file)
            raise TrainingError(f"{self.path}: this file has changed since training began: start training again")
        return file

    def read(self, file: int, number: int, read: Callable[[Reader], E]) -> tuple[str, E]:
        """Returns the key and the example of a number. Raises TrainingError if the file does not hold it any more."""
        start, size = self._starts[number], self._sizes[number]
        try:
            entry = read_entry(Reader(os.pread(file, size, start), self.path, binary=False), read)
        except (ModelFormatError, OSError) as error:
            what = error.message if isinstance(error, ModelFormatError) else error.strerror
            raise TrainingError(f"{self.path}: the example at byte {start} cannot be read any more: {what}") from None
        assert entry is not None, "an entry lay there"
        return entry


class StoredReader:
    """Reads examples of some tables, with the files of the last tables open."""

    def __init__(self, tables: Sequence[StoredTable], read: Callable[[Reader], E]) -> None:
        self._tables, self._read = tables, read
        self._files: dict[int, int] = {}

    def read(self, example: StoredExample) -> tuple[str, Any]:
        """Returns the key and the example."""
        if example.table not in self._files:
            while len(self._files) >= _MOST_OPEN:
                os.close(self._files.pop(next(iter(self._files))))
            self._files[example.table] = self._tables[example.table].open()
        return self._tables[example.table].read(self._files[example.table], example.number, self._read)

    def close(self) -> None:
        while self._files:
            os.close(self._files.popitem()[1])


def kind_of_stored(kind: ExampleKind[Any]) -> ExampleKind[Any]:
    """Returns the kind of stored examples of a kind: what grouping asks of it follows from their forms."""
    return replace(
        kind,
        structure=lambda example: example.form.structure,
        describe=lambda example: example.form.description,
        size=lambda example: example.form.size,
    )


def _stamp(status: os.stat_result) -> tuple[int, int]:
    return status.st_size, status.st_mtime_ns
