"""Chunks of denominator lattices: Kaldi's chunks, and what each of them means."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from nnet3.base.kaldi_io.lattice import Lattice
from nnet3.base.options.discriminative import DiscriminativeMakingOptions
from nnet3.errors import ModelFormatError
from nnet3.training.discriminative.lattice_levels import LatticeLevels, sum_lattice
from nnet3.training.discriminative.splitting import LatticeCutter, PreparedLattice
from nnet3.training.discriminative.supervision import acceptor
from tests.discriminative.golden_discriminative import CASES, DiscriminativeCase, needs_golden, options_of
from tests.discriminative.small_supervision import random_lattice, toy_transitions

_SWITCHES = ("collapse_transition_ids", "determinize", "minimize")


def meaning(lattice: Lattice, scale: float, frames: int) -> tuple[float, dict[tuple[int, int], float]]:
    """The log-sum over all paths, with scaled acoustic costs, and the share of each transition-id at each frame."""
    levels = LatticeLevels.of(lattice, frames)
    sums = sum_lattice(levels, torch.from_numpy(-levels.graph_cost - scale * levels.acoustic_cost))
    shares: dict[tuple[int, int], float] = {}
    for frame, number, share in zip(levels.frame, levels.transition_id, sums.shares.tolist(), strict=True):
        if number:
            shares[int(frame), int(number)] = shares.get((int(frame), int(number)), 0.0) + share
    return float(sums.log_sum), shares


def difference(one: Lattice, other: Lattice, scale: float, frames: int) -> float:
    """The largest difference of what two lattices mean."""
    (total, shares), (second, others) = (meaning(each, scale, frames) for each in (one, other))
    return max(
        abs(total - second), *(abs(shares.get(key, 0) - others.get(key, 0)) for key in shares.keys() | others.keys())
    )


def cutter_options(line: str) -> DiscriminativeMakingOptions:
    """The options of a line that matter for lattices."""
    given = options_of(line)
    switches: dict[str, Any] = {name: given.get(name.replace("_", "-"), "true") == "true" for name in _SWITCHES}
    return DiscriminativeMakingOptions(acoustic_scale=float(given["acoustic-scale"]), **switches)


@needs_golden
@pytest.mark.parametrize("name", CASES)
def test_golden_chunks(name: str) -> None:
    case = DiscriminativeCase(name)
    for line in case.lines("egs.cmd"):
        if "get-egs" not in line:
            continue
        options, factor = cutter_options(line), int(options_of(line).get("frame-subsampling-factor", 1))
        cutters = {
            key: LatticeCutter(
                PreparedLattice.of(lattice, options.acoustic_scale), case.model.transition_model.pdf_of_label, options
            )
            for key, lattice in case.lattices("denlat.ark").items()
        }
        seen = set()
        for key, example in case.examples(line.rpartition("ark:")[2]).items():
            utterance, _, first = key.rpartition("-")
            wanted = example.outputs[0].supervision
            frames = wanted.frames_per_sequence
            found = cutters[utterance].cut(int(first) // factor, frames, is_first=utterance not in seen)
            seen.add(utterance)
            assert difference(found, wanted.lattice, options.acoustic_scale, frames) < 2e-3
            if not options.determinize:
                for column in ("src", "dst", "ilabel"):
                    np.testing.assert_array_equal(getattr(found.fst, column), getattr(wanted.lattice.fst, column))
                np.testing.assert_allclose(found.fst.cost, wanted.lattice.fst.cost, rtol=1e-6, atol=1e-5)
                np.testing.assert_allclose(found.acoustic_cost, wanted.lattice.acoustic_cost, rtol=1e-6, atol=1e-5)
        assert seen == cutters.keys()


def _cutter(lattice: Lattice, **switches: bool) -> LatticeCutter:
    options = DiscriminativeMakingOptions(acoustic_scale=0.5, **switches)  # type: ignore[arg-type]
    return LatticeCutter(PreparedLattice.of(lattice, 0.5), toy_transitions().pdf_of_label, options)


@pytest.mark.parametrize("seed", range(8))
def test_shares_of_chunks_are_those_of_the_whole(seed: int) -> None:
    """No path is lost: shares stay, and all but the first chunk sum up to 1."""
    lattice = random_lattice(np.random.default_rng(seed), 6)
    total, shares = meaning(lattice, 0.5, 6)
    prepared = PreparedLattice.of(lattice, 0.5)
    assert prepared.after[0] == pytest.approx(total, abs=1e-4)
    for first, count in ((0, 2), (2, 3), (5, 1)):
        own, of_chunk = meaning(prepared.chunk(first, count, is_first=first == 0), 1.0, count)
        assert own == pytest.approx(total if first == 0 else 0.0, abs=1e-4)
        for (frame, number), share in of_chunk.items():
            assert share == pytest.approx(shares[first + frame, number], abs=1e-4)


@pytest.mark.parametrize("seed", range(8))
def test_determinization_keeps_the_best_path_of_each_sequence(seed: int) -> None:
    lattice = random_lattice(np.random.default_rng(seed), 5, with_epsilons=True)
    given = _cutter(lattice, collapse_transition_ids=False, determinize=False).cut(0, 5, is_first=True)
    best: dict[tuple[int, ...], float] = {}
    for path, cost in _paths(given):
        best[path] = min(cost, best.get(path, np.inf))
    for minimize in (False, True):
        found = _cutter(lattice, collapse_transition_ids=False, minimize=minimize).cut(0, 5, is_first=True)
        paths = _paths(found)
        assert sorted(path for path, _ in paths) == sorted(best)
        assert all(cost == pytest.approx(best[path], abs=5e-3) for path, cost in paths)


def _paths(lattice: Lattice) -> list[tuple[tuple[int, ...], float]]:
    fst, found, waiting = (
        lattice.fst,
        list[tuple[tuple[int, ...], float]](),
        [(lattice.fst.start, tuple[int, ...](), 0.0)],
    )
    while waiting:
        state, ids, cost = waiting.pop()
        if fst.final[state] < np.inf:
            found.append((ids, cost + float(fst.final[state])))
        for arc in range(fst.offsets[state], fst.offsets[state + 1]):
            step = float(fst.cost[arc]) + 0.5 * float(lattice.acoustic_cost[arc])
            waiting.append((int(fst.dst[arc]), (*ids, int(fst.ilabel[arc])), cost + step))
    return found


def test_collapsing_leaves_one_transition_id_of_a_pdf() -> None:
    both = acceptor([np.inf, np.inf, 0], [0, 0, 1], [1, 1, 2], [4, 1, 2], [0.5, 0.7, 0], [0, 0, 0])  # of pdf 0: 1 and 4
    found = _cutter(both).cut(0, 2, is_first=True)
    assert found.fst.ilabel.tolist() == [1, 2]  # the last arc comes first when epsilons are gone
    kept = _cutter(both, collapse_transition_ids=False).cut(0, 2, is_first=True)
    assert sorted(kept.fst.ilabel.tolist()) == [1, 2, 4]


@pytest.mark.parametrize(
    ("final", "arcs", "message"),
    [
        ([np.inf, 0, 0], [(0, 1, 1), (1, 2, 1)], "equally many"),
        ([np.inf, np.inf, np.inf], [(0, 1, 1), (1, 2, 1)], "no path"),
        ([np.inf, np.inf, 0], [(0, 1, 1), (1, 2, 1), (2, 1, 1)], "cycle"),
    ],
)
def test_lattices_that_cannot_be_cut(final: list[float], arcs: list[tuple[int, int, int]], message: str) -> None:
    src, dst, ids = (np.array(column) for column in zip(*arcs, strict=True))
    costs = np.zeros(len(arcs))
    with pytest.raises(ModelFormatError, match=message):
        PreparedLattice.of(acceptor(final, src, dst, ids, costs, costs), 0.1)
