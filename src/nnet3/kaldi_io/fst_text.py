"""The text form of FSTs: one line an arc (`src dst ilabel olabel [cost]`) or final state (`state [cost]`).

A newline comes first and an empty line ends it; costs that are not said are 0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from nnet3.kaldi_io.fst import NOT_FINAL, Fst
from nnet3.kaldi_io.fst_lines import read_lines

if TYPE_CHECKING:
    from nnet3.kaldi_io.reader import Reader
    from nnet3.kaldi_io.writer import Writer

# Templates of five arguments each; %.0s takes one and prints nothing
_ARC, _FREE_ARC = "%d\t%d\t%d\t%d\t%.7g\n", "%d\t%d\t%d\t%d%.0s\n"
_FINAL, _FREE_FINAL, _NOT_FINAL = "%d%.0s%.0s%.0s\t%.7g\n", "%d%.0s%.0s%.0s%.0s\n", "%d%.0s%.0s%.0s%.0s\tInfinity\n"


def read_text_fst(reader: Reader) -> Fst:
    """The FST whose text begins here."""
    lines = read_lines(reader, (1, 2, 4, 5))
    with lines.naming(reader):
        if not len(lines.fields):
            return Fst.empty()
        labels = lines.whole_numbers(lines.arcs[:, 2]), lines.whole_numbers(lines.arcs[:, 3])
        olabel = None if np.array_equal(*labels) else labels[1]
        final = lines.by_state(lines.costs(lines.ends[:, 1]), NOT_FINAL)
        return Fst.from_arcs(lines.start, final, lines.src, lines.dst, labels[0], lines.costs(lines.arcs[:, 4]), olabel)


def write_text_fst(writer: Writer, fst: Fst) -> None:
    """The lines of the start state come first."""
    states, arcs = np.arange(fst.num_states), np.arange(fst.num_arcs)
    said = (fst.final < np.inf) | (np.diff(fst.offsets) == 0)
    ends = np.where(fst.final == np.inf, _NOT_FINAL, np.where(fst.final == 0, _FREE_FINAL, _FINAL))[said]
    templates = np.concatenate([np.where(fst.cost == 0, _FREE_ARC, _ARC), ends])
    columns = [
        np.concatenate([fst.src, states[said]]).tolist(),
        *(
            np.concatenate([values, np.zeros(len(ends), np.int64)]).tolist()
            for values in (fst.dst, fst.ilabel, fst.olabel)
        ),
        np.concatenate([fst.cost, fst.final[said]]).tolist(),
    ]
    behind_arcs = np.concatenate([arcs, fst.offsets[1:][said] - 0.5])
    order = np.lexsort((behind_arcs, columns[0], np.asarray(columns[0]) != fst.start))
    arguments: list[object] = [None] * (5 * len(order))
    for number, column in enumerate(columns):
        arguments[number::5] = [column[line] for line in order.tolist()]
    writer.text("\n" + "".join(templates[order].tolist()) % tuple(arguments) + "\n")
