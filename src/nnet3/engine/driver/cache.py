"""ComputationCache: compiled computations, in memory and if wanted in a folder."""

from __future__ import annotations

import contextlib
import numbers
import os
import threading
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError, Future
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, TypeVar

from nnet3.base.kaldi_io.files import check_is_path, contents_of, write_atomically
from nnet3.base.options.compiling import CompileOptions
from nnet3.engine.driver import at_first_use
from nnet3.engine.driver.cache_file import (
    Attachments,
    CacheFileError,
    CacheFolder,
    SectionReader,
    about,
    checked_folder,
    num_bytes,
    read_bundle,
    stored_attachments,
    stored_computation,
    to_bundle,
    to_bytes,
)
from nnet3.engine.driver.family_store import FamilyStore
from nnet3.engine.driver.proving import prove_made_of_others
from nnet3.engine.driver.task import CompileTask, Request, compile_task, compile_tasks, key_digest, task_of
from nnet3.engine.families.ragged_rows import NotRaggedError
from nnet3.engine.ir import serialize
from nnet3.engine.ir.computation import NnetComputation
from nnet3.engine.ir.objects import Recent
from nnet3.errors import ArgumentError, ComputationCheckError, ModelFormatError, RequestError, check_kind

if TYPE_CHECKING:
    from nnet3.engine.families.ragged_check import CheckedLengths

#: Part of every key: programs of another version of the compiler are not used.
PROGRAM_VERSION = 4
DEFAULT_MAX_BYTES = 256 * 1024 * 1024
_MOST_RAGGED = 16
_MOST_CONTINUED = 32

R = TypeVar("R")


@dataclass
class _Entry:
    computation: NnetComputation
    num_bytes: int


@dataclass
class CacheCounts:
    """Counts programs: found in memory, continued from shorter ones, restricted to other lengths, compiled."""

    found: int = 0
    continued: int = 0
    restricted: int = 0
    compiled: int = 0


