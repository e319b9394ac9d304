"""Computations in a cache: their sizes, sections attached to them, and those that are read from files when needed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, MutableMapping
from functools import partial
from typing import Any

from nnet3.driver.cache_file import CacheFileError, Section, SectionReader
from nnet3.ir import serialize
from nnet3.ir.computation import LazyComputation, NnetComputation

# Bytes of Python objects, measured on compiled networks.
_PER_COMMAND = 400
_PER_SUBMATRIX = 250
_PER_MATRIX = 400


def num_bytes(computation: NnetComputation) -> int:
    """About how much memory a computation takes, with what is attached to it."""
    if isinstance(computation, LazyComputation):
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


class StoredComputation(LazyComputation):
    """A computation in a file, which is read when more is asked of it than what stands before the rest."""

    def __init__(self, reader: SectionReader) -> None:
        header, _ = reader.read("about")
        if set(header) != {*_KNOWN, "num_bytes"}:
            raise CacheFileError(f"it says {', '.join(header)} of its computation, not {', '.join(_KNOWN)}")
        known = {name: header[name] for name in _KNOWN}
        super().__init__(lambda: serialize.from_data(*reader.read("computation")), header["num_bytes"], **known)


def stored_attachments(reader: SectionReader) -> dict[str, Callable[[], Section]]:
    """Returns functions that read what was attached to a computation when it was written, by name."""
    return {name: partial(reader.read, name) for name in reader.names() if name not in ("about", "computation")}


#: Fields with a default of the class, which are there before the file is read.
_KNOWN = ("num_memos", "need_model_derivative", "fingerprint")
