"""Words of tables of lattices: aligned with their phones, with times and confidences, with the least risk of errors."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from nnet3.base.kaldi_io.lattice import Lattice
from nnet3.base.kaldi_io.lattice_file import lattice_writer
from nnet3.base.kaldi_io.lattice_states import topologically_sorted
from nnet3.base.kaldi_io.load import write_wxfilename
from nnet3.base.kaldi_io.specifiers import NO_TABLE, check_different, is_table
from nnet3.base.kaldi_io.symbols import load_symbols
from nnet3.base.kaldi_io.table_values import (
    Posterior,
    int_vector_writer,
    posterior_writer,
    random_access_int_vectors,
    real_pair_writer,
    real_writer,
)
from nnet3.base.kaldi_io.writer import Writer
from nnet3.cli.files import load_transitions
from nnet3.cli.lattice_reading import LEFT_OUT, MANY_PATHS, each_lattice, read_lattices
from nnet3.cli.messages import LeftOut, say
from nnet3.errors import Nnet3Error
from nnet3.speech.lattices.bayes_risk import HeardWord, Sausages, sausages, without_overlaps
from nnet3.speech.lattices.label_lattice import LabelLattice
from nnet3.speech.lattices.lattice_states import sorted_upwards
from nnet3.speech.lattices.phone_aligned import phone_aligned
from nnet3.speech.lattices.timed_lattice import OtherLabels, timed_lattice, word_aligned
from nnet3.speech.lattices.word_times import WordBoundaries, rows_of_states


class Scales(NamedTuple):
    """Factors of the costs of lattices."""

    acoustic: float = 1.0
    graph: float = 1.0

    def of(self, lattice: Lattice) -> Lattice:
        return lattice.with_costs((self.graph, 0.0), (0.0, self.acoustic))


def align_words(
    boundaries: str,
    model: str,
    lattices: str,
    output: str,
    labels: OtherLabels,
    keeps_broken: bool,
    max_expand: float,
) -> int:
    """Writes lattices whose arcs are words or silence; leaves out lattices that grow more than `max_expand` allows.

    Returns 1, an exit status, if no more are whole than broken off.
    """
    found = WordBoundaries.load(boundaries, load_transitions(model))
    return _align(lattices, output, lambda lattice: word_aligned(lattice, found, labels, max_expand), keeps_broken)


def align_phones(model: str, lattices: str, output: str, replaces: bool, keeps_broken: bool) -> int:
    """Writes lattices whose arcs are phones. Returns 1, an exit status, if as many are broken off as whole."""
    transitions = load_transitions(model)
    return _align(lattices, output, lambda lattice: phone_aligned(lattice, transitions, replaces), keeps_broken)


def _align(
    lattices: str, output: str, align: Callable[[LabelLattice], tuple[LabelLattice, bool]], keeps_broken: bool
) -> int:
    done = broken = 0
    left_out = LeftOut(LEFT_OUT)
    with lattice_writer(output) as writer:
        for key, (aligned, is_whole) in left_out.each(
            read_lattices(lattices), lambda _, lattice: align(LabelLattice.of(lattice))
        ):
            done, broken = done + is_whole, broken + (not is_whole)
            if not is_whole:
                say(f"warning: lattice '{key}' is broken off{'' if keeps_broken else ', and left out'}")
            if is_whole or keeps_broken:
                writer.write(key, topologically_sorted(aligned.lattice()))
    failed = broken + left_out.failed
    say(f"Successfully aligned {done} lattices; {failed} had errors.")
    return int(done <= failed)


def write_confidences(
    lattices: str,
    first: str,
    output: str,
    scales: Scales,
    *,
    frame_shift: float,
    confidence_digits: int,
    decode: bool,
    print_silence: bool,
) -> int:
    """Writes words with times and confidences, in the time-marked format of NIST.

    `first`: a table of the words to begin with; "": the words of the best path. Returns 1, an exit status, if all
    lattices are left out.
    """
    if is_table(output):
        raise Nnet3Error(f"{output}: expected a file such as 1.ctm, not a table")
    given = random_access_int_vectors(first) if first else None
    writer, tally = Writer(binary=False), _Risks()

    def sausages_of(key: str, lattice: Lattice) -> Sausages:
        words = None if given is None else given.get(key)
        if given is not None and words is None:
            raise Nnet3Error(f"{first} has no words for it")
        return _sausages(lattice, scales, words, decode)

    for key, found in LeftOut(LEFT_OUT).each(read_lattices(lattices), sausages_of):
        heard = without_overlaps(found.heard(with_silence=print_silence))
        for word in heard:
            seconds = (np.float32(frame_shift) * np.float32(rows) for rows in (word.begin, word.end - word.begin))
            numbers = [f"{each:.{confidence_digits}f}" for each in (*seconds, word.confidence)]
            writer.text_line(f"{key} 1 {numbers[0]} {numbers[1]} {word.label} {numbers[2]}")
        tally.add(key, found, len(heard))
    write_wxfilename(output, writer)
    return tally.told()


def decode_least_risk(
    lattices: str,
    words: str,
    risks: str,
    sausage_table: str,
    times: str,
    scales: Scales,
    word_symbol_table: str | None,
    one_best_times: bool,
) -> int:
    """Writes the words with the least risk of errors, the risk, and the bins with their times; 1 if there were none."""
    check_different(words, risks, sausage_table, times)
    symbols, tally = None if word_symbol_table is None else load_symbols(word_symbol_table), _Risks()
    with (
        int_vector_writer(words or NO_TABLE) as word_table,
        real_writer(risks or NO_TABLE) as risk_table,
        posterior_writer(sausage_table or NO_TABLE) as bin_table,
        real_pair_writer(times or NO_TABLE) as time_table,
    ):
        for key, found in each_lattice(lattices, lambda lattice: _sausages(lattice, scales, None, decode=True)):
            heard = without_overlaps(found.heard())
            word_table.write(key, np.array([word.label for word in heard], np.int32))
            risk_table.write(key, found.risk)
            bin_table.write(key, _posterior(found))
            time_table.write(key, _times(heard) if one_best_times else found.times())
            if symbols is not None:
                say(" ".join([key, *(symbols[word.label] for word in heard)]), prefix="")
            tally.add(key, found, len(heard))
    return tally.told()


def _sausages(lattice: Lattice, scales: Scales, words: np.ndarray | None, decode: bool) -> Sausages:
    """Raises Nnet3Error without a path. Arcs are in Kaldi's order: Kaldi numbers the states of scaled lattices anew."""
    ordered = sorted_upwards(lattice) if scales == Scales() else topologically_sorted(lattice)
    whole = LabelLattice.of(scales.of(ordered), keeps_order=True)
    if not (whole.final_cost < np.inf).any():
        raise Nnet3Error("it has no path")
    timed = timed_lattice(whole, None)
    rounded = timed.cost.astype(np.float32).astype(np.float64)  # as in Kaldi: last bits decide between equal ways
    return sausages(replace(timed, cost=rounded), words, decode=decode)


