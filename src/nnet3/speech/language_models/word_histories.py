"""WordHistories: histories of words, and the state of an RNNLM's network after each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from nnet3.base.index import IndexTable
from nnet3.base.index.given_numbers import whole_numbers
from nnet3.base.options.rnnlm import RnnlmOptions
from nnet3.engine.ir.objects import Recent
from nnet3.engine.runtime import NnetComputer
from nnet3.errors import ArgumentError, check_kind, shown
from nnet3.inference.running import NetworkKernels
from nnet3.inference.stream_program import StreamProgram, few_widths
from nnet3.model.nnet import Nnet, device_of
from nnet3.speech.arrays.aliases import Integers
from nnet3.speech.arrays.row_buffer import RowBuffer
from nnet3.speech.language_models.history_step import HistoryStep, size_of_state, state_parts
from nnet3.speech.language_models.word_acceptor import NativeModel

_AT_ONCE = 256  # histories
_MOST_STEPS = 16  # histories that are computed one by one
_PARENT, _WORD, _LENGTH, _STATE, _NUM_COLUMNS = range(5)  # of histories; the state is one of those of its chunk
_NOT_YET = -1  # in the place of a state
_ROWS_AT_ONCE = 1 << 24  # elements of scores of all words


class HistoryPrograms:
    """Computers of one word, by number of histories at a time. `widest`: 1 where rows of a batch influence each other.

    Only batch-norm in training mode does so: in Kaldi a batch has the rows of one history.
    """

    def __init__(self, program: StreamProgram, widest: int = _AT_ONCE) -> None:
        self.program, self.widest = program, widest
        mixed = any(
            leaf.has_running_statistics and not leaf.test_mode
            for component in program.nnet.components.values()
            for _, leaf in component.leaves()
        )
        if mixed:
            self.widest = 1
        self._kernels, self._device = NetworkKernels.of(program.nnet), device_of(program.nnet)
        self._computers, self._steps = Recent[NnetComputer](64), dict[int, HistoryStep | None]()

    def run(self, chunk_index: int, width: int, inputs: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Returns the outputs of a chunk for `width` histories, by the name of the output."""

        def make() -> NnetComputer:
            computation = self.program.computation(self.program.chunks[chunk_index], width)
            return NnetComputer(computation, self._kernels, device=self._device, check_finite=False)

        return self._computers.get_or_make((chunk_index, width), make).compute(inputs)

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_steps": {}}  # which are made of memory of this process

    def step(self, chunk_index: int) -> HistoryStep | None:
        """Returns the step of a chunk for one history in float32; None where native code does not make all of it."""
        if chunk_index not in self._steps:
            step = HistoryStep(self.program, chunk_index)
            self._steps[chunk_index] = step if step.is_native else None
        return self._steps[chunk_index]


class _States:
    """States of the network before a chunk: rows (histories, numbers of a state)."""

    def __init__(self, tables: Mapping[str, IndexTable], nnet: Nnet, embedding: Tensor) -> None:
        self._parts = state_parts(tables, nnet)
        self._values = embedding.new_empty(16, size_of_state(self._parts))
        self.rows, self.count = self._values.cpu().numpy(), 0  # the same memory, if that is the processor's

    def add(self, count: int) -> int:
        """Makes room for `count` more states; returns the number of the first."""
        first, self.count = self.count, self.count + count
        if self.count > len(self._values):
            grown = self._values.new_empty(max(self.count, 2 * first), self._values.shape[1])
            grown[:first] = self._values[:first]
            self._values, self.rows = grown, grown.cpu().numpy()
        return first

    def append(self, state: Mapping[str, Tensor], count: int) -> int:
        """Adds the states of `count` histories, (rows * width, dim) of each node; returns the number of the first."""
        first = self.add(count)
        for name, part in self._parts.items():
            columns = state[name].unflatten(0, (part.rows, -1))[:, :count].transpose(0, 1).flatten(1)
            self._values[first : self.count, part.columns] = columns
        return first

    def take(self, numbers: Integers) -> dict[str, Tensor]:
        """Returns states of histories side by side, for a program: (rows * width, dim) by node."""
        some = self._values[torch.from_numpy(numbers).to(self._values.device)]
        return {
            name: some[:, part.columns].unflatten(1, (part.rows, part.dim)).transpose(0, 1).flatten(0, 1)
            for name, part in self._parts.items()
        }


