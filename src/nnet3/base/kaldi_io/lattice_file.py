"""Writes lattices as Kaldi does: acceptors whose arcs have two costs and transition-ids (type `compactlattice44`), and
those of a search, from transition-ids to words (`lattice4`)."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import numpy.typing as npt

from nnet3.base.kaldi_io.fst import NOT_FINAL
from nnet3.base.kaldi_io.fst_header import VECTOR, write_fst_header
from nnet3.base.kaldi_io.fst_properties import EXPANDED, MUTABLE
from nnet3.base.kaldi_io.lattice import COMPACT, PLAIN, Lattice, Strings, read_lattice
from nnet3.base.kaldi_io.table_values import TableKind
from nnet3.base.kaldi_io.writer import Writer

Integers = npt.NDArray[np.integer]
Floats = npt.NDArray[np.floating]
_STATE_WORDS, _ARC_WORDS = 5, 6  # of 4 bytes, without transition-ids
_PLAIN_STATE_WORDS, _PLAIN_ARC_WORDS = 4, 5


def write_lattice(writer: Writer, lattice: Lattice, digits: int = 6) -> None:
    """Writes a lattice, a plain one in the plain type, as a file or a table's entry; costs in text have `digits`."""
    if not writer.binary:
        _write_text(writer, lattice, digits)
    elif lattice.is_plain:
        _write_plain(writer, lattice)
    else:
        _write_compact(writer, lattice)


def _write_compact(writer: Writer, lattice: Lattice) -> None:
    """Writes for each state its final weight (costs and a string) and number of arcs, then the arcs with their weights.

    A weight is two costs (float32), the number of transition-ids (int32), and the transition-ids.
    """
    fst, ids, final_ids = lattice.fst, lattice.transition_ids, lattice.final_transition_ids
    write_fst_header(writer, VECTOR, EXPANDED | MUTABLE, fst, arcs=0, arc_type=COMPACT)
    words_of_arc, words_of_state = _ARC_WORDS + ids.lengths, _STATE_WORDS + final_ids.lengths
    behind_arc, behind_state = np.append(0, np.cumsum(words_of_arc)), np.cumsum(words_of_state)
    state_at = behind_state - words_of_state + behind_arc[fst.offsets[:-1]]
    arc_at = behind_state[fst.src] + behind_arc[:-1]
    words = np.zeros(int(words_of_arc.sum() + words_of_state.sum()), "<i4")
    _put_weights(words, state_at, (fst.final, _final_acoustic(lattice)), final_ids)
    words[state_at + 3 + final_ids.lengths] = np.diff(fst.offsets)  # the low half; the high half is 0
    words[arc_at] = words[arc_at + 1] = fst.ilabel
    _put_weights(words, arc_at + 2, (fst.cost, lattice.acoustic_cost), ids)
    words[arc_at + 5 + ids.lengths] = fst.dst
    writer.raw(words.tobytes())


def _put_weights(words: Integers, at: Integers, costs: tuple[Floats, Floats], strings: Strings) -> None:
    for number, cost in enumerate(costs):
        words[at + number] = _bits(cost)
    words[at + 2] = strings.lengths
    words[np.arange(len(strings.values)) + np.repeat(at + 3 - strings.offsets[:-1], strings.lengths)] = strings.values


def _write_plain(writer: Writer, lattice: Lattice) -> None:
    """Writes for each state its final weight (two costs) and number of arcs, then the arcs: labels, two costs, dst."""
    fst = lattice.fst
    write_fst_header(writer, VECTOR, EXPANDED | MUTABLE, fst, arcs=0, arc_type=PLAIN)
    words = np.zeros(_PLAIN_STATE_WORDS * fst.num_states + _PLAIN_ARC_WORDS * fst.num_arcs, "<i4")
    state_at = _PLAIN_STATE_WORDS * np.arange(fst.num_states) + _PLAIN_ARC_WORDS * fst.offsets[:-1]
    arc_at = _PLAIN_STATE_WORDS * (fst.src + 1) + _PLAIN_ARC_WORDS * np.arange(fst.num_arcs)
    words[state_at], words[state_at + 1] = _bits(fst.final), _bits(_final_acoustic(lattice))
    words[state_at + 2] = np.diff(fst.offsets)  # the low half; the high half is 0
    values = (_plain_ids(lattice), fst.ilabel, _bits(fst.cost), _bits(lattice.acoustic_cost), fst.dst)
    for number, column in enumerate(values):
        words[arc_at + number] = column
    writer.raw(words.tobytes())


def _final_acoustic(lattice: Lattice) -> Floats:
    return np.where(lattice.fst.final < np.inf, lattice.final_acoustic_cost, NOT_FINAL)


def _plain_ids(lattice: Lattice) -> Integers:
    """Returns the transition-id of each arc of a plain lattice, 0 for none."""
    ids = np.zeros(lattice.fst.num_arcs, np.int32)
    ids[lattice.transition_ids.lengths > 0] = lattice.transition_ids.values
    return ids


def _bits(costs: Floats) -> Integers:
    return np.asarray(costs, "<f4").view("<i4")


def _write_text(writer: Writer, lattice: Lattice, digits: int) -> None:
    """Writes `src dst labels weight` for each arc and `state weight` for each end, the lines of the start state first.

    A weight is two costs and, in lattices that are not plain, transition-ids, such as 3.5,20.25,7_7_8; an empty weight
    is left out.
    """
    fst = lattice.fst
    said = (fst.final < np.inf) | (np.diff(fst.offsets) == 0)
    plain = lattice.is_plain
    labels = [_plain_ids(lattice), fst.ilabel] if plain else [fst.ilabel]
    weights = _weights(fst.cost, lattice.acoustic_cost, None if plain else lattice.transition_ids, digits)
    final_weights = _weights(
        fst.final, _final_acoustic(lattice), None if plain else lattice.final_transition_ids, digits
    )
    columns = (column.tolist() for column in (fst.src, fst.dst, *labels))
    lines = [
        "\t".join(map(str, line)) + weight for line, weight in zip(zip(*columns, strict=True), weights, strict=True)
    ]
    ends = np.flatnonzero(said)
    lines += [f"{state}{final_weights[state]}" for state in ends.tolist()]
    state = np.append(fst.src, ends)
    order = np.lexsort((np.append(np.arange(fst.num_arcs), fst.offsets[1:][said] - 0.5), state, state != fst.start))
    writer.text("\n" + "".join(f"{lines[number]}\n" for number in order.tolist()) + "\n")


def _weights(graph: Floats, acoustic: Floats, strings: Strings | None, digits: int) -> list[str]:
    costs = [
        f"\t{first:.{digits}g},{second:.{digits}g}"
        for first, second in zip(graph.tolist(), acoustic.tolist(), strict=True)
    ]
    texts = ("" for _ in costs)
    if strings is not None:
        ids, edges = strings.values.tolist(), strings.offsets.tolist()
        texts = ("," + "_".join(map(str, ids[first:end])) for first, end in pairwise(edges))
    weights = ((cost + text).replace("inf", "Infinity") for cost, text in zip(costs, texts, strict=True))
    return ["" if weight in ("\t0,0", "\t0,0,") else weight for weight in weights]


lattice_writer = TableKind(read_lattice, write_lattice, header=False).writer
