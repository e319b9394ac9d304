"""Symbol tables: the words behind the labels of an FST, in OpenFst's binary form and as `words.txt`."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from nnet3.base.kaldi_io.files import map_file
from nnet3.base.kaldi_io.reader import Reader
from nnet3.base.native.addresses import address_of
from nnet3.base.native.library import little_endian_library
from nnet3.errors import ModelFormatError

MAGIC = struct.pack("<i", 2125658996)
_WHAT = "a symbol table"
_LENGTH, _KEY, _COUNTS = struct.Struct("<i"), struct.Struct("<q"), struct.Struct("<qq")
_LEAST_SYMBOL = _LENGTH.size + _KEY.size  # bytes of an empty one


@dataclass(frozen=True, eq=False)
class SymbolTable:
    """`names`: from labels to words; `source`: the file."""

    names: Mapping[int, str]
    source: str = ""

    @cached_property
    def labels(self) -> dict[str, int]:
        """The labels of words; of several labels of a word the first one."""
        return {name: label for label, name in reversed([*self.names.items()])}

    def __len__(self) -> int:
        return len(self.names)

    def __getitem__(self, label: int) -> str:
        """Returns the word of a label. Raises ModelFormatError without one: the table belongs to another graph."""
        if label not in self.names:
            message = f"the symbol table has no label {label}: does it belong to this graph?"
            raise ModelFormatError(message, self.source)
        return self.names[label]


def read_symbols(reader: Reader) -> SymbolTable:
    """Reads magic, name, next free key and number of symbols, then the text and the key of each symbol."""
    if take(reader, len(MAGIC), _WHAT) != MAGIC:
        raise reader.error(f"expected {_WHAT}, as the header of the FST says")
    take(reader, _length(reader), _WHAT)
    _, count = _COUNTS.unpack(take(reader, _COUNTS.size, _WHAT))
    if count < 0 or _LEAST_SYMBOL * count > reader.left:
        raise reader.error(f"{_WHAT} of {count} symbols is more than the file can hold")
    starts, labels = _found_symbols(reader, count)
    return SymbolTable(_PackedNames(take(reader, int(starts[-1]), _WHAT), starts, labels), reader.source)


def symbol_bytes(symbols: SymbolTable) -> bytes:
    """Returns a table without a name as `read_symbols` reads it."""
    texts = ((label, name.encode()) for label, name in symbols.names.items())
    entries = [_LENGTH.pack(len(text)) + text + _KEY.pack(label) for label, text in texts]
    counts = _COUNTS.pack(max(symbols.names, default=-1) + 1, len(entries))
    return MAGIC + _LENGTH.pack(0) + counts + b"".join(entries)


def _found_symbols(reader: Reader, count: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Returns where symbols begin behind the reader's position, and the end of the last one, (count + 1,); labels."""
    contents, functions = np.frombuffer(reader.data, np.uint8, reader.left, reader.position), little_endian_library()
    if functions is not None:
        starts, labels = np.empty(count + 1, np.int64), np.empty(count, np.int64)
        found = address_of(starts), address_of(labels)
        if functions.nnet3_symbols(len(contents), count, address_of(contents), *found):
            return starts, labels
    return _symbols_one_by_one(reader, count)


def _symbols_one_by_one(reader: Reader, count: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Does the same without C, or says where the damage is."""
    data, size, offset = reader.data, reader.position + reader.left, reader.position
    starts, labels = [0], list[int]()
    for _ in range(count):
        behind = offset + _LEAST_SYMBOL
        if behind <= size:
            behind += _LENGTH.unpack_from(data, offset)[0]
        if not offset + _LEAST_SYMBOL <= behind <= size:
            reader.position = offset
            raise reader.truncated(f"{_WHAT} of {count} symbols is not there")
        offset = behind
        starts.append(offset - reader.position)
        labels += _KEY.unpack_from(data, offset - _KEY.size)
    return np.array(starts), np.array(labels, np.int64)


class _PackedNames(Mapping[int, str]):
    """Names by their labels; a name becomes text on demand only, because most words are never said.

    contents: the symbols as in a file; starts: (symbols + 1,), the starts of all symbols and the end of the last;
    labels: (symbols,).
    """

    def __init__(self, contents: bytes, starts: npt.NDArray[np.int64], labels: npt.NDArray[np.int64]):
        self._contents, self._starts = contents, starts
        if (labels[1:] > labels[:-1]).all():
            self._labels, self._offsets = labels, np.arange(len(labels))
        else:  # of several names of a label the first one
            self._labels, self._offsets = np.unique(labels, return_index=True)

    @cached_property
    def _in_order(self) -> npt.NDArray[np.int64]:
        """The labels as they stand in the file."""
        return np.asarray(self._labels[np.argsort(self._offsets)])

    def __getitem__(self, label: int) -> str:
        at = int(np.searchsorted(self._labels, label))
        if at == len(self._labels) or self._labels[at] != label:
            raise KeyError(label)
        offset = self._offsets[at]
        begin, end = self._starts[offset] + _LENGTH.size, self._starts[offset + 1] - _KEY.size
        return self._contents[begin:end].decode("utf-8", "replace")

    def __iter__(self) -> Iterator[int]:
        return iter(self._in_order.tolist())

    def __len__(self) -> int:
        return len(self._labels)


def _length(reader: Reader) -> int:
    (length,) = _LENGTH.unpack(take(reader, _LENGTH.size, _WHAT))
    if length < 0:
        raise reader.error(f"{_WHAT} cannot have {length} bytes")
    return int(length)


def take(reader: Reader, count: int, what: str) -> bytes:
    """Returns the next `count` bytes, a part of `what`. ModelFormatError if fewer bytes are left."""
    reader.need(count, what)
    reader.position += count
    return reader.data[reader.position - count : reader.position]


def load_symbols(path: str | os.PathLike[str]) -> SymbolTable:
    """Reads a text of lines `word label`, such as `words.txt`. Raises ModelFormatError, also for a repeated label."""
    contents = bytes(map_file(path))
    names: dict[int, str] = {}
    for number, line in enumerate(contents.split(b"\n"), 1):
        fields = line.split()
        if not fields:
            continue
        with _at_line(str(path), number):
            if len(fields) != 2 or not fields[1].isdigit() or len(fields[1]) > 10:
                raise ValueError
            label, name = int(fields[1]), fields[0].decode()
        if names.setdefault(label, name) != name:
            raise ModelFormatError(
                f"the label {label} is that of '{names[label]}' already, got it for '{name}' too: give each its own",
                str(path),
                f"line {number}",
            )
    return SymbolTable(names, str(path))


@contextmanager
def _at_line(source: str, number: int) -> Iterator[None]:
    try:
        yield
    except ValueError:  # also of UTF-8
        raise ModelFormatError("expected a word and its label, a whole number", source, f"line {number}") from None
