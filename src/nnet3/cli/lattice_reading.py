"""Reads best paths off tables of lattices, and scales these."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

import numpy as np

from nnet3.base.kaldi_io.lattice import Lattice, open_lattice_table
from nnet3.base.kaldi_io.lattice_factoring import factored
from nnet3.base.kaldi_io.lattice_file import lattice_writer
from nnet3.base.kaldi_io.specifiers import NO_TABLE, check_different
from nnet3.base.kaldi_io.symbols import load_symbols
from nnet3.base.kaldi_io.table_values import int_vector_writer, real_writer
from nnet3.base.text import words_of
from nnet3.cli.files import read_text
from nnet3.cli.messages import LeftOut, say
from nnet3.errors import Nnet3Error, TableError
from nnet3.speech.lattices.lattice_path import MOST_PATHS, LatticePath, best_paths, random_paths

T = TypeVar("T")
LEFT_OUT = "lattice '{}' left out: {}"
MANY_PATHS = "expected one path, such as lattice-1best writes, found several"


def write_best_paths(
    lattices: str,
    words: str,
    alignments: str,
    acoustic_scale: float,
    lm_scale: float,
    word_symbol_table: str | None,
) -> int:
    """Writes words and alignments of the best path of each lattice, and says its cost. Returns 1, a status, if no
    lattice has a path."""
    check_different(words, alignments)
    symbols = None if word_symbol_table is None else load_symbols(word_symbol_table)
    graph = acoustic = 0.0
    done = rows = 0
    with (
        int_vector_writer(words or NO_TABLE) as word_table,
        int_vector_writer(alignments or NO_TABLE) as alignment_table,
    ):
        for key, (path,) in _paths(lattices, 1, lm_scale, acoustic_scale, 0.0):
            word_table.write(key, path.words)
            alignment_table.write(key, path.transition_ids)
            costs = lm_scale * path.graph_cost, acoustic_scale * path.acoustic_cost
            count = len(path.transition_ids)
            if symbols is not None:
                say(" ".join([key, *(symbols[word] for word in path.words.tolist())]), prefix="")
            say(f"For utterance {key}, best cost {costs[0]:g} + {costs[1]:g} = {sum(costs):g} over {count} frames.")
            graph, acoustic, rows, done = graph + costs[0], acoustic + costs[1], rows + count, done + 1
    if rows:
        total, *parts = ((each / rows) for each in (graph + acoustic, graph, acoustic))
        say(f"Overall cost per frame is {total:g} = {parts[0]:g} [graph] + {parts[1]:g} [acoustic] over {rows} frames.")
    return int(done == 0)


def write_linear(
    lattices: str, output: str, n: int | None, acoustic_scale: float, lm_scale: float, word_ins_penalty: float
) -> int:
    """Writes each lattice's best path as a lattice; with `n`, the `n` best paths, whose keys go on with their number.

    Returns 1, an exit status, if no lattice has a path.

    As in Kaldi, a penalty below 0 is none, and paths with numbers have an arc for each word and the wordless arcs
    behind it, and begin with an empty arc if `n` is above 1.
    """
    found = _paths(lattices, n or 1, lm_scale, acoustic_scale, max(word_ins_penalty, 0.0), compact=n is None)
    return _write_paths(found, output, numbered=n is not None, several=n is not None and n > 1)


def write_random(lattices: str, output: str, n: int, seed: int) -> int:
    """Writes `n` random paths of each lattice as lattices without costs, whose keys go on with their number.

    Returns 1, an exit status, if no lattice has a path.
    """
    if n > MOST_PATHS:
        raise Nnet3Error(f"--n={n}: at most {MOST_PATHS} random paths of each lattice are written")
    rng = np.random.default_rng(seed)

    def paths(lattice: Lattice) -> list[LatticePath]:
        return random_paths(lattice.with_costs((0.0, 0.0), (0.0, 0.0)), n, rng)

    return _write_paths(_with_some(each_lattice(lattices, paths, compact=False)), output, numbered=True)


def _write_paths(
    found: Iterator[tuple[str, list[LatticePath]]], output: str, numbered: bool, several: bool = False
) -> int:
    done = 0
    with lattice_writer(output) as writer:
        for done, (key, paths) in enumerate(found, 1):  # noqa: B007
            for number, path in enumerate(paths, 1):
                lattice = path.as_one_of_several() if several else path.as_lattice()
                writer.write(f"{key}-{number}" if numbered else key, factored(lattice) if lattice.is_plain else lattice)
    return int(done == 0)


def write_parts(lattices: str, alignments: str, words: str, graph_costs: str, acoustic_costs: str) -> int:
    """Writes the parts of each lattice of one path; leaves out lattices of several. Returns 1, a status, if all are."""
    check_different(alignments, words, graph_costs, acoustic_costs)
    with (
        int_vector_writer(alignments or NO_TABLE) as alignment_table,
        int_vector_writer(words or NO_TABLE) as word_table,
        real_writer(graph_costs or NO_TABLE) as graph_table,
        real_writer(acoustic_costs or NO_TABLE) as acoustic_table,
    ):
        done = 0
        for key, (path, *others) in _paths(lattices, 2, 1.0, 1.0, 0.0):
            if others:
                say(f"warning: {LEFT_OUT.format(key, MANY_PATHS)}")
                continue
            done += 1
            alignment_table.write(key, path.transition_ids)
            word_table.write(key, path.words)
            graph_table.write(key, path.graph_cost)
            acoustic_table.write(key, path.acoustic_cost)
        return int(done == 0)


def write_changed(
    lattices: str,
    output: str,
    change: Callable[[Lattice], Lattice],
    compact: bool = True,
    chosen: Callable[[str], bool] = lambda key: True,
) -> int:
    """Writes chosen lattices with a change, as transducers from transition-ids if not compact. Returns the number of
    lattices chosen.
    """
    with lattice_writer(output) as writer:
        for key, lattice in read_lattices(lattices, compact):
            if chosen(key):
                writer.write(key, change(lattice))
        return writer.count


def copy(lattices: str, output: str, write_compact: bool, include: str, exclude: str, ignore_missing: bool) -> int:
    """Copies lattices: all, or lattices with keys of the file `include`, or without keys of the file `exclude`.

    As in Kaldi, `exclude` acts like `include` where lattices are not written compact. Returns 1, an exit status,
    without lattices.
    """
    lines = read_text(include or exclude).split("\n") if include or exclude else []
    keys = {fields[0] for line in lines if (fields := words_of(line))}
    takes_keys = bool(include or (exclude and not write_compact))
    count = write_changed(
        lattices, output, lambda lattice: lattice, write_compact, lambda key: (key in keys) == takes_keys
    )
    say(f"{count} lattices written")
    return int(not count and not ignore_missing)


def _paths(
    lattices: str, number: int, lm_scale: float, acoustic_scale: float, word_penalty: float, compact: bool = True
) -> Iterator[tuple[str, list[LatticePath]]]:
    """Yields the best paths of each lattice; lattices without any are left out."""
    costs = lm_scale, acoustic_scale, word_penalty
    return _with_some(each_lattice(lattices, lambda lattice: best_paths(lattice, number, *costs), compact))


def _with_some(found: Iterator[tuple[str, list[LatticePath]]]) -> Iterator[tuple[str, list[LatticePath]]]:
    """Yields entries with paths, and says which entries have none."""
    for key, paths in found:
        if paths:
            yield key, paths
        else:
            say(f"warning: {LEFT_OUT.format(key, 'it has no path')}")


def each_lattice(lattices: str, make: Callable[[Lattice], T], compact: bool = True) -> Iterator[tuple[str, T]]:
    """Yields key and result of `make` for each lattice; leaves out, with a warning, lattices with an Nnet3Error."""
    return LeftOut(LEFT_OUT).each(read_lattices(lattices, compact), lambda _, lattice: make(lattice))


def read_lattices(lattices: str, compact: bool = True) -> Iterator[tuple[str, Lattice]]:
    """Yields all readable lattices, compact or plain. Raises Nnet3Error at the end without any or with damaged ones."""
    done = failed = 0
    with open_lattice_table(lattices) as table:
        while True:
            try:
                entry = next(table, None)
            except TableError as error:
                say(f"warning: {error}")
                failed += 1
                continue
            if entry is None:
                break
            done += 1
            key, lattice = entry
            yield key, (factored(lattice) if lattice.is_plain else lattice) if compact else lattice.plain()
    if failed or not done:
        raise Nnet3Error(f"{lattices}: {f'{failed} lattices could not be read' if failed else 'there are no lattices'}")
    say(f"{done} lattices read")
