"""Scores of trials and of pairs of segments, clusters of segments, error rates, turns of speakers."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import click
import numpy as np
import numpy.typing as npt

from nnet3.base.kaldi_io.load import write_wxfilename
from nnet3.base.kaldi_io.table_values import (
    int32_writer,
    matrix_writer,
    open_matrix_table,
    open_words_table,
    random_access_int32s,
    random_access_vectors,
    random_access_words,
)
from nnet3.base.kaldi_io.writer import Writer
from nnet3.base.options.speaker import ClusteringOptions, DiarizationOptions, PldaScoringOptions
from nnet3.base.text.values import read_number
from nnet3.cli.files import read_text
from nnet3.cli.messages import naming, say
from nnet3.cli.speaker_tables import all_vectors_of, read_plda
from nnet3.errors import Nnet3Error
from nnet3.speech.arrays.aliases import Doubles, Integers, Singles
from nnet3.speech.speaker.clustering import clusters_of
from nnet3.speech.speaker.diarizing import diarize, plda_of, scores_of_pairs
from nnet3.speech.speaker.error_rates import detection_cost, equal_error_rate
from nnet3.speech.speaker.given import vectors_of
from nnet3.speech.speaker.speaker_model import SpeakerModel
from nnet3.speech.speaker.turns import rttm_lines, turns_of
from nnet3.speech.speaker.verifier import Verifier

_NUMBERS_AT_ONCE = 1 << 24
_TARGETS = {"target": True, "nontarget": False}


def fields_of(name: str, count: int, what: str) -> Iterator[list[str]]:
    """Yields the words of each line of a text file. Raises Nnet3Error for a line of another number of words."""
    for number, line in enumerate(read_text(name).splitlines(), start=1):
        words = line.split()
        if len(words) != count:
            raise Nnet3Error(f"{name}: line {number}: expected {what}, got '{line[:80]}'")
        yield words


def score_trials(
    plda: str, enrolled: str, tests: str, trials: str, output: str, counts: str, options: PldaScoringOptions
) -> int:
    """Writes log-likelihood ratios of trials; `counts` is a table of numbers of utterances, "" for 1 each.

    Returns 1, an exit status, if there were none.
    """
    model = read_plda(plda)
    names, vectors = _distinct(enrolled)
    numbers = np.ones(len(names), np.int64)
    if counts:
        with random_access_int32s(counts) as by_key:
            found = [by_key.get(name) for name in names]
        for name in (name for name, number in zip(names, found, strict=True) if number is None):
            say(f"warning: speaker '{name}' left out: {counts} has no number of utterances for it")
        kept = [row for row, number in enumerate(found) if number is not None]
        names, vectors = [names[row] for row in kept], vectors[kept]
        numbers = np.array([found[row] for row in kept], np.int64)
        if (numbers < 1).any():
            least = int(numbers.argmin())
            raise Nnet3Error(f"{counts}: {names[least]}: expected 1 utterance or more, got {numbers[least]}")
    if not names:
        raise Nnet3Error(f"{enrolled}: there are no vectors of speakers to compare with")
    with naming(enrolled):
        own, factors = model.in_own_space(vectors, numbers, options)
    test_names, test_vectors = _distinct(tests)
    with naming(tests):
        own_tests, test_factors = model.in_own_space(test_vectors, options=options)
    say(f"Average renormalization scale was {factors.mean():g} of training vectors, {test_factors.mean():g} of tests")

    def scores(first: Integers, second: Integers) -> Doubles:
        return model.ratios_of_pairs(own[first], numbers[first], own_tests[second])

    return _write_scores(_trials(trials), output, (names, test_names), scores, own.shape[1])


def dot_products(trials: str, first: str, second: str, output: str) -> int:
    """Writes the dot products of trials; no other vectors are read. Returns 1, an exit status, without trials."""
    asked = _trials(trials)
    names, vectors = _asked_for(first, (key for key, _ in asked))
    other_names, others = _asked_for(second, (key for _, key in asked))
    if vectors.shape[1] != others.shape[1] and names and other_names:
        raise Nnet3Error(f"{first} has vectors of {vectors.shape[1]} numbers, {second} of {others.shape[1]}")

    def products(one: Integers, other: Integers) -> Doubles:
        return np.asarray((vectors[one] * others[other]).sum(axis=1))

    return _write_scores(asked, output, (names, other_names), products, vectors.shape[1] or 1)


def _trials(name: str) -> list[list[str]]:
    return list(fields_of(name, 2, "two keys"))


def _asked_for(source: str, keys: Iterator[str]) -> tuple[list[str], Doubles]:
    """Returns those keys (n) that a table has, each once, and their vectors (n, dim), (0, 1) without any."""
    with random_access_vectors(source) as table:
        found = {key: vector for key in dict.fromkeys(keys) if (vector := table.get(key)) is not None}
    if len({len(vector) for vector in found.values()}) > 1:
        raise Nnet3Error(f"{source}: the vectors of the trials have several dimensions")
    with naming(source):
        return [*found], vectors_of([*found.values()], "expected vectors") if found else np.zeros((0, 1))


def _distinct(source: str) -> tuple[list[str], Singles]:
    names, vectors = all_vectors_of(source)
    if len(set(names)) < len(names):
        twice = next(name for number, name in enumerate(names) if name in names[:number])
        raise Nnet3Error(f"{source}: '{twice}' has two vectors")
    return names, vectors


def _write_scores(
    trials: list[list[str]],
    output: str,
    names: tuple[list[str], list[str]],
    scores: Callable[[Integers, Integers], Doubles],
    dim: int,
) -> int:
    rows_by_name = [{name: row for row, name in enumerate(each)} for each in names]
    pairs, failed = [], 0
    for trial in trials:
        lacking = [key for key, rows_of in zip(trial, rows_by_name, strict=True) if key not in rows_of]
        if lacking:
            failed += 1
            say(f"warning: trial '{' '.join(trial)}' left out: there is no vector for '{lacking[0]}'")
            continue
        pairs.append(trial)
    rows = np.array(
        [[rows_of[key] for key, rows_of in zip(pair, rows_by_name, strict=True)] for pair in pairs], np.int64
    )
    found, size = np.zeros(len(pairs), np.float32), max(_NUMBERS_AT_ONCE // dim, 1)
    for start in range(0, len(pairs), size):
        part = rows[start : start + size]
        found[start : start + size] = scores(part[:, 0], part[:, 1])
    write_lines(
        output, (f"{one} {other} {score:.7g}" for (one, other), score in zip(pairs, found.tolist(), strict=True))
    )
    if pairs:
        say(f"Mean score was {found.mean(dtype=np.float64):g}, standard deviation was {found.std(dtype=np.float64):g}")
    say(f"Processed {len(pairs)} trials, {failed} had errors.")
    return int(not pairs)


def write_lines(output: str, lines: Iterator[str] | Sequence[str]) -> None:
    """Writes lines of text to a file or a pipe, which may be a pipe's end, `-`."""
    writer = Writer(binary=False)
    for line in lines:
        writer.text_line(line)
    write_wxfilename(output, writer)


