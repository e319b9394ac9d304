"""Determinization: against Kaldi's own, and all paths written out."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from nnet3.base.kaldi_io.lattice import Lattice, Strings, open_lattice_table
from nnet3.base.options.lattices import PhoneDeterminizingOptions
from nnet3.speech.lattices import determinizing, word_lattice
from nnet3.speech.lattices.determinizing import determinized
from nnet3.speech.lattices.label_lattice import LabelLattice
from nnet3.speech.lattices.label_sets import Memory, TooLargeError
from nnet3.speech.lattices.lattice_determinizing import determinized_within
from nnet3.speech.lattices.word_lattice import PhoneLabels, within_memory
from tests.asr import golden_lattices
from tests.asr.golden_lattices import BEAM, lattice, model
from tests.asr.slow_search import paths_of
from tests.asr.small_model import chain_transition_model
from tests.asr.toy_lattices import random_lattice
from tests.native.native_code import needs_native_code


@pytest.mark.parametrize("name", ["", "last_"])
def test_what_kaldi_makes_of_pieces(name: str) -> None:
    """As many states and arcs, the same paths, costs and transition-ids."""
    expected = lattice(f"{name}determinized")
    found, beam = within_memory(lattice(f"{name}piece"), BEAM, np.inf, PhoneLabels(model()))
    assert beam == BEAM
    assert (found.num_states, len(found.src)) == (expected.num_states, len(expected.src))
    paths, kaldi = paths_of(found.lattice()), paths_of(expected.lattice())
    assert set(paths) == set(kaldi)
    for words, [(cost, ids)] in paths.items():
        [(kaldi_cost, kaldi_ids)] = kaldi[words]
        assert cost == pytest.approx(kaldi_cost, abs=2e-3)
        assert ids == kaldi_ids


@pytest.mark.parametrize("native", [pytest.param(True, marks=needs_native_code), False])
@pytest.mark.parametrize("words", [True, False])
def test_close_sets_join_those_of_better_paths(words: bool, native: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kaldi's states, arcs, costs and transition-ids, where sets of close costs can merge in several ways."""
    if not native:
        monkeypatch.setattr(determinizing, "library", lambda: None)
    raw, expected = (_of_table(f"close_{name}.txt") for name in ("raw", "words" if words else "phones"))
    options = PhoneDeterminizingOptions(acoustic_scale=1.0, beam=3.0, word_determinize=words)
    found, _ = determinized_within(raw, options, phones=PhoneLabels(chain_transition_model()))
    assert found.fst.num_states == expected.fst.num_states
    for mine, kaldis in zip(_rows(found), _rows(expected), strict=True):
        assert mine[:2] == kaldis[:2]
        assert mine[2:] == pytest.approx(kaldis[2:], abs=2e-3)


def _of_table(name: str) -> Lattice:
    with open_lattice_table(f"ark:{golden_lattices.GOLDEN / name}") as table:
        return next(lattice for _, lattice in table)


def _rows(lattice: Lattice) -> list[tuple[int, tuple[int, ...], float, float]]:
    """Returns word, transition-ids and costs of arcs and, without a word, of ends, in order."""
    fst, ends = lattice.fst, np.flatnonzero(np.isfinite(lattice.fst.final))
    columns = (
        (fst.ilabel, lattice.transition_ids, fst.cost, lattice.acoustic_cost),
        (0 * ends - 1, lattice.final_transition_ids[ends], fst.final[ends], lattice.final_acoustic_cost[ends]),
    )
    return sorted(
        (int(word), tuple(string), float(cost), float(acoustic))
        for words, ids, costs, acoustics in columns
        for word, string, cost, acoustic in zip(words, _lists(ids), costs, acoustics, strict=True)
    )


def _lists(strings: Strings) -> list[list[int]]:
    return [part.tolist() for part in np.split(strings.values, strings.offsets[1:-1])] if len(strings.lengths) else []


def test_each_sequence_of_labels_once_with_its_best_path() -> None:
    for _ in range(10):
        raw = random_lattice(rows=4)
        best = {words: min(paths) for words, paths in paths_of(raw).items()}
        found = determinized(raw.labelled(), 100.0, Memory(np.inf))
        assert (found.level[found.src] < found.level[found.dst]).all()
        assert found.label.min(initial=1) > 0
        paths = paths_of(found.lattice())
        assert set(paths) == set(best)
        for words, [(cost, ids)] in paths.items():
            assert cost == pytest.approx(best[words][0], abs=1e-4)
            assert len(ids) == 4


def test_states_that_lead_on_alike_are_one() -> None:
    """Two words of equal rows lead to the same state, whatever they cost; the transition-ids of each are its own."""
    raw = random_lattice(rows=1)
    label = np.arange(1, 1 + len(raw.src))
    whole = replace(raw.labelled(label), ids=raw.labelled().ids)
    found = determinized(whole, 100.0, Memory(np.inf))
    assert found.num_states <= raw.num_states
    assert len(found.src) == len(raw.src)


def test_memory_that_is_too_small() -> None:
    whole = random_lattice(rows=6).labelled()
    with pytest.raises(TooLargeError):
        determinized(whole, 100.0, Memory(1000))


@pytest.mark.parametrize("beam", [0.02, 10.0, 4e9, 1e38])
def test_a_beam_narrows_in_few_steps(beam: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each step may take as long as the memory lasts, so there are few, also from a beam that means nothing."""
    tried = []

    def too_large(lattice: LabelLattice, beam: float, memory: Memory) -> LabelLattice:
        tried.append(beam)
        if not np.isinf(memory.left):
            raise TooLargeError
        return determinized(lattice, beam, memory)

    monkeypatch.setattr(word_lattice, "determinized", too_large)
    raw = random_lattice(rows=4)
    found, narrowed = word_lattice.within_memory(raw.labelled(), beam, 1000)
    assert narrowed == 0
    assert min(paths_of(raw)[next(iter(paths_of(found.lattice())))])[0] == pytest.approx(raw.labelled().best_cost)
    *steps, last = tried
    assert last == 0
    narrowest = min(beam, raw.labelled().widest_beam)
    assert steps[:5] == pytest.approx([beam, *(narrowest * 0.75**step for step in range(1, len(steps[:5])))])
    assert len(steps) <= 13


@pytest.mark.parametrize("beam", [30.0, 4e9, 1e38])
@pytest.mark.parametrize("rows", [12, 16])
def test_the_work_has_a_bound(beam: float, rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """As many sets as there are words of so many rows: all attempts together do little more than the memory allows."""
    work, hold = [0], Memory.hold

    def counting(memory: Memory, rows: int, columns: int) -> None:
        hold(memory, rows, columns)
        work[0] += rows * columns

    monkeypatch.setattr(Memory, "hold", counting)
    lattice = random_lattice(rows=rows).labelled()
    most_bytes, of_best_path = 1_000_000, 1000 * rows
    found, _ = word_lattice.within_memory(lattice, beam, most_bytes)
    assert work[0] <= 2 * (most_bytes + 4000 * len(lattice.src)) + of_best_path
    assert found.best_cost == pytest.approx(lattice.best_cost)
