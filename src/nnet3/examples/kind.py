"""What programs that shuffle, merge and copy examples need to know of a kind of examples."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from nnet3.kaldi_io import Reader, Writer

E = TypeVar("E")


@dataclass(frozen=True)
class ExampleKind(Generic[E]):
    """A kind of examples as functions. `structure` is equal for examples that may be merged into one minibatch, and
    `describe` says it to a person; `size` is what rules of minibatch sizes ask for; `merge` makes one example of
    several of equal structure, with compressed matrices if its second argument says so.
    """

    token: str  # what an example begins with in a file, such as <Nnet3Eg>
    read: Callable[[Reader], E]
    write: Callable[[Writer, E], None]
    structure: Callable[[E], Hashable]
    describe: Callable[[E], str]
    size: Callable[[E], int]
    merge: Callable[[Sequence[E], bool], E]
