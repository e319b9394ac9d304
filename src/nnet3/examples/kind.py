"""Kinds of examples as sets of functions, and archives of them, read one example at a time."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Generic, Literal, TypeVar

from nnet3.errors import ArgumentError
from nnet3.kaldi_io import Reader, TableReader, TableWriter, Writer

E = TypeVar("E")
OnDamage = Literal["error", "skip"]


@dataclass(frozen=True)
class ExampleKind(Generic[E]):
    """A kind of examples as functions, for programs that shuffle, merge and copy them.

    `structure` is equal for examples that may be merged into one minibatch, and `describe` says it to a person. Rules
    of minibatch sizes ask for `size`. `merge` makes one example of several of equal structure, with compressed matrices
    if its second argument says so.
    """

    token: str  # what an example begins with in a file, such as <Nnet3Eg>
    read: Callable[[Reader], E]
    write: Callable[[Writer, E], None]
    structure: Callable[[E], Hashable]
    describe: Callable[[E], str]
    size: Callable[[E], int]
    merge: Callable[[Sequence[E], bool], E]


class ExampleReader(TableReader[E]):
    """Iterates over (key, example) of a table; only one example is held at a time.

    `on_damage`: "error" raises TableError at a damaged record, naming file, key and place; "skip" warns, counts it in
    `num_damaged` and goes on with the next record. The rspecifier's option `p` is the same as "skip".
    """

    def __init__(self, rspecifier: str, kind: ExampleKind[E], on_damage: OnDamage = "error"):
        if on_damage not in ("error", "skip"):
            raise ArgumentError(f"on_damage must be 'error' or 'skip', got {on_damage!r}")
        super().__init__(rspecifier, kind.read, begins=kind.token, permissive=on_damage == "skip")

    @property
    def num_damaged(self) -> int:
        """The number of records left out so far."""
        return self.num_skipped


def example_writer(wspecifier: str, kind: ExampleKind[E]) -> TableWriter[E]:
    """Returns a writer of examples into a table."""
    return TableWriter(wspecifier, kind.write)