def score_dense(
    plda: str, reco2utt: str, source: str, output: str, target_energy: float, options: PldaScoringOptions
) -> int:
    """Writes the scores of all pairs of segments of each recording, (segments, segments).

    Returns 1, an exit status, if no recording has segments.
    """
    model, failed = read_plda(plda), 0
    with (
        open_words_table(reco2utt) as recordings,
        random_access_vectors(source) as by_key,
        matrix_writer(output) as writer,
    ):
        for recording, keys in recordings:
            if not keys:
                failed += 1
                say(f"warning: recording '{recording}' left out: it has no segments")
                continue
            vectors = [by_key[key] for key in keys]
            if {len(vector) for vector in vectors} != {model.dim}:
                raise Nnet3Error(f"{source}: {recording}: expected vectors of {model.dim} numbers, as {plda} has")
            with naming(source, recording):
                scores = scores_of_pairs(model, np.stack(vectors), target_energy, options)
            writer.write(recording, scores.astype(np.float32))
        say(f"Processed {writer.count} recordings, {failed} had errors.")
        return int(writer.count == 0)


def cluster(scores: str, reco2utt: str, output: str, numbers: str, costs: bool, options: ClusteringOptions) -> None:
    """Writes the cluster of each segment; `numbers` is a table of numbers of speakers, "" for the threshold."""
    options = options if costs else replace(options, threshold=-options.threshold)
    with (
        contextlib.ExitStack() as opened,
        open_matrix_table(scores) as table,
        random_access_words(reco2utt) as keys_of,
        int32_writer(output) as writer,
    ):
        number_of = opened.enter_context(random_access_int32s(numbers)) if numbers else None
        for recording, matrix in table:
            keys = keys_of[recording]
            if matrix.shape != (len(keys), len(keys)):
                raise Nnet3Error(
                    f"{scores}: {recording}: {reco2utt} has {len(keys)} segments of it, the matrix is {matrix.shape}"
                )
            number = None if number_of is None else number_of[recording]
            with naming(numbers or scores, recording):
                labels = clusters_of(matrix if costs else -matrix, options, number)
            for key, label in zip(keys, labels.tolist(), strict=True):
                writer.write(key, label)


def print_equal_error_rate(scores: str) -> None:
    """Prints the equal error rate, in percent, of lines `SCORE target` or `SCORE nontarget`."""
    lines = list(fields_of(scores, 2, "a score, and target or nontarget"))
    is_target = _are_targets(scores, [word for _, word in lines])
    values = _numbers(scores, [word for word, _ in lines]).astype(np.float32)
    with naming(scores):
        rate, threshold = equal_error_rate(values[is_target], values[~is_target])
    percent = 100.0 * float(np.float32(rate))
    say(f"Equal error rate is {percent:.6g}%, at threshold {threshold:.6g}")
    click.echo(f"{percent:.4g}", nl=False)


