"""Makes minibatches of sentences: cuts long ones, puts pieces into rows, draws samples (facts: rescoring 6.1)."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from nnet3.base.options.rnnlm import RnnlmEgsOptions
from nnet3.errors import TrainingError
from nnet3.training.examples.making import generator
from nnet3.training.rnnlm.example import RnnlmExample
from nnet3.training.rnnlm.sampling import WordSampler
from nnet3.training.rnnlm.sampling_lm import SamplingLm
from nnet3.training.rnnlm.sentences import Sentences

_LOG = logging.getLogger("nnet3.train")
_MOST_REJECTED = 5  # pieces in a row that found no space


@dataclass(frozen=True, eq=False)
class _Piece:
    """Words begin to end of a sentence (with </s>) are predicted; words from `context` on are read."""

    words: np.ndarray
    weight: float
    begin: int
    end: int
    context: int

    def __len__(self) -> int:
        return self.end - self.context


class RnnlmExampleMaker:
    """Makes minibatches of sentences; with a sampling LM also the samples.

    Which pieces come together is drawn at random, as are the samples.
    """

    def __init__(self, vocab_size: int, options: RnnlmEgsOptions, lm: SamplingLm | None = None) -> None:
        """Raises TrainingError for symbols beyond the vocabulary."""
        self.vocab_size, self.options = vocab_size, options
        if max(options.bos_symbol, options.eos_symbol, options.brk_symbol) >= vocab_size:
            raise TrainingError(f"<s>, </s> and <brk> must be words below --vocab-size={vocab_size}")
        self._rng = generator(options.seed)
        self._sampler = None
        if lm is not None and options.num_samples:
            sampler = WordSampler(lm, options)
            if sampler.has_enough_words:
                self._sampler = sampler
            else:
                _LOG.warning("there are fewer words than --num-samples=%d: no words are sampled", options.num_samples)

    def minibatches(self, sentences: Sentences) -> Iterator[RnnlmExample]:
        """Yields minibatches until all sentences are used."""
        buffer: list[_Piece] = []
        for number in range(len(sentences)):
            words = sentences.words[sentences.starts[number] : sentences.starts[number + 1]]
            buffer += self._pieces(np.append(words, self.options.eos_symbol), float(sentences.weights[number]))
            while len(buffer) > self.options.chunk_buffer_size:
                yield self._minibatch(buffer)
        while buffer:
            yield self._minibatch(buffer)

    # ---- pieces ----

    def _pieces(self, words: np.ndarray, weight: float) -> list[_Piece]:
        """Returns a sentence as one piece, or cut into pieces of full length but one, at a random place."""
        length, context = self.options.chunk_length, self.options.min_split_context
        if len(words) <= length:
            return [_Piece(words, weight, 0, len(words), 0)]
        whole, rest = divmod(len(words) - context, length - context)
        sizes = np.full(whole + (rest > 0), length - context)
        if rest:
            sizes[self._rng.integers(whole)] = rest
        sizes[0] += context
        ends = np.cumsum(sizes)
        return [
            _Piece(words, weight, end - size, end, max(0, end - size - context))
            for end, size in zip(ends.tolist(), sizes.tolist(), strict=True)
        ]

    def _rows(self, buffer: list[_Piece]) -> list[list[_Piece]]:
        """Moves pieces drawn at random from the buffer into rows."""
        length, rows = self.options.chunk_length, [list[_Piece]() for _ in range(self.options.num_chunks_per_minibatch)]
        space, rejected, given_back = np.full(len(rows), length), 0, list[_Piece]()
        while buffer and rejected < _MOST_REJECTED and (space > 0).any():
            chosen = int(self._rng.integers(len(buffer)))
            buffer[chosen], buffer[-1] = buffer[-1], buffer[chosen]
            piece = buffer.pop()
            row = self._row_for(piece, space)
            if row is None:
                given_back.append(piece)
                rejected += 1
                continue
            rejected = 0
            rows[row].append(piece)
            space[row] -= len(piece)
        buffer += given_back
        return [self._with_more_context(row, left) for row, left in zip(rows, space.tolist(), strict=True)]

    def _row_for(self, piece: _Piece, space: np.ndarray) -> int | None:
        """Returns the begun row with the least sufficient space, or an empty row; None if there is no space."""
        begun = (space < self.options.chunk_length) & (space >= len(piece))
        if begun.any():
            return int(np.argmin(np.where(begun, space, np.iinfo(space.dtype).max)))
        empty = np.flatnonzero(space == self.options.chunk_length)
        return int(empty[0]) if len(empty) else None

    @staticmethod
    def _with_more_context(row: list[_Piece], space: int) -> list[_Piece]:
        """Returns the row with left-over space used for context of cut pieces, a word for each piece in turn."""
        contexts = [piece.context for piece in row]
        while space and any(contexts):
            for number, context in enumerate(contexts):
                if context and space:
                    contexts[number] -= 1
                    space -= 1
        return [replace(piece, context=context) for piece, context in zip(row, contexts, strict=True)]

    # ---- the minibatch ----

    def _minibatch(self, buffer: list[_Piece]) -> RnnlmExample:
        options = self.options
        shape = options.chunk_length, options.num_chunks_per_minibatch
        inputs, outputs = np.full(shape, options.bos_symbol), np.full(shape, options.eos_symbol)
        weights = np.zeros(shape, np.float32)
        for number, row in enumerate(self._rows(buffer)):
            time = 0
            for piece in row:
                part = slice(time, time + len(piece))
                first = options.brk_symbol if piece.context else options.bos_symbol
                inputs[part, number] = np.append(first, piece.words[piece.context : piece.end - 1])
                outputs[part, number] = piece.words[piece.context : piece.end]
                weights[time + piece.begin - piece.context : part.stop, number] = piece.weight
                time = part.stop
        if self._sampler is None:
            nothing = np.zeros(0, np.int32), np.zeros(0, np.float32)
            return self._example(1, inputs, outputs, weights, *nothing)
        return self._sampled(self._sampler, inputs, outputs, weights)

    def _example(self, group: int, inputs: np.ndarray, outputs: np.ndarray, *more: np.ndarray) -> RnnlmExample:
        weights, words, inverse = more
        options = self.options
        return RnnlmExample(
            *(self.vocab_size, options.num_chunks_per_minibatch, options.chunk_length, group, options.num_samples),
            *(inputs.ravel().astype(np.int32), outputs.ravel().astype(np.int32), weights.ravel(), words, inverse),
        )

    def _sampled(
        self, sampler: WordSampler, inputs: np.ndarray, outputs: np.ndarray, weights: np.ndarray
    ) -> RnnlmExample:
        """Returns the minibatch with a sample for each group, and outputs as positions in samples."""
        size, words, inverse, positions = self.options.sample_group_size, [], [], outputs.copy()
        for first in range(0, len(inputs), size):
            group = slice(first, first + size)
            probs = sampler.expectations(sampler.histories(inputs, weights, group), outputs[group].ravel())
            drawn = sampler.draw(probs, self._rng)
            words.append(drawn)
            inverse.append(1 / probs[drawn])
            positions[group] = np.searchsorted(drawn, outputs[group])
        all_words = np.concatenate(words).astype(np.int32)
        return self._example(size, inputs, positions, weights, all_words, np.concatenate(inverse).astype(np.float32))