class ComputationCache:
    """Compiles programs once and keeps them.

    Keys are made of all inputs of a compilation: the fingerprint of the network (structure and settings, without
    parameters), the request, the options. A changed network has a new key, so its programs are compiled again.

    Programs in memory take at most `max_bytes` (estimated); the program unused for longest goes first. With a
    `folder` programs are also kept on disk, one file each, together with their plans; the folder too is kept
    below `max_bytes`. Damaged and foreign files are ignored with a warning, and written anew. Several
    processes may use one folder, several threads one cache: equal requests are compiled once, further callers wait.

    Programs that differ in length, or in the number of sequences, are one family (see `FamilyStore`): the few
    members are kept like all programs. Programs continued from members are not written, and only the last are kept.

    Programs from a cache are shared: take a `copy()` to change a program.
    """

    def __init__(self, folder: str | os.PathLike[str] | None = None, max_bytes: int = DEFAULT_MAX_BYTES) -> None:
        check_kind(folder, (str, os.PathLike, type(None)), "the folder of a cache", "a path or None")
        check_kind(max_bytes, numbers.Real, "max_bytes of a cache", "a number of bytes")
        if not max_bytes >= 0:
            raise ArgumentError(f"max_bytes of a cache must be at least 0, got {max_bytes}")
        self.folder = None if folder is None else checked_folder(os.fspath(folder))
        self.max_bytes = max_bytes
        self._files = None if self.folder is None else CacheFolder(self.folder, max_bytes)
        self._entries: dict[str, _Entry] = {}  # in the order of use
        self._pending: dict[str, Future[NnetComputation]] = {}
        self._lock = threading.Lock()
        self._families, self._families_lock = FamilyStore(self._members), threading.Lock()
        self._continued = Recent[_Entry](_MOST_CONTINUED)
        self._ragged = Recent[Any](_MOST_RAGGED)  # CheckedLengths, RaggedFamily, or why there is none
        #: The reasons why some requests were compiled for their lengths.
        self._not_restricted = Recent[None](_MOST_RAGGED)
        self.counts = CacheCounts()

    def __reduce__(self) -> tuple[Any, ...]:
        """A copy, in this process or another, begins empty: it belongs to the copied object."""
        return ComputationCache, (self.folder, self.max_bytes)

    def compile(self, nnet: Any, request: Request, options: CompileOptions | None = None) -> NnetComputation:
        """The program given by `nnet3.compile`. Raises RequestError or NotComputableError."""
        return self.program(task_of(nnet, request, options))

    def program(self, task: CompileTask) -> NnetComputation:
        """The program of a task: a known one, or made by continuing shorter programs, or else by compiling."""
        digest = _digest_of(task)
        with self._lock:
            is_known = digest in self._entries
        if not is_known and (program := self._made_of_others(digest, task)) is not None:
            return program
        made: list[NnetComputation] = []

        def make() -> NnetComputation:
            made.append(compile_task(task))
            return made[0]

        program = self._get_or_make(digest, make)
        program.prove = task.options.prove  # which files do not say
        if not is_known:
            with self._families_lock:
                self.counts.compiled += len(made)
                self._families.note(task, program)
        return program

    def made_of_others(self, task: CompileTask) -> NnetComputation | None:
        """The program of a task, continued from shorter ones or restricted from a longer one; else None."""
        return self._made_of_others(_digest_of(task), task)

    def _made_of_others(self, digest: str, task: CompileTask) -> NnetComputation | None:
        with self._lock:
            known = self._continued.get(digest)
            if known is not None:
                self.counts.found += 1
                return self._continued.use(digest, known).computation
        with self._families_lock:
            program = self._families.program(task)
        restricted = self._restricted(task) if program is None else None
        program = program or restricted
        if program is not None:
            prove_made_of_others(task.lowered_from, task.options, program, digest)
            with self._lock:
                self.counts.continued += restricted is None
                self.counts.restricted += restricted is not None
                self._keep_continued(digest, program)
        return program

    def _members(self, tasks: Sequence[CompileTask]) -> list[NnetComputation]:
        """The programs of members of a family; unlike `program` it waits for nobody, and continues nothing."""
        digests = list(map(_digest_of, tasks))
        with self._lock:
            known = {digest: self._entries[digest].computation for digest in digests if digest in self._entries}
        found = [known.get(digest) or self._read(digest) for digest in digests]
        made = iter(compile_tasks([task for task, each in zip(tasks, found, strict=True) if each is None]))
        members = [each or self._make(own, made.__next__) for own, each in zip(digests, found, strict=True)]
        with self._lock:
            for digest, member in zip(digests, members, strict=True):
                self._insert(digest, member)
        return members

    def _keep_continued(self, digest: str, program: NnetComputation) -> None:
        """Keep the last continued programs, with their plans; the lock is held."""
        program.attachments = {}
        self._continued.use(digest, _Entry(program, num_bytes(program)))
        self._shrink()

    def ragged(self, task: CompileTask, apart: Callable[[], CompileTask], length: int) -> CheckedLengths | None:
        """The program of a task, whose sequences all have `length` frames, for sequences of all lengths up to `length`.

        `apart`: the task compiled so that rows of different times never share memory. None if the program cannot
        be restricted to shorter lengths (see `refusals`).
        """

        def make(program: NnetComputation) -> CheckedLengths:
            return at_first_use.CheckedLengths(at_first_use.program_of_frames(task, program, length))

        return self._ragged_of(task, apart, make)

    def _restricted(self, task: CompileTask) -> NnetComputation | None:
        """The program of a task whose sequences end at different times, restricted from a longer one; else None."""
        try:
            relation = task.ragged()
            if relation is None:
                return None
            make, key = partial(at_first_use.RaggedFamily, relation), relation.granularity
            family = self._ragged_of(relation.longer, relation.apart, make, key)
            if family is None:
                return None
            program = family.program(relation, task)
        except (NotRaggedError, RequestError, ComputationCheckError) as error:
            with self._lock:
                self._not_restricted.use(str(error), None)
            return None
        return program

    def _ragged_of(
        self,
        task: CompileTask,
        apart: Callable[[], CompileTask],
        make: Callable[[NnetComputation], R],
        granularity: int = 1,
    ) -> R | None:
        """Returns the result of `make` for this task and granularity, made once; None for a refusal.

        It is made of the program of the task, or else of the task `apart`.
        """
        digest = _digest((_digest_of(task), granularity))
        with self._lock:
            known = self._ragged.pop(digest, None)
        if known is None:
            try:
                try:
                    known = make(self.program(replace(task, serves_shorter=True)))
                except NotRaggedError:
                    known = make(self.program(replace(apart(), serves_shorter=True)))
            except (NotRaggedError, RequestError) as error:
                known = str(error)
        with self._lock:
            self._ragged.use(digest, known)
        return None if isinstance(known, str) else known

    def get_or_compile(self, key: Any, make: Callable[[], NnetComputation]) -> NnetComputation:
        """The computation of this key; `make` is called for an unknown key.

        A key is made of dictionaries, sequences, sets, dataclasses, strings, bytes, numbers, arrays and None, and names
        everything on which the program depends.
        """
        return self._get_or_make(_digest(key), make)

    def _get_or_make(self, digest: str, make: Callable[[], NnetComputation]) -> NnetComputation:
        while True:
            with self._lock:
                entry = self._entries.get(digest)
                if entry is not None:
                    self.counts.found += 1
                    self._entries[digest] = self._entries.pop(digest)
                    return entry.computation
                pending = self._pending.get(digest)
                if pending is None:
                    own = self._pending[digest] = Future()
                    break
            with contextlib.suppress(CancelledError):  # the other thread was interrupted
                return pending.result()
        try:
            computation = self._read(digest) or self._make(digest, make)
        except BaseException as error:
            with self._lock:
                del self._pending[digest]
            own.set_exception(error) if isinstance(error, Exception) else own.cancel()
            raise
        with self._lock:
            self._insert(digest, computation)
            del self._pending[digest]
        own.set_result(computation)
        return computation

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def num_bytes(self) -> int:
        """The estimated size of all programs in memory."""
        with self._lock:
            return self._total()

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write all programs in memory to one file, with their plans. Raises Nnet3Error."""
        with self._lock:
            entries = {digest: entry.computation for digest, entry in self._entries.items()}
        files = {digest: _to_bytes(digest, computation) for digest, computation in entries.items()}
        write_atomically(path, to_bundle(files))

    def load(self, path: str | os.PathLike[str]) -> None:
        """Add programs written by `save`. Damaged and foreign ones are left out, with a warning.

        Raises ModelFormatError for a file that cannot be read.
        """
        check_is_path(path, "compiled programs")
        if os.path.isdir(path):
            hint = "expected the file that save() has written, or for a folder ComputationCache(folder)"
            raise ModelFormatError(f"this is a folder: {hint}", os.fspath(path))
        try:
            for digest, data in read_bundle(bytes(contents_of(path))):
                computation = self._stored(digest, data)
                with self._lock:
                    self._insert(digest, computation)
        except CacheFileError as error:
            warnings.warn(f"{path}: the rest is not used: {error}", RuntimeWarning, stacklevel=2)

    def clear(self) -> None:
        """Forget all programs in memory; files stay."""
        with self._families_lock, self._lock:
            self._entries.clear()
            self._continued.clear()
            self._ragged.clear()
            self._not_restricted.clear()
            self._families = FamilyStore(self._members)

    @property
    def refusals(self) -> list[str]:
        """The reasons why some requests have no family, one line each."""
        with self._families_lock, self._lock:
            refusals = [each for each in self._ragged.values() if isinstance(each, str)]
            return [*self._families.refusals, *refusals, *self._not_restricted]

    # ---- memory; the lock is held ----

    def _insert(self, digest: str, computation: NnetComputation) -> None:
        self._entries[digest] = _Entry(computation, num_bytes(computation))
        self._shrink()

    def _shrink(self) -> None:
        """Drop programs until the rest is small enough, cheapest to make again first."""
        total = self._total()
        for entries in (self._continued, self._entries):
            while total > self.max_bytes and entries:
                total -= entries.pop(next(iter(entries))).num_bytes

    def _total(self) -> int:
        return sum(entry.num_bytes for entries in (self._continued, self._entries) for entry in entries.values())

    # ---- files ----

    def _make(self, digest: str, make: Callable[[], NnetComputation]) -> NnetComputation:
        computation = make()
        computation.attachments = Attachments(self._attached(digest, computation))
        self._write(digest, computation)
        return computation

    def _attached(self, digest: str, computation: NnetComputation) -> Callable[[], None]:
        """The function that is called when something was attached to a computation."""

        def attached() -> None:
            with self._lock:
                if digest in self._entries:
                    self._entries[digest].num_bytes = num_bytes(computation)
                    self._shrink()
            self._write(digest, computation)

        return attached

    def _read(self, digest: str) -> NnetComputation | None:
        if self._files is None or (data := self._files.read(digest)) is None:
            return None
        try:
            return self._stored(digest, data)
        except CacheFileError as error:
            message = f"{self._files.path(digest)} is not used: {error}; compiling again"
            warnings.warn(message, RuntimeWarning, stacklevel=4)
            return None

    def _stored(self, digest: str, data: bytes) -> NnetComputation:
        """The computation in the contents of a file. Raises CacheFileError."""
        reader = SectionReader(data, digest)
        computation = stored_computation(reader)
        computation.attachments = Attachments(self._attached(digest, computation), stored_attachments(reader))
        return computation

    def _write(self, digest: str, computation: NnetComputation) -> None:
        if self._files is not None:
            self._files.write(digest, _to_bytes(digest, computation))


def _digest(key: Any) -> str:
    return key_digest((PROGRAM_VERSION, serialize.VERSION, key))


def _digest_of(task: CompileTask) -> str:
    return _digest({**task.key, "options": _options_digest(task.options)})


_options_digest = lru_cache(key_digest)


def _to_bytes(digest: str, computation: NnetComputation) -> bytes:
    sections = {
        "about": (about(computation), {}),
        "computation": serialize.to_data(computation),
        **(computation.attachments or {}),
    }
    return to_bytes(digest, sections)


_DEFAULT = ComputationCache()


def default_cache() -> ComputationCache:
    """The cache of this process, in memory, for everybody who brings none."""
    return _DEFAULT
