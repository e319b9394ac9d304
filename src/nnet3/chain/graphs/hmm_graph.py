"""Goes from phones to transition-ids, keeping what is said: the H and the C of training and decoding graphs."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from nnet3.chain.graphs.expansion import with_hmms, with_self_loops, with_self_loops_first
from nnet3.chain.graphs.fst_changes import trimmed
from nnet3.chain.graphs.openfst import DELTA, OpenFst
from nnet3.chain.graphs.phone_hmms import PhoneHmms
from nnet3.kaldi_io import Fst
from nnet3.options import TrainingGraphOptions


def graph_of_phones(
    phones: OpenFst, hmms: PhoneHmms, options: TrainingGraphOptions, disambiguation: Collection[int] = ()
) -> Fst:
    """Returns a transducer from transition-ids to words, deterministic and minimal but for its self-loops.

    `phones` is one from phones to words. `disambiguation` are input labels of it that are no phones, and that the
    result does not have.
    """
    tree, tables = hmms.tree, hmms.transitions
    in_context, windows = phones.in_context(sorted(disambiguation), tree.context_width, tree.central_position)
    labelled, table = _by_window(in_context.fst(), windows, tree.context_width)
    expanded = with_hmms(labelled, table, hmms, options.transition_scale)
    small = _without_others(OpenFst.of(expanded).determinized_in_log().fst(), tables.num_ids)
    small = OpenFst.of(small).minimized_as_it_is(DELTA).fst()
    add = with_self_loops if options.reorder else with_self_loops_first
    return trimmed(add(small, tables, options.self_loop_scale))


def _by_window(fst: Fst, windows: list[list[int]], width: int) -> tuple[Fst, np.ndarray]:
    """Returns the FST with label k + 1 for row k of a table of windows, (windows, width), and larger ones for labels of
    disambiguation; and the table."""
    is_window = np.array([len(window) == width and window != [0] and min(window) >= 0 for window in windows])
    is_window[0] = False
    others = ~is_window
    others[0] = False
    count = int(is_window.sum())
    label = np.zeros(len(windows), np.int32)
    label[is_window] = np.arange(1, count + 1)
    label[others] = count + np.arange(1, int(others.sum()) + 1)
    table = np.array([window for window, known in zip(windows, is_window, strict=True) if known], np.int32)
    relabelled = Fst(fst.start, fst.final, fst.offsets, label[fst.ilabel], fst.olabel, fst.cost, fst.dst)
    return relabelled, table.reshape(count, width)


def _without_others(fst: Fst, num_ids: int) -> Fst:
    """Makes epsilons of labels that are no transition-ids."""
    labels = np.where(fst.ilabel > num_ids, 0, fst.ilabel).astype(np.int32)
    return Fst(fst.start, fst.final, fst.offsets, labels, fst.olabel, fst.cost, fst.dst)