def _posterior(found: Sausages) -> Posterior:
    bins = found.ranked()
    indptr = np.append(0, np.cumsum([len(labels) for labels, _ in bins]))
    labels, shares = (np.concatenate(column) for column in zip(*bins, strict=True))
    return Posterior(indptr, labels.astype(np.int32), shares.astype(np.float32))


def _times(heard: list[HeardWord]) -> np.ndarray:
    return np.array([[word.begin, word.end] for word in heard]).reshape(-1, 2)


class _Risks:
    """Adds up expected errors, and words."""

    def __init__(self) -> None:
        self._risk, self._lattices, self._words = 0.0, 0, 0

    def add(self, key: str, found: Sausages, words: int) -> None:
        say(f"For utterance {key}, Bayes Risk {found.risk:g} over {words} words")
        self._risk, self._lattices, self._words = self._risk + found.risk, self._lattices + 1, self._words + words

    def told(self) -> int:
        """Says the averages; returns 1, an exit status, without any lattice."""
        if self._lattices:
            per_word = self._risk / max(self._words, 1)
            say(f"Average Bayes Risk per sentence is {self._risk / self._lattices:g} and per word, {per_word:g}")
        return int(not self._lattices)


def write_linear_times(lattices: str, output: str, frame_shift: float, precision: int, print_silence: bool) -> int:
    """Writes the words of lattices of one path with times. Returns 1, an exit status, if there were none."""
    writer, done = Writer(binary=False), 0
    precision = max(precision, 3 if np.float32(frame_shift) < 0.01 else 0, 4 if np.float32(frame_shift) < 0.001 else 0)
    for key, lattice in read_lattices(lattices):
        fst = lattice.fst
        if (np.bincount(fst.src, minlength=fst.num_states) + (fst.final < np.inf) != 1).any():
            say(f"warning: {LEFT_OUT.format(key, MANY_PATHS)}")
            continue
        done += 1
        for line in _words_of_path(lattice, frame_shift, precision, print_silence):
            writer.text_line(f"{key} 1 {line}")
    write_wxfilename(output, writer)
    return int(not done)


def _words_of_path(lattice: Lattice, frame_shift: float, precision: int, print_silence: bool) -> Iterator[str]:
    begins = rows_of_states(lattice)[lattice.fst.src]
    order = np.argsort(begins, kind="stable")
    shift = np.float32(frame_shift)
    columns = (begins, lattice.transition_ids.lengths, lattice.fst.ilabel)
    for begin, count, word in zip(*(column[order].tolist() for column in columns), strict=True):
        if word or print_silence:
            yield f"{shift * np.float32(begin):.{precision}f} {shift * np.float32(count):.{precision}f} {word}"
