"""Reading tables in order or by key. What a table holds is up to a function: `Reader.matrix`, `read_alignment` ..."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Generic, TypeVar

from nnet3.base.kaldi_io.archive import Archive, Extent, ScriptObjects, naming
from nnet3.base.kaldi_io.reader import Reader
from nnet3.base.kaldi_io.script import ScriptEntry, read_script
from nnet3.base.kaldi_io.specifiers import parse_rspecifier
from nnet3.errors import TableError

if TYPE_CHECKING:
    from typing_extensions import Self

T = TypeVar("T")
_LOG = logging.getLogger("nnet3")


class _OpenTable(Generic[T]):
    """An opened table: its specifier, and its archive or script."""

    def __init__(
        self,
        rspecifier: str,
        read: Callable[[Reader], T],
        begins: str = "",
        permissive: bool = False,
        *,
        header: bool = True,
    ):
        """`begins`: the first token of every object; behind a damaged object it marks the next object.

        `permissive`: as with the option `p`; `num_skipped` counts. `header`: binary objects begin with Kaldi's 00 42;
        objects of other programs do not.
        """
        self.specifier = parse_rspecifier(rspecifier)
        self.num_skipped = 0  # entries that could not be read and were left out
        self._permissive = permissive or self.specifier.permissive
        self._begins = begins
        self._read = read
        self._script = ScriptObjects(header)
        self._archive: Archive | None = None
        self._entries: list[ScriptEntry] = []
        with naming(rspecifier):
            if self.specifier.archive is not None:
                self._archive = Archive(self.specifier.archive, header)
            else:
                self._entries = read_script(self.specifier.script or "")
        self._remaining: Iterator[ScriptEntry] = iter(self._entries)

    def close(self) -> None:
        if self._archive is not None:
            self._archive.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _next_of_archive(self) -> tuple[str, T] | None:
        """Returns the next entry. Reading goes on behind a damaged entry if the start of the next can be found."""
        while self._archive is not None:
            try:
                entry = self._archive.next(self._read)
            except TableError as error:
                if not self._archive.skip(self._begins):
                    self._end_archive()
                if not self._permissive:
                    raise
                self._leave_out(error)
                continue
            if entry is not None:
                return entry
            self._end_archive()
        return None

    def _end_archive(self) -> None:
        self.close()
        self._archive = None

    def _leave_out(self, error: TableError) -> None:
        self.num_skipped += 1
        _LOG.warning("%s: %s", self.specifier.text, error)

    def _load(self, entry: ScriptEntry) -> T | None:
        """Returns the object of a line of the script; None if it is unreadable and the table permissive."""
        try:
            return self._script.load(entry, self._read)
        except TableError as error:
            if not self._permissive:
                raise
            self._leave_out(error)
            return None


class TableReader(_OpenTable[T]):
    """Iterates over (key, object). TableError at any mistake; with the option `p` wrong entries are skipped.

    After a TableError the iteration may go on: with the next entry, if it can be found (in a script, in an archive in
    text, by the token that objects begin with), else it is at its end.
    """

    def leave_out(self, is_left_out: Callable[[str], bool]) -> None:
        """Skips the entries of a script whose keys are to be left out; an archive's entries all come."""
        self._remaining = (entry for entry in self._remaining if not is_left_out(entry.key))

    @property
    def extent(self) -> Extent | None:
        """The place of the last entry, if it comes from an archive in a file."""
        return None if self._archive is None else self._archive.extent

    def __iter__(self) -> Iterator[tuple[str, T]]:
        return self

    def __next__(self) -> tuple[str, T]:
        with naming(self.specifier.text):
            entry = self._next_of_archive() if self._archive is not None else self._next_of_script()
        if entry is None:
            raise StopIteration
        return entry

    def _next_of_script(self) -> tuple[str, T] | None:
        for entry in self._remaining:
            value = self._load(entry)
            if value is not None:
                return entry.key, value
        return None


class RandomAccessTable(_OpenTable[T]):
    """Objects by key. An archive is read as far as a key needs, and read objects are kept.

    The options `o` (every key is taken once), `s` (keys are sorted) and `cs` (keys are asked for in order) save keeping
    or searching objects.
    """

    def __init__(self, rspecifier: str, read: Callable[[Reader], T]):
        super().__init__(rspecifier, read)
        self._held: dict[str, T] = {}
        self._last_key = ""
        self._by_key = {entry.key: entry for entry in self._entries}
        if len(self._by_key) < len(self._entries):
            raise TableError(f"{rspecifier}: a key occurs more than once in this script")

    def __contains__(self, key: str) -> bool:
        with naming(self.specifier.text):
            if key in self._by_key:
                return not self.specifier.permissive or self._hold(key)
            return self._hold(key)

    def get(self, key: str) -> T | None:
        """Returns the object of `key`, or None if the table has no such key."""
        with naming(self.specifier.text):
            if not self._hold(key):
                return None
            return self._held.pop(key) if self.specifier.once else self._held[key]

    def __getitem__(self, key: str) -> T:
        value = self.get(key)
        if value is None:
            raise TableError(f"{self.specifier.text}: there is no entry '{key}'")
        return value

    def _hold(self, key: str) -> bool:
        """Loads an object into `_held`; returns False if the table has none of this key."""
        if key in self._by_key:
            if key not in self._held:
                value = self._load(self._by_key[key])
                self._held = {} if value is None else {key: value}
            return key in self._held
        self._search(key)
        if self.specifier.sorted and self.specifier.called_sorted:
            while self._held and _sorts_before(next(iter(self._held)), key):
                del self._held[next(iter(self._held))]
        return key in self._held

    def _search(self, key: str) -> None:
        """Reads on in the archive until `key` has come or cannot come any more."""
        while key not in self._held:
            if self.specifier.sorted and self._last_key and not _sorts_before(self._last_key, key):
                return
            entry = self._next_of_archive()
            if entry is None:
                return
            if self.specifier.sorted and not _sorts_before(self._last_key, entry[0]):
                raise TableError(f"the keys '{self._last_key}', '{entry[0]}' are not sorted, but the option s says so")
            if entry[0] in self._held:
                raise TableError(f"the key '{entry[0]}' occurs more than once")
            self._last_key = entry[0]
            self._held[entry[0]] = entry[1]


def _sorts_before(first: str, second: str) -> bool:
    """Compares keys by their bytes, as `LC_ALL=C sort` does."""
    return first.encode("utf-8", "surrogateescape") < second.encode("utf-8", "surrogateescape")
