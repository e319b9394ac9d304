"""Cuts utterances into chunks for training: lengths, contexts, weights of frames (docs/examples.md).

A split is a sorted list of chunk lengths: any number of principal ones and at most two others. The candidates for a
length of utterance are the splits closest to it, where gaps count twice as much as overlaps.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from nnet3.base.options.examples import WHOLE, ChunkOptions

_WITHIN = 1.9999  # of the best cost are the splits that are drawn from


@dataclass(frozen=True, eq=False)
class Chunk:
    """Frames first_frame .. first_frame + num_frames - 1 of an utterance, not counting the contexts.

    `output_weights`, (num_frames // factor,) float32: 1 / the number of chunks with the output frame.
    """

    first_frame: int
    num_frames: int
    left_context: int
    right_context: int
    output_weights: np.ndarray

    @property
    def first_input_frame(self) -> int:
        """The first frame with context; a negative number repeats the utterance's first frame."""
        return self.first_frame - self.left_context

    @property
    def num_input_frames(self) -> int:
        return self.left_context + self.num_frames + self.right_context


class ChunkSplitter:
    """Cuts utterances into chunks, and counts the cuts."""

    def __init__(self, options: ChunkOptions):
        self.options = options
        self.num_utterances = self.num_frames = self.num_chunks = self.num_frames_in_chunks = self.num_overlapping = 0
        self._candidates = lru_cache(maxsize=None)(self._find_candidates)
        if options.num_frames == WHOLE:
            return
        self._longest = (
            2 * max(options.num_frames) + options.num_frames[0]
        )  # for longer ones principal chunks are added
        self._splits = _splits(options.num_frames, self._overlap, self._longest + options.num_frames[0])
        self._duration = np.array([duration(split, self._overlap) for split in self._splits])
        self._largest = np.array([max(split) for split in self._splits])

    @property
    def _overlap(self) -> float:
        return self.options.num_frames_overlap / self.options.num_frames[0]

    def split(self, num_frames: int, rng: np.random.Generator) -> list[Chunk]:
        """Returns the chunks of an utterance of `num_frames` input frames; none for an utterance too short."""
        chunks = self._with_weights(num_frames, self._chunks_of(num_frames, rng))
        self.num_utterances += 1
        self.num_frames += num_frames
        self.num_chunks += len(chunks)
        self.num_frames_in_chunks += sum(chunk.num_frames for chunk in chunks)
        ends = [chunk.first_frame + chunk.num_frames for chunk in chunks]
        self.num_overlapping += sum(
            max(0, end - chunk.first_frame) for end, chunk in zip(ends, chunks[1:], strict=False)
        )
        return chunks

    def candidates(self, num_frames: int) -> list[tuple[int, ...]]:
        """Returns lists of chunk lengths, one of which is drawn; the order within a list means nothing."""
        extra = self._num_extra(num_frames)
        step = self.options.num_frames[0] - self.options.num_frames_overlap
        principal = self.options.num_frames[:1]
        return [split + extra * principal for split in self._candidates(num_frames - extra * step)]

    def summary(self) -> str:
        """Returns the counts in a sentence."""
        percent = 100.0 / max(1, self.num_frames)
        return (
            f"split {self.num_utterances} utterances of {self.num_frames} frames into {self.num_chunks} chunks; "
            f"{self.num_frames_in_chunks * percent:.1f} % of the frames are in chunks, "
            f"{self.num_overlapping * percent:.1f} % are there again in the next one"
        )

    def _num_extra(self, num_frames: int) -> int:
        """Returns the number of principal chunks that are cut off before the rest is looked up."""
        step = self.options.num_frames[0] - self.options.num_frames_overlap
        return max(0, -(-(num_frames - self._longest) // step))

    def _find_candidates(self, num_frames: int) -> list[tuple[int, ...]]:
        missing = num_frames - self._duration
        cost = np.where(missing < 0, -missing, 2 * missing)
        cost[self._largest > num_frames] = np.inf
        chosen = np.isfinite(cost) & (cost < cost.min() + _WITHIN)
        return [self._splits[number] for number in np.flatnonzero(chosen)]

    def _chunks_of(self, num_frames: int, rng: np.random.Generator) -> list[Chunk]:
        options = self.options
        if options.num_frames == WHOLE:
            starts, lengths = [0], [num_frames]
        else:
            candidates = self.candidates(num_frames)
            if not candidates:
                return []
            lengths = sorted(candidates[rng.integers(len(candidates))], reverse=bool(rng.integers(2)))
            factor = options.frame_subsampling_factor
            counts = np.array(lengths) // factor  # of output frames
            gaps = _gaps(-(-num_frames // factor), counts, rng)
            starts = (factor * (np.cumsum(gaps) + np.cumsum(counts) - counts)).tolist()
        chunks = [
            Chunk(start, length, options.left_context, options.right_context, np.empty(0, np.float32))
            for start, length in zip(starts, lengths, strict=True)
        ]
        if options.left_context_initial >= 0:
            chunks[0] = replace(chunks[0], left_context=options.left_context_initial)
        if options.right_context_final >= 0:
            chunks[-1] = replace(chunks[-1], right_context=options.right_context_final)
        return chunks

    def _with_weights(self, num_frames: int, chunks: list[Chunk]) -> list[Chunk]:
        factor = self.options.frame_subsampling_factor
        count = np.zeros(-(-num_frames // factor), np.int64)  # of chunks that have an output frame
        ranges = [
            slice(chunk.first_frame // factor, (chunk.first_frame + chunk.num_frames) // factor) for chunk in chunks
        ]
        for part in ranges:
            count[part] += 1
        return [
            replace(chunk, output_weights=(1.0 / count[part]).astype(np.float32))
            for chunk, part in zip(chunks, ranges, strict=True)
        ]


def duration(split: Sequence[int], overlap: float) -> float:
    """Returns an utterance's ideal length for chunk lengths; neighbours share `overlap` of the shorter chunk."""
    return sum(split) - overlap * sum(map(min, split[:-1], split[1:]))


def _splits(num_frames: tuple[int, ...], overlap: float, longest: int) -> list[tuple[int, ...]]:
    """Returns all splits up to a duration, sorted; two other lengths alone come in both orders."""
    principal, *others = num_frames
    found: set[tuple[int, ...]] = set()
    for first in [0, *others]:
        for second in [0, *others]:
            split = tuple(length for length in (first, second) if length)
            while duration(split, overlap) <= longest:
                found.add(split)
                split = tuple(sorted((*split, principal)))
    return sorted(found - {()})


def _gaps(num_frames: int, counts: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Returns the gaps before the chunks of `num_frames` frames, (chunks,); negative where chunks overlap."""
    free = num_frames - int(counts.sum())
    if free >= 0:
        num_gaps = len(counts) + 1
        gaps = np.full(num_gaps, free // num_gaps)
        gaps[rng.permutation(num_gaps)[: free % num_gaps]] += 1
        return gaps[:-1]
    smaller = np.minimum(counts[:-1], counts[1:])
    overlaps = -free * smaller // smaller.sum()
    overlaps[: -free - int(overlaps.sum())] += 1
    return np.concatenate([[0], -overlaps])
