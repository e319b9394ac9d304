"""SamplingLm: an n-gram model whose back-off weights are probabilities, from which words of minibatches are drawn.

The stored probability of an n-gram is its own part alone: p(w | h) = stored(w | h) + backoff(h) p(w | h without its
oldest word) (facts: rescoring 6.4).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from nnet3.base.kaldi_io.reader import Reader
from nnet3.base.kaldi_io.writer import Writer

_TOKEN, _END = "<SamplingLm>", "</SamplingLm>"
_MOST_ORDER = 100


@dataclass(frozen=True, eq=False)
class NgramStates:
    """All histories of one length: history i has backoff[i], and the words words[offsets[i]:offsets[i + 1]].

    Words ascend within a history; `values` has their stored probabilities.
    """

    histories: np.ndarray  # (histories, length)
    backoff: np.ndarray  # (histories,)
    offsets: np.ndarray  # (histories + 1,)
    words: np.ndarray
    values: np.ndarray

    @cached_property
    def numbers(self) -> Mapping[tuple[int, ...], int]:
        """The numbers of histories."""
        return {tuple(history): number for number, history in enumerate(self.histories.tolist())}

    @property
    def history_of_word(self) -> np.ndarray:
        """The number of the history before each of `words`, (words,)."""
        return np.repeat(np.arange(len(self.histories)), np.diff(self.offsets))


@dataclass(frozen=True, eq=False)
class SamplingLm:
    """`unigrams` (words,): probabilities of single words; `states[k]`: histories of k + 1 words."""

    unigrams: np.ndarray
    states: Sequence[NgramStates]

    @property
    def order(self) -> int:
        """The number of words of the longest n-grams."""
        return len(self.states) + 1

    def find(self, history: tuple[int, ...]) -> tuple[int, int] | None:
        """Returns length and number of the longest known suffix of a history; None for the empty history."""
        for length in range(min(len(history), len(self.states)), 0, -1):
            number = self.states[length - 1].numbers.get(history[len(history) - length :])
            if number is not None:
                return length, number
        return None

    # ---- files ----

    @classmethod
    def read(cls, reader: Reader) -> SamplingLm:
        """Reads a whole file. Raises ModelFormatError for damaged or impossible contents."""
        reader.expect(_TOKEN)
        start = reader.position
        order = reader.after("<Order>").int32()
        vocab_size = reader.after("<VocabSize>").int32()
        unigrams = reader.vector()
        if not 1 <= order <= _MOST_ORDER or vocab_size != len(unigrams) or not (unigrams >= 0).all():
            raise reader.error_at(start, f"a sampling LM cannot have order {order} and {vocab_size} words")
        states = [_read_states(reader, length, vocab_size) for length in range(1, order)]
        reader.expect(_END)
        return cls(unigrams, states)

    def write(self, writer: Writer) -> None:
        """Writes a file for `read`, byte for byte as Kaldi does for states in this order."""
        writer.token(_TOKEN)
        writer.token("<Order>").int32(self.order)
        writer.token("<VocabSize>").int32(len(self.unigrams))
        writer.vector(self.unigrams)
        for length, states in enumerate(self.states, 1):
            writer.token("<StatesOfOrder>").int32(length + 1)
            writer.token("<NumStates>").int32(len(states.histories))
            for number, history in enumerate(states.histories):
                part = slice(int(states.offsets[number]), int(states.offsets[number + 1]))
                writer.int_vector(history)
                writer.real(float(states.backoff[number]))
                writer.int32(part.stop - part.start)
                for word, value in zip(states.words[part].tolist(), states.values[part].tolist(), strict=True):
                    writer.int32(word)
                    writer.real(value)
                writer.newline()
        writer.token(_END)


def _read_states(reader: Reader, length: int, vocab_size: int) -> NgramStates:
    reader.expect("<StatesOfOrder>")
    start = reader.position
    order = reader.int32()
    count = reader.after("<NumStates>").int32()
    reader.need(max(count, 0), f"{count} states")
    histories, backoff, offsets = np.zeros((max(count, 0), length), np.int64), [], [0]
    words, values = [], []
    for number in range(count):
        history = reader.int_vector()
        if len(history) != length:
            raise reader.error_at(start, f"expected histories of {length} words, got one of {len(history)}")
        histories[number] = history
        backoff.append(reader.real())
        size = reader.int32()
        reader.need(max(size, 0), f"{size} words")
        offsets.append(offsets[-1] + size)
        for _ in range(size):
            words.append(reader.int32())
            values.append(reader.real())
    made = NgramStates(histories, np.array(backoff), np.array(offsets), np.array(words, np.int64), np.array(values))
    if order != length + 1 or count < 0 or not _is_sound(made, vocab_size):
        raise reader.error_at(start, f"the states of order {length + 1} are damaged")
    return made


def _is_sound(states: NgramStates, vocab_size: int) -> bool:
    """Returns True if words are known and ascend, probabilities are none below 0, and no history comes twice."""
    ids = np.concatenate([states.histories.ravel(), states.words])
    ascends = np.diff(states.words) > 0
    first = states.offsets[1:-1]
    ascends[first[(first > 0) & (first < len(states.words))] - 1] = True
    return bool(
        (np.diff(states.offsets) >= 0).all()
        and ((ids > 0) & (ids < vocab_size)).all()
        and ascends.all()
        and (states.backoff >= 0).all()
        and len(states.numbers) == len(states.histories)
    )
