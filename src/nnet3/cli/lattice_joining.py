"""Joins tables of lattices, makes lattices of single paths and FSTs of words, and finds the closest paths."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import groupby
from typing import TypeVar

import click
import numpy as np

from nnet3.base.kaldi_io.fst import Fst
from nnet3.base.kaldi_io.fst_file import fst_writer, load_fst, read_fst
from nnet3.base.kaldi_io.lattice import Lattice, read_lattice
from nnet3.base.kaldi_io.lattice_factoring import factored
from nnet3.base.kaldi_io.lattice_file import lattice_writer
from nnet3.base.kaldi_io.lattice_states import connected, topologically_sorted
from nnet3.base.kaldi_io.specifiers import NO_TABLE, check_different, is_table
from nnet3.base.kaldi_io.symbols import load_symbols
from nnet3.base.kaldi_io.table_values import (
    int32_writer,
    int_vector_writer,
    open_int_vector_table,
    random_access_int_vectors,
    random_access_reals,
)
from nnet3.base.kaldi_io.tables import RandomAccessTable
from nnet3.cli.lattice_reading import LEFT_OUT, read_lattices
from nnet3.cli.messages import LeftOut, say
from nnet3.errors import Nnet3Error
from nnet3.speech.asr.word_errors import WordErrors
from nnet3.speech.lattices import lattice_joining as work
from nnet3.speech.lattices.lattice_composition import WordFst, composed_with_fst
from nnet3.speech.lattices.lattice_oracle import best_of_path, closest_path
from nnet3.speech.lattices.rescoring import best_of_words
from nnet3.training.chain.graphs.local_epsilons import without_local_epsilons

T = TypeVar("T")


def _entry(table: RandomAccessTable[T], name: str, key: str) -> T:
    found = table.get(key)
    if found is None:
        raise Nnet3Error(f"{name} has no entry for it")
    return found


def _write(
    lattices: str, output: str, change: Callable[[str, Lattice], Lattice], done: str, compact: bool = True
) -> int:
    """Writes changed lattices; faulty ones are left out. Returns 1, an exit status, if none was written."""
    left_out = LeftOut(LEFT_OUT)
    with lattice_writer(output) as writer:
        for key, lattice in left_out.each(read_lattices(lattices, compact), change):
            writer.write(key, lattice)
        say(f"{done} {writer.count} lattices; {left_out.failed} left out.")
        return int(writer.count == 0)


def remove_alignments(lattices: str, output: str) -> int:
    """Writes lattices without transition-ids."""
    return _write(
        lattices, output, lambda _, lattice: work.without_transition_ids(lattice), "Done removing alignments:"
    )


def project(lattices: str, output: str, project_output: bool) -> int:
    """Writes plain lattices from words to words, or from transition-ids to transition-ids."""
    change = work.from_words_to_words if project_output else work.from_ids_to_ids
    return _write(lattices, output, lambda _, lattice: change(lattice), "Projected", compact=project_output)


def turn_round(lattices: str, output: str) -> int:
    """Writes plain lattices whose paths go from ends to starts."""
    return _write(lattices, output, lambda _, lattice: work.turned_round(lattice), "Reversed", compact=False)


def unite(first: str, second: str, output: str) -> int:
    """Writes the best path of each sequence of words in two lattices of one key; a lattice without a partner alone."""
    by_key = RandomAccessTable(second, read_lattice)

    def both(key: str, lattice: Lattice) -> Lattice:
        other = by_key.get(key)
        if other is None:
            say(f"warning: {second} has no lattice '{key}': the one of {first} is written alone")
        parts = [lattice] if other is None else [lattice, other.plain()]
        return best_of_words(connected(work.united(parts)))

    return _write(first, output, both, "United", compact=False)


def unite_paths(paths: str, output: str) -> int:
    """Writes the union of the paths of each utterance, one behind the other in the table as KEY-1, KEY-2, ....

    Returns 1, an exit status, if there are none. Raises Nnet3Error for a key without a number.
    """

    def utterance(entry: tuple[str, Lattice]) -> str:
        name, dash, number = entry[0].rpartition("-")
        if not dash or not name or not number.isdecimal():
            raise Nnet3Error(f"{paths}: the key '{entry[0]}' does not end with -1, -2 ..., as lattice-to-nbest has it")
        return name

    count = 0
    with lattice_writer(output) as writer:
        for key, entries in groupby(read_lattices(paths), utterance):
            found = [lattice for _, lattice in entries]
            writer.write(key, work.united(found))
            count += len(found)
        say(f"Joined {count} paths into lattices of {writer.count} utterances.")
        return int(writer.count == 0)


def compose(lattices: str, others: str, output: str, write_compact: bool, of_fsts: str) -> int:
    """Writes lattices composed with the FST of words in a file, or with the lattice of each key in a table.

    With `of_fsts` true the table is one of FSTs; UsageError if `of_fsts` is false for a file.
    """
    of_table = is_table(others)
    if of_fsts == "false" and not of_table:
        raise click.UsageError("lattices are composed with a table of lattices, not with a single one")
    whole = None if of_table else WordFst(load_fst(others))
    by_key: RandomAccessTable[Fst | Lattice] | None = (
        RandomAccessTable(others, read_fst if of_fsts == "true" else read_lattice) if of_table else None
    )

    def composed(key: str, lattice: Lattice) -> Lattice:
        other = None if by_key is None else _entry(by_key, others, key)
        if isinstance(other, Lattice):
            made = work.composed_with_lattice(lattice, other)
        else:
            fst = whole if other is None else WordFst(other)
            assert fst is not None, "there is a table or one FST"
            made = composed_with_fst(lattice, fst)
        made = replace(made, is_plain=True)
        if not made.fst.num_states:
            raise Nnet3Error(f"no path is accepted by {others}")
        return factored(made) if write_compact else made

    return _write(lattices, output, composed, "Composed", compact=False)


def to_fsts(lattices: str, output: str, acoustic_scale: float, lm_scale: float, rm_eps: bool) -> int:
    """Writes FSTs of words, with scaled costs; with `rm_eps` arcs of no word join their neighbours.

    Returns 1, an exit status, without any.
    """
    with fst_writer(output) as writer:
        for key, lattice in read_lattices(lattices):
            fst = work.word_acceptor_of(lattice.with_costs((lm_scale, 0.0), (0.0, acoustic_scale)))
            writer.write(key, without_local_epsilons(fst) if rm_eps else fst)
        say(f"Converted {writer.count} lattices to FSTs of words.")
        return int(writer.count == 0)


def of_parts(alignments: str, words: str, graph_costs: str, acoustic_costs: str, output: str) -> int:
    """Writes lattices of one path, of transition-ids, words and costs; without a table costs are 0.

    Returns 1, an exit status, if all were left out.
    """
    said = random_access_int_vectors(words)
    graph, acoustic = (random_access_reals(name) if name else None for name in (graph_costs, acoustic_costs))

    def made(key: str, transition_ids: np.ndarray) -> Lattice:
        labels = _entry(said, words, key)
        costs = 0.0 if graph is None else _entry(graph, graph_costs, key)
        scores = 0.0 if acoustic is None else _entry(acoustic, acoustic_costs, key)
        return factored(work.of_one_path(transition_ids, labels, costs, scores))

    left_out = LeftOut()
    with open_int_vector_table(alignments) as table, lattice_writer(output) as writer:
        for key, lattice in left_out.each(table, made):
            writer.write(key, lattice)
        say(f"Done {writer.count} n-best entries, {left_out.failed} left out.")
        return int(writer.count == 0)


def write_closest(
    lattices: str,
    references: str,
    transcripts: str,
    distances: str,
    written: str,
    wildcards: list[int],
    word_symbol_table: str,
) -> int:
    """Writes the path of each lattice closest to the reference: words, number of errors, and lattice.

    Returns 1, an exit status, if no lattice has a reference and a path.
    """
    check_different(transcripts, distances, written)
    free = np.array(wildcards, np.int64)
    symbols, total = load_symbols(word_symbol_table) if word_symbol_table else None, WordErrors()
    by_key, left_out = random_access_int_vectors(references), LeftOut(LEFT_OUT)
    with (
        int_vector_writer(transcripts or NO_TABLE) as texts,
        int32_writer(distances or NO_TABLE) as errors,
        lattice_writer(written or NO_TABLE) as writer,
    ):

        def closest(key: str, lattice: Lattice) -> WordErrors:
            reference = _entry(by_key, references, key)
            found = closest_path(lattice, reference, free)
            if found is None:
                raise Nnet3Error("it has no path")
            texts.write(key, found.words)
            errors.write(key, found.errors)
            path = best_of_path(lattice, found.words, free) if written else None
            if path is not None:
                writer.write(key, topologically_sorted(path))
            if symbols is not None:
                for kind, labels in (("oracle", found.words), ("reference", reference)):
                    say(" ".join([f"{key} ({kind})", *(symbols[label] for label in labels.tolist())]), prefix="")
            return WordErrors(found.reference_words, found.insertions, found.deletions, found.substitutions, 1)

        for key, counts in left_out.each(read_lattices(lattices), closest):
            say(f"{key}: {_rate(counts)}")
            total += counts
    say(f"Overall {_rate(total)}" if total.sentences else f"no lattice has a path and a reference in {references}")
    say(f"Scored {total.sentences} lattices, {left_out.failed} left out.")
    return int(not total.sentences)


def _rate(errors: WordErrors) -> str:
    return (
        f"%WER {100 * errors.rate:g} [ {errors.errors} / {errors.words}, {errors.insertions} insertions, "
        f"{errors.deletions} deletions, {errors.substitutions} sub ]"
    )
