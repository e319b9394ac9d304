"""Files of compiled computations: sections of JSON headers and NumPy arrays, checked; and folders of such files.

MAGIC, then numbers of 8 bytes: CRC-32 of all that follows, length of the directory; then the directory (JSON), then the
sections' headers (JSON each) and arrays, at the offsets that the directory says, counted from the end of the directory.
Nothing in a file is executed, and arrays are used where they lie.
"""

from __future__ import annotations

import json
import math
import os
import re
import struct
import tempfile
import warnings
import zlib
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from nnet3.base.text import read_json
from nnet3.engine.ir import serialize
from nnet3.engine.ir.computation import NnetComputation
from nnet3.errors import ArgumentError, Nnet3Error

MAGIC = b"nnet3 computation file 1\n"
BUNDLE_MAGIC = f"nnet3 computation files {serialize.VERSION}\n".encode()  # programs of others are never found
_NUMBERS = struct.Struct("<QQ")
_ALIGNMENT = 16
_KINDS = "biuf"  # of arrays: Booleans, integers, floats

#: A header that JSON can hold, and arrays by name.
Section = tuple[Mapping[str, Any], Mapping[str, np.ndarray]]


class CacheFileError(Nnet3Error):
    """A damaged or foreign file; the message says what is wrong."""


def to_bytes(key: str, sections: Mapping[str, Section]) -> bytes:
    """The contents of a file."""
    blobs: list[bytes] = []
    position = 0

    def add(blob: bytes) -> int:
        nonlocal position
        start = position
        blobs.extend((blob, bytes(-len(blob) % _ALIGNMENT)))
        position += len(blob) + -len(blob) % _ALIGNMENT
        return start

    directory: dict[str, Any] = {"key": key, "sections": {}}
    for name, (header, arrays) in sections.items():
        text = json.dumps(header, separators=(",", ":")).encode()
        descriptions = {
            array_name: [array.dtype.str, list(array.shape), add(np.ascontiguousarray(array).tobytes())]
            for array_name, array in arrays.items()
        }
        directory["sections"][name] = {"header": [add(text), len(text)], "arrays": descriptions}
    text = json.dumps(directory, separators=(",", ":")).encode()
    text += b" " * (-(len(MAGIC) + _NUMBERS.size + len(text)) % _ALIGNMENT)
    body = b"".join([text, *blobs])
    return MAGIC + _NUMBERS.pack(zlib.crc32(body), len(text)) + body


def to_bundle(files: Mapping[str, bytes]) -> bytes:
    """The contents of a bundle: one file with the contents of several, by key."""
    parts = [part for key, data in files.items() for part in (_NUMBERS.pack(len(key), len(data)), key.encode(), data)]
    return BUNDLE_MAGIC + b"".join(parts)


def read_bundle(data: bytes) -> Iterator[tuple[str, bytes]]:
    """Keys and unchecked contents of the files in a bundle. Raises CacheFileError for an unreadable bundle."""
    if not data.startswith(BUNDLE_MAGIC):
        raise CacheFileError("it does not begin as a file of this version")
    position = len(BUNDLE_MAGIC)
    while position < len(data):
        begin = position + _NUMBERS.size
        if begin > len(data):
            raise CacheFileError("it ends too early")
        length, size = _NUMBERS.unpack_from(data, position)
        position = begin + length + size
        if position > len(data):
            raise CacheFileError("it ends too early")
        yield data[begin : begin + length].decode(errors="replace"), data[begin + length : position]


def write_file(path: Path, contents: bytes) -> None:
    """Write a file in one step; a half-written file is never visible. Raises OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=".", suffix=".tmp")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(contents)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


class SectionReader:
    """The sections of a file in memory, each read on demand."""

    def __init__(self, data: bytes, key: str) -> None:
        """Check the file as a whole. Raises CacheFileError for a foreign or damaged file, and for another key."""
        if not data.startswith(MAGIC):
            raise CacheFileError("it does not begin as a file of this version")
        begin = len(MAGIC) + _NUMBERS.size
        if len(data) < begin:
            raise CacheFileError("it ends too early")
        checksum, length = _NUMBERS.unpack_from(data, len(MAGIC))
        if zlib.crc32(memoryview(data)[begin:]) != checksum:
            raise CacheFileError("its checksum is wrong")
        try:
            directory = read_json(data[begin : begin + length])
            self._sections: dict[str, Any] = dict(directory["sections"])
            found = directory["key"]
        except (ValueError, KeyError, TypeError) as error:
            raise CacheFileError(f"its directory cannot be read ({error})") from error
        if found != key:
            raise CacheFileError("it is the file of something else")
        self._data, self._begin = data, begin + length

    def names(self) -> list[str]:
        return list(self._sections)

    def read(self, name: str) -> Section:
        """A section's header and read-only arrays. Raises CacheFileError for a missing section."""
        try:
            section = self._sections[name]
            start, length = section["header"]
            header = read_json(self._data[self._begin + start : self._begin + start + length])
            return header, {array: self._array(*description) for array, description in section["arrays"].items()}
        except (ValueError, LookupError, TypeError, AttributeError, OverflowError) as error:
            raise CacheFileError(
                f"a file of compiled programs is damaged: its section '{name}' cannot be read ({error})"
            ) from error

    def _array(self, dtype_text: str, shape: list[int], start: int) -> np.ndarray:
        dtype = np.dtype(dtype_text)
        if dtype.kind not in _KINDS:
            raise ValueError(f"an array of type {dtype_text}")
        count = math.prod(shape)
        if count == 0:
            return np.zeros(shape, dtype)
        return np.frombuffer(self._data, dtype, count, self._begin + start).reshape(shape)


