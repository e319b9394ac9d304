"""The property bits of OpenFst's files."""

from __future__ import annotations

import numpy as np

from nnet3.base.kaldi_io.fst import Fst
from nnet3.base.kaldi_io.fst_reach import accessible, arcs_on_cycles, coaccessible, goes_up

EXPANDED, MUTABLE = 0x1, 0x2


def known_properties(fst: Fst) -> int:
    """Returns all trinary properties: one bit of each pair, for true or for false."""
    pairs = [
        (16, fst.is_acceptor),
        *((18 + 2 * side, not _has_repeated_label(fst, labels)) for side, labels in enumerate(_sides(fst))),
        (22, fst.has_epsilons),
        *((24 + 2 * side, bool((labels == 0).any())) for side, labels in enumerate(_sides(fst))),
        *((28 + 2 * side, _is_sorted(fst, labels)) for side, labels in enumerate(_sides(fst))),
        (32, _is_weight(fst.cost) or _is_weight(fst.final)),
        *_cycle_properties(fst),
        (38, goes_up(fst)),
        (40, bool(accessible(fst).all())),
        (42, bool(coaccessible(fst).all())),
        (44, _is_string(fst)),
    ]
    return sum(1 << (bit if holds else bit + 1) for bit, holds in pairs)


def _sides(fst: Fst) -> tuple[np.ndarray, np.ndarray]:
    return fst.ilabel, fst.olabel


def _cycle_properties(fst: Fst) -> list[tuple[int, bool]]:
    on_cycle = arcs_on_cycles(fst)
    start_on_cycle = bool((fst.src[on_cycle] == fst.start).any())
    return [(34, bool(on_cycle.any())), (36, start_on_cycle), (46, _is_weight(fst.cost[on_cycle]))]


def _is_weight(costs: np.ndarray) -> bool:
    """Returns True if some cost is neither 0 nor infinite."""
    return bool(((costs != 0) & (costs != np.inf)).any())


def _has_repeated_label(fst: Fst, labels: np.ndarray) -> bool:
    key = fst.src.astype(np.int64) << 32 | labels
    if (np.diff(key) > 0).all():
        return False
    return bool((np.diff(np.sort(key)) == 0).any())


def _is_sorted(fst: Fst, labels: np.ndarray) -> bool:
    return bool((np.diff(fst.src.astype(np.int64) << 32 | labels) >= 0).all())


def _is_string(fst: Fst) -> bool:
    """Returns True for one path through all states in order, whose end is the last state."""
    states = fst.num_states
    if states == 0:
        return True
    final = fst.final < np.inf
    return (
        fst.start == 0
        and fst.num_arcs == states - 1
        and bool(final[-1])
        and not final[:-1].any()
        and np.array_equal(fst.src, np.arange(states - 1))
        and np.array_equal(fst.dst, np.arange(1, states))
    )
