"""Writes lattices as Kaldi's type `compactlattice44`: acceptors whose arcs have two costs and transition-ids."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import numpy.typing as npt

from nnet3.kaldi_io.fst import NOT_FINAL
from nnet3.kaldi_io.fst_header import VECTOR, write_fst_header
from nnet3.kaldi_io.fst_properties import EXPANDED, MUTABLE
from nnet3.kaldi_io.lattice import COMPACT, Lattice, Strings, read_lattice
from nnet3.kaldi_io.table_values import TableKind
from nnet3.kaldi_io.writer import Writer

Integers = npt.NDArray[np.integer]
Floats = npt.NDArray[np.floating]
_STATE_WORDS, _ARC_WORDS = 5, 6  # of 4 bytes, without transition-ids


def write_lattice(writer: Writer, lattice: Lattice) -> None:
    """Writes a file or an entry of a table."""
    if writer.binary:
        _write_binary(writer, lattice)
    else:
        _write_text(writer, lattice)


def _write_binary(writer: Writer, lattice: Lattice) -> None:
    """Writes for each state its final weight (costs and a string) and number of arcs, then the arcs with a weight each.

    A weight is two costs (float32), the number of transition-ids (int32), and these.
    """
    fst, ids, final_ids = lattice.fst, lattice.transition_ids, lattice.final_transition_ids
    write_fst_header(writer, VECTOR, EXPANDED | MUTABLE, fst, arcs=0, arc_type=COMPACT)
    words_of_arc, words_of_state = _ARC_WORDS + ids.lengths, _STATE_WORDS + final_ids.lengths
    behind_arc, behind_state = np.append(0, np.cumsum(words_of_arc)), np.cumsum(words_of_state)
    state_at = behind_state - words_of_state + behind_arc[fst.offsets[:-1]]
    arc_at = behind_state[fst.src] + behind_arc[:-1]
    words = np.zeros(int(words_of_arc.sum() + words_of_state.sum()), "<i4")
    acoustic = np.where(fst.final < np.inf, lattice.final_acoustic_cost, NOT_FINAL)
    _put_weights(words, state_at, (fst.final, acoustic), final_ids)
    words[state_at + 3 + final_ids.lengths] = np.diff(fst.offsets)  # the low half; the high half is 0
    words[arc_at] = words[arc_at + 1] = fst.ilabel
    _put_weights(words, arc_at + 2, (fst.cost, lattice.acoustic_cost), ids)
    words[arc_at + 5 + ids.lengths] = fst.dst
    writer.raw(words.tobytes())


def _put_weights(words: Integers, at: Integers, costs: tuple[Floats, Floats], strings: Strings) -> None:
    for number, cost in enumerate(costs):
        words[at + number] = np.asarray(cost, "<f4").view("<i4")
    words[at + 2] = strings.lengths
    words[np.arange(len(strings.values)) + np.repeat(at + 3 - strings.offsets[:-1], strings.lengths)] = strings.values


def _write_text(writer: Writer, lattice: Lattice) -> None:
    """Writes `src dst label weight` for each arc and `state weight` for each end, the lines of the start state first.

    A weight is two costs and transition-ids, such as 3.5,20.25,7_7_8; one of nothing is left out.
    """
    fst = lattice.fst
    said = (fst.final < np.inf) | (np.diff(fst.offsets) == 0)
    weights = _weights(fst.cost, lattice.acoustic_cost, lattice.transition_ids)
    acoustic = np.where(fst.final < np.inf, lattice.final_acoustic_cost, NOT_FINAL)
    final_weights = _weights(fst.final, acoustic, lattice.final_transition_ids)
    columns = (column.tolist() for column in (fst.src, fst.dst, fst.ilabel))
    lines = [
        "\t".join(map(str, line)) + weight for line, weight in zip(zip(*columns, strict=True), weights, strict=True)
    ]
    ends = np.flatnonzero(said)
    lines += [f"{state}{final_weights[state]}" for state in ends.tolist()]
    state = np.append(fst.src, ends)
    order = np.lexsort((np.append(np.arange(fst.num_arcs), fst.offsets[1:][said] - 0.5), state, state != fst.start))
    writer.text("\n" + "".join(f"{lines[number]}\n" for number in order.tolist()) + "\n")


def _weights(graph: Floats, acoustic: Floats, strings: Strings) -> list[str]:
    ids, edges = strings.values.tolist(), strings.offsets.tolist()
    texts = ("_".join(map(str, ids[first:end])) for first, end in pairwise(edges))
    rows = zip(graph.tolist(), acoustic.tolist(), texts, strict=True)
    weights = (f"\t{first:g},{second:g},{text}".replace("inf", "Infinity") for first, second, text in rows)
    return ["" if weight == "\t0,0," else weight for weight in weights]


_LATTICES = TableKind(read_lattice, write_lattice, header=False)
lattice_writer, random_access_lattices = _LATTICES.writer, _LATTICES.by_key