_SUFFIX = ".nnet3"
_NAME = re.compile(rf"[0-9a-f]{{40}}{re.escape(_SUFFIX)}")  # what keys are called; other files are the user's


@dataclass(frozen=True)
class CacheFolder:
    """A folder with a file for each digest, for use by several processes. Failures are warnings.

    Where the cache's files exceed `max_bytes` together, the files written first go.
    """

    folder: Path
    max_bytes: int

    def path(self, digest: str) -> Path:
        return self.folder / f"{digest}{_SUFFIX}"

    def read(self, digest: str) -> bytes | None:
        """Returns the contents of a file, None if the file is missing or unreadable."""
        path = self.path(digest)
        try:
            if path.exists() and not path.is_file():
                raise OSError("not a file")
            return path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            warnings.warn(f"{path} cannot be read ({error}): compiling again", RuntimeWarning, stacklevel=5)
            return None

    def write(self, digest: str, data: bytes) -> None:
        try:
            write_file(self.path(digest), data)
            self._shrink(self.path(digest))
        except OSError as error:
            warnings.warn(f"cannot write to {self.folder} ({error}): not kept there", RuntimeWarning, stacklevel=5)

    def _shrink(self, newest: Path) -> None:
        """Remove the files written first, until the rest is small enough; others may remove some meanwhile."""
        files = []
        with os.scandir(self.folder) as items:
            for item in items:
                with suppress(FileNotFoundError):
                    if _NAME.fullmatch(item.name) and item.is_file(follow_symlinks=False):
                        status = item.stat()
                        files.append((status.st_mtime, status.st_size, item.path))
        total = sum(size for _, size, _ in files)
        for _, size, path in sorted(files):
            if total <= self.max_bytes or path == str(newest):
                break
            Path(path).unlink(missing_ok=True)
            total -= size


def checked_folder(folder: str) -> Path:
    """Returns the path of a folder, made when needed. Raises ArgumentError for an impossible path."""
    if not folder or "\0" in folder:
        raise ArgumentError(f"the folder of a cache must be the path of a folder, got {folder!r}")
    if os.path.exists(folder) and not os.path.isdir(folder):
        raise ArgumentError(f"the folder of a cache must be a folder, but '{folder}' is a file")
    return Path(folder)


# Bytes of Python objects, measured on compiled networks.
_PER_COMMAND = 400
_PER_SUBMATRIX = 250
_PER_MATRIX = 400


def num_bytes(computation: NnetComputation) -> int:
    """An estimate of the memory of a computation, attachments included."""
    if computation.is_lazy:
        return computation.stored_bytes
    arrays = [*computation.index_tables, *computation.multi_tables, *computation.range_tables]
    arrays += [array for entry in computation.precomputed if entry is not None for array in entry.values()]
    arrays += [info.indexes for info in computation.matrix_info.values() if info.indexes is not None]
    for _, attached in (computation.attachments or {}).values():
        arrays += attached.values()
    objects = _PER_COMMAND * len(computation.commands) + _PER_SUBMATRIX * len(computation.submatrices)
    different = {id(array): array.nbytes for array in arrays}
    return objects + _PER_MATRIX * len(computation.matrices) + sum(different.values())


class Attachments(MutableMapping[str, Section]):
    """Sections derived from a computation, by name; a function is called when one is added."""

    def __init__(self, told: Callable[[], None], stored: Mapping[str, Callable[[], Section]] | None = None) -> None:
        self._told = told
        self._stored = dict(stored or {})
        self._sections: dict[str, Section] = {}

    def __getitem__(self, name: str) -> Section:
        if name in self._stored:
            self._sections[name] = self._stored[name]()
            self._stored.pop(name, None)
        return self._sections[name]

    def __setitem__(self, name: str, section: Section) -> None:
        self._stored.pop(name, None)
        self._sections[name] = section
        self._told()

    def __delitem__(self, name: str) -> None:
        self[name]
        del self._sections[name]

    def __iter__(self) -> Iterator[str]:
        return iter({**self._stored, **self._sections})

    def __len__(self) -> int:
        return len({**self._stored, **self._sections})

    def __reduce__(self) -> tuple[Any, ...]:
        """A copy is a plain dictionary: nobody is told."""
        return dict, (dict(self),)


def about(computation: NnetComputation) -> dict[str, Any]:
    """The header of a computation: fields that are known before the rest is read."""
    return {name: getattr(computation, name) for name in _KNOWN} | {"num_bytes": num_bytes(computation)}


def stored_computation(reader: SectionReader) -> NnetComputation:
    """Returns the computation in a file: the header is read at once, the rest on demand."""
    header, _ = reader.read("about")
    if set(header) != {*_KNOWN, "num_bytes"}:
        raise CacheFileError(f"it says {', '.join(header)} of its computation, not {', '.join(_KNOWN)}")
    known = {name: header[name] for name in _KNOWN}
    return NnetComputation.lazy(lambda: serialize.from_data(*reader.read("computation")), header["num_bytes"], **known)


def stored_attachments(reader: SectionReader) -> dict[str, Callable[[], Section]]:
    """Returns functions that read the attachments of a written computation, by name."""
    return {name: partial(reader.read, name) for name in reader.names() if name not in ("about", "computation")}


#: Fields with a default of the class, which are there before the file is read.
_KNOWN = ("num_memos", "need_model_derivative", "fingerprint")