def print_detection_cost(scores: str, trials: str, target_share: float, miss_cost: float, alarm_cost: float) -> None:
    """Prints the least detection cost of scores `KEY KEY SCORE` of trials `KEY KEY target|nontarget`."""
    keyed = list(fields_of(trials, 3, "two keys, and target or nontarget"))
    are_targets = _are_targets(trials, [kind for *_, kind in keyed])
    kinds = {(one, other): kind for (one, other, _), kind in zip(keyed, are_targets, strict=True)}
    lines = list(fields_of(scores, 3, "two keys and a score"))
    unknown = next((line for line in lines if (line[0], line[1]) not in kinds), None)
    if unknown is not None:
        raise Nnet3Error(f"{trials}: there is no trial '{unknown[0]} {unknown[1]}', which {scores} has")
    is_target = np.array([kinds[one, other] for one, other, _ in lines], bool)
    values = _numbers(scores, [score for *_, score in lines])
    with naming(scores):
        cost, threshold = detection_cost(values, is_target, target_share, miss_cost, alarm_cost)
    click.echo(f"{cost:.4f}")
    say(
        f"minDCF is {cost:.4f} at threshold {threshold:.4f} (p-target={target_share:g}, c-miss={miss_cost:g}, "
        f"c-fa={alarm_cost:g})"
    )


def _are_targets(name: str, words: list[str]) -> npt.NDArray[np.bool_]:
    """Returns true for `target`, false for `nontarget`, the word on each line of a file."""
    for number, word in enumerate(words, start=1):
        if word not in _TARGETS:
            raise Nnet3Error(f"{name}: line {number}: expected target or nontarget, got '{word}'")
    return np.array([_TARGETS[word] for word in words], bool)


def _numbers(name: str, words: Sequence[str]) -> Doubles:
    """Returns the numbers on the lines of a file, (lines,). Raises Nnet3Error for NaN."""
    found = np.full(len(words), np.nan)
    for row, word in enumerate(words):
        with contextlib.suppress(ValueError):
            found[row] = read_number(word)
        if np.isnan(found[row]):
            raise Nnet3Error(f"{name}: line {row + 1}: expected a number, got '{word}'")
    return found


def write_rttm(segments: str, labels: str, output: str, channel: int) -> None:
    """Writes the turns that segments `SEGMENT RECORDING START END` and their labels make, recordings sorted."""
    label_of = {words[0]: words[1] for words in fields_of(labels, 2, "a segment and its label")}
    by_recording: dict[str, list[tuple[float, float, str]]] = {}
    lines = list(fields_of(segments, 4, "a segment, its recording, start and end"))
    times = (_numbers(segments, [line[column] for line in lines]).tolist() for column in (2, 3))
    for number, ((segment, recording, *_), start, end) in enumerate(zip(lines, *times, strict=True), start=1):
        if segment not in label_of:
            raise Nnet3Error(f"{labels}: there is no label for the segment '{segment}'")
        if not 0 <= start < end < math.inf:
            raise Nnet3Error(f"{segments}: line {number}: expected seconds, 0 <= start < end, got {start:g} {end:g}")
        by_recording.setdefault(recording, []).append((start, end, label_of[segment]))
    turns = list[str]()
    for recording in sorted(by_recording):
        starts, ends, names = zip(*by_recording[recording], strict=True)
        begin, finish, first = turns_of(np.array(starts, np.float64), np.array(ends, np.float64), np.array(names))
        speakers = [names[row] for row in first.tolist()]
        turns += rttm_lines(recording, zip(begin.tolist(), finish.tolist(), speakers, strict=True), channel)
    write_lines(output, turns)


def diarize_recordings(
    model: str, recordings: Sequence[str], output: str, number: int, options: DiarizationOptions
) -> int:
    """Writes the turns of speakers in files of audio. Returns 1, an exit status, if a recording was left out.

    Raises ModelFormatError for a model without `plda`.
    """
    loaded, lines, status = SpeakerModel(model), list[str](), 0
    plda_of(loaded)  # before each recording would be left out
    for recording in recordings:
        try:
            turns = diarize(recording, loaded, num_speakers=number or None, options=options)
        except Nnet3Error as error:
            say(f"warning: {recording} left out: {error}")
            status = 1
            continue
        lines += rttm_lines(_stem(recording), turns)
    write_lines(output, lines)
    return status


def _stem(recording: str) -> str:
    name = recording.rpartition("/")[2]
    return "_".join((name.rpartition(".")[0] or name).split())


def print_verification(model: str, test: str, enrolled: Sequence[str]) -> None:
    """Prints the score of a recording against the mean of enrolled recordings."""
    verifier = Verifier(model)
    verifier.enrol("speaker", *enrolled)
    click.echo(f"{verifier.score('speaker', test):.7g}")
