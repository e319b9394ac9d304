"""Grouping: which utterances are held at a time, and which of the chunks are computed in one minibatch."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from enum import Enum, auto
from typing import NamedTuple, TypeVar

from nnet3.base.kaldi_io.background import Background
from nnet3.inference.cutting import OutputChunk

T = TypeVar("T")

AHEAD = 8
"""Utterances that are read while others are computed."""

_SECONDS_OF_PATIENCE = 1.0  # with a source that gives nothing: then what has come so far is computed

_PADDING = 0.04
"""The share of a minibatch that may be outputs that nobody asked for, where chunks of several lengths share one."""

_LENGTHS = 32
"""Padded lengths are rounded up to so many of each octave, so that few programs serve all."""


def windows(source: Background[T], size: Callable[[T], int], most: float) -> Iterator[list[T]]:
    """Yields items held at a time, with sizes that add up to `most` or a little more.

    A source that gives nothing for a while ends a window.
    """
    window: list[T] = []
    total = 0
    while True:
        if window and (total >= most or not source.is_ready(_SECONDS_OF_PATIENCE)):
            yield window
            window, total = [], 0
        item = next(source, None)
        if item is None:
            break
        window.append(item)
        total += size(item)
    if window:
        yield window


class ChunkBatch(NamedTuple):
    """Chunks computed together, each with its utterance, and the sequences of the program for the chunks."""

    parts: list[tuple[int, OutputChunk]]
    sequences: int


def partial_size(most: int, factor: float, count: int) -> int:
    """Returns the size of a minibatch for `count` chunks: `most`, times `factor` as often as there is room for them."""
    size = most
    while count < int(factor * size):
        size = int(factor * size)
    return size


def rounded_up(length: int) -> int:
    """Returns a length at most 1 / `_LENGTHS` longer, out of few lengths."""
    step = 1 << max(0, length.bit_length() - _LENGTHS.bit_length())
    return -(-length // step) * step


class Lengths(Enum):
    """The lengths of chunks in one minibatch; PADDED chunks become equally long by outputs that nobody asked for."""

    EQUAL = auto()
    PADDED = auto()
    ANY = auto()


def minibatches(
    parts: Sequence[tuple[int, OutputChunk]],
    kind: Callable[[tuple[int, OutputChunk]], Hashable],
    size: Callable[[int, int], int],
    lengths: Lengths,
    most_outputs: int,
) -> Iterator[ChunkBatch]:
    """Yields minibatches of parts of one kind and context, with about `most_outputs` outputs at most.

    `size` returns the number of sequences for so many chunks, given how many fit into a minibatch at most. The longest
    chunk of a minibatch is the first.
    """
    groups: dict[Hashable, list[tuple[int, OutputChunk]]] = {}
    for part in parts:
        chunk = part[1]
        groups.setdefault((kind(part), chunk.left, chunk.right, chunk.most), []).append(part)
    for group in groups.values():
        group.sort(key=lambda part: -part[1].num_outputs)
        start = 0
        while start < len(group):
            end = _end(group, start, lengths, most_outputs)
            longest, together = group[start][1], group[start:end]
            if lengths is Lengths.PADDED:
                length = rounded_up(longest.num_outputs)
                together = [(owner, chunk._replace(num_outputs=length)) for owner, chunk in together]
            yield ChunkBatch(together, size(longest.most, len(together)))
            start = end


def _end(group: Sequence[tuple[int, OutputChunk]], start: int, lengths: Lengths, most_outputs: int) -> int:
    longest = group[start][1]
    shares = {Lengths.EQUAL: 1.0, Lengths.PADDED: 1 - _PADDING, Lengths.ANY: 0.0}
    shortest, total, end = longest.num_outputs * shares[lengths], longest.num_outputs, start + 1
    while end < min(len(group), start + longest.most) and group[end][1].num_outputs >= shortest:
        total += group[end][1].num_outputs if lengths is Lengths.ANY else longest.num_outputs
        if total > most_outputs:
            break
        end += 1
    return end