class WordHistories:
    """Histories of words by number; number 0 is <s> alone.

    `extend` makes new histories, and computes nothing. The next question runs the network for all new histories,
    histories of equal length together; states are kept, so that no history is computed twice.
    """

    def __init__(self, programs: HistoryPrograms, embedding: Tensor, options: RnnlmOptions) -> None:
        self._programs, self._embedding, self._options = programs, embedding, options
        self._rows, self._num_computed = RowBuffer(_NUM_COLUMNS, np.int64), 0
        self._outputs = embedding.new_empty(0, embedding.shape[1])
        self._output_rows, self._embedding_rows = self._outputs.cpu().numpy(), embedding.cpu().numpy()  # for one pair
        self._totals = embedding.new_empty(0)  # logarithms of the sums over all words
        self._num_totals = 0
        self._may_step = embedding.device.type == "cpu" and embedding.dtype == torch.float32
        self._add(np.array([-1]), np.array([options.bos_symbol]), np.array([0]))

    @cached_property
    def _states(self) -> list[_States]:
        program = self._programs.program
        return [_States(chunk.before, program.nnet, self._embedding) for chunk in program.chunks]

    def __len__(self) -> int:
        return len(self._rows)

    # ---- histories ----

    def extend(self, histories: npt.ArrayLike, words: npt.ArrayLike) -> Integers:
        """Returns the numbers of new histories (n,): each of `histories` (n,) followed by one of `words` (n,).

        Raises ArgumentError for an unknown history, word 0, and words without an embedding.
        """
        parents, more = self._numbers(histories), whole_numbers(words, "words must be numbers").reshape(-1)
        if parents.shape != more.shape:
            raise ArgumentError(f"as many histories as words are needed, got {len(parents)} and {len(more)}")
        self._check_words(more)
        return self._add(parents, more, self._rows.take(parents)[:, _LENGTH] + 1)

    def extend_one(self, history: int, word: int) -> int:
        """Returns the number of one new history, as `extend` does, for a known history and word."""
        self._rows.append(np.array([[history, word, self._rows.row(history)[_LENGTH] + 1, _NOT_YET]]))
        return len(self) - 1

    def follow(self, sentences: Sequence[Sequence[int]]) -> tuple[list[int], Integers]:
        """Returns the histories before each word and before each end, and the history of each whole sentence.

        Histories before words are one list, sentence after sentence. Sentences that begin alike share histories.
        Raises ArgumentError for a sentence that is no list of word numbers.
        """
        rows = [_word_numbers(sentence) for sentence in checked_sentences(sentences)]
        lengths = np.array([len(row) for row in rows], np.int64)
        table = np.zeros((len(rows), int(lengths.max(initial=0))), np.int64)
        table[np.arange(table.shape[1]) < lengths[:, None]] = np.concatenate([np.zeros(0, np.int64), *rows])
        at = np.zeros((len(rows), table.shape[1] + 1), np.int64)
        for position in range(table.shape[1]):
            going = np.flatnonzero(lengths > position)
            pairs = np.stack([at[going, position], table[going, position]], axis=1)
            different, which = np.unique(pairs, axis=0, return_inverse=True)
            at[going, position + 1] = self.extend(different[:, 0], different[:, 1])[which.reshape(-1)]
        known = np.arange(at.shape[1]) <= lengths[:, None]
        return at[known].tolist(), at[np.arange(len(at)), lengths]

    def _add(self, parents: Integers, words: Integers, lengths: Integers) -> Integers:
        first = len(self)
        self._rows.append(np.stack([parents, words, lengths, np.full(len(words), _NOT_YET)], axis=1))
        return np.arange(first, len(self))

    def _numbers(self, histories: npt.ArrayLike) -> Integers:
        numbers = whole_numbers(histories, "histories must be numbers").reshape(-1)
        if len(numbers) and not 0 <= numbers.min() <= numbers.max() < len(self):
            raise ArgumentError(f"there are histories 0 to {len(self) - 1}, got {numbers.min()} to {numbers.max()}")
        return numbers

    def _check_words(self, words: Integers) -> None:
        most = len(self._embedding) - 1
        if len(words) and not 1 <= words.min() <= words.max() <= most:
            wrong = int(words[(words < 1) | (words > most)][0])
            raise ArgumentError(
                f"words are 1 to {most}, as the RNNLM has them, got {wrong}: is it a model of other words?"
            )

    # ---- probabilities ----

    def outputs(self, histories: npt.ArrayLike) -> Tensor:
        """Returns the network's outputs after histories, (n, dim)."""
        numbers = self._numbers(histories)
        self._compute()
        return self._outputs[torch.from_numpy(numbers).to(self._outputs.device)]

    def log_probs(self, histories: npt.ArrayLike, words: npt.ArrayLike | None = None) -> Tensor:
        """Returns the log-probabilities of all next words (n, words), or of one word each (n,), after histories (n,).

        Column 0 of all words is -inf. With `normalize_probs` log sum exp over words from 1 on is subtracted.
        """
        numbers = self._numbers(histories)
        outputs = self.outputs(numbers)
        if words is None:
            scores = outputs @ self._embedding.t()
            scores[:, 0] = -torch.inf
            return torch.log_softmax(scores, 1) if self._options.normalize_probs else scores
        wanted = whole_numbers(words, "words must be numbers").reshape(-1)
        if wanted.shape != numbers.shape:
            raise ArgumentError(f"as many words as histories are needed, got {len(wanted)} and {len(numbers)}")
        self._check_words(wanted)
        own = (outputs * self._embedding[torch.from_numpy(wanted).to(outputs.device)]).sum(1)
        return own - self._logs_of_sums(numbers) if self._options.normalize_probs else own

    def log_prob(self, history: int, word: int) -> float:
        """Returns the log-probability of a word after a history, at little cost if the history is computed."""
        if self._num_computed <= history:
            self._compute()
        if not 1 <= word < len(self._embedding_rows):
            self._check_words(np.array([word]))
        value = float(np.float32(self._output_rows[history].astype(np.float64) @ self._embedding_rows[word]))
        if not self._options.normalize_probs:
            return value
        if self._num_totals <= history:
            self._logs_of_sums(np.array([history]))
        return float(np.float32(value) - np.float32(self._totals[history]))

    def native(self, width: int) -> list[NativeModel]:
        """Returns the model for native code that tells histories apart by their last words, of which `width` count."""
        options, program = self._options, self._programs.program
        if options.normalize_probs or not self._may_step:
            return []
        steps = [self._programs.step(index) for index in range(len(program.chunks))]
        found = [(step.table, step.lock) for step in steps if step is not None and step.table is not None]
        if len(found) < len(steps):
            return []
        tables, locks = zip(*found, strict=True)
        embedding, pointers = (
            np.ascontiguousarray(self._embedding_rows),
            np.array([each.ctypes.data for each in tables]),
        )
        words = *embedding.shape, embedding.ctypes.data, options.bos_symbol, options.eos_symbol, width
        table = [*words, torch.get_num_threads(), len(program.head), len(steps), pointers.ctypes.data]
        return [NativeModel("network", np.array(table, np.int64), [embedding, pointers, *steps], locks)]

    def _logs_of_sums(self, numbers: Integers) -> Tensor:
        """Returns log sum exp of the scores of all words from 1 on after computed histories, (n,); all are kept."""
        done = self._num_computed
        if self._num_totals < done:
            parts = self._outputs[self._num_totals : done].split(max(_ROWS_AT_ONCE // len(self._embedding), 1))
            more = [torch.logsumexp(part @ self._embedding[1:].t(), 1) for part in parts]
            self._totals = torch.cat([self._totals[: self._num_totals], *more])
            self._num_totals = done
        return self._totals[torch.from_numpy(numbers).to(self._totals.device)]

    # ---- the network ----

    def _compute(self) -> None:
        """Computes all histories not computed yet."""
        done, end = self._num_computed, len(self)
        if done == end:
            return
        if len(self._outputs) < end:
            grown = self._outputs.new_empty(max(end, 2 * len(self._outputs)), self._outputs.shape[1])
            grown[:done] = self._outputs[:done]
            self._outputs, self._output_rows = grown, grown.cpu().numpy()  # the same memory, if that is the processor's
        may_step = self._may_step and end - done <= _MOST_STEPS
        left = [each for each in range(done, end) if not (may_step and self._step(each))]
        if left:
            self._compute_together(np.array(left))
        self._num_computed = end

    def _compute_together(self, waiting: Integers) -> None:
        """Runs the network for histories, those whose parents are computed at once."""
        while len(waiting):
            parents = self._rows.take(waiting)[:, _PARENT]
            ready = (parents < 0) | (self._rows.take(parents)[:, _STATE] != _NOT_YET)
            self._run_all(waiting[ready])
            waiting = waiting[~ready]
        if self._outputs.device.type != "cpu":
            self._output_rows = self._outputs.cpu().numpy()

    def _step(self, history: int) -> bool:
        """Computes one history by native code; returns False where that is impossible."""
        own, program = self._rows.row(history), self._programs.program
        parent, word, length, _ = own.tolist()
        index, behind = program.chunk_index(length), program.chunk_index(length + 1)
        step, column = self._programs.step(index), self._rows.row(parent)[_STATE] if length else 0
        if step is None or column == _NOT_YET:
            return False
        own[_STATE] = self._states[behind].add(1)
        before, after = self._states[index].rows[column], self._states[behind].rows[own[_STATE]]
        step(before, self._embedding_rows[word], self._output_rows[history], after)
        return True

    def _run_all(self, histories: Integers) -> None:
        """Runs the network for histories with computed parents, histories of one chunk together."""
        chunk_index_of, lengths = self._programs.program.chunk_index, self._rows.take(histories)[:, _LENGTH]
        chunk_indexes = np.array([chunk_index_of(length) for length in range(int(lengths.max()) + 1)])[lengths]
        for chunk_index in np.unique(chunk_indexes).tolist():
            group = histories[chunk_indexes == chunk_index]
            for first in range(0, len(group), self._programs.widest):
                self._run(chunk_index, group[first : first + self._programs.widest])

    def _run(self, chunk_index: int, histories: Integers) -> None:
        """Runs the chunk of one word."""
        program, width = self._programs.program, min(few_widths(len(histories)), self._programs.widest)
        more = width - len(histories)
        padded = np.append(histories, np.repeat(histories[:1], more)) if more else histories
        chunk, inputs = program.chunks[chunk_index], {}
        if chunk.before:
            inputs = self._states[chunk_index].take(self._rows.take(self._rows.take(padded)[:, _PARENT])[:, _STATE])
        new = self._embedding[self._rows.take(padded)[:, _WORD]]
        inputs["input"] = torch.cat([inputs["input"], new]) if "input" in inputs else new
        after = self._programs.run(chunk_index, width, inputs)
        outputs = after.pop("output")
        after |= {name: chunk.kept_of(name, inputs[name], width) for name in chunk.kept}
        self._outputs[histories] = outputs[: len(histories)]
        length = int(self._rows.row(int(histories[0]))[_LENGTH])
        first = self._states[program.chunk_index(length + 1)].append(after, len(histories))
        for number, history in enumerate(histories.tolist(), first):
            self._rows.row(history)[_STATE] = number


def _word_numbers(sentence: Sequence[int]) -> Integers:
    refusal = "a sentence or history must be a list of numbers of words"
    found = whole_numbers(sentence, refusal)
    if found.ndim != 1:
        raise ArgumentError(f"{refusal}, got {shown(sentence)}")
    return found


def checked_sentences(sentences: Sequence[Sequence[int]]) -> Sequence[Sequence[int]]:
    """Returns the sentences. Raises ArgumentError for something without an order."""
    check_kind(sentences, (Sequence, np.ndarray, Tensor), "sentences or histories", "a list of lists of word numbers")
    return sentences
