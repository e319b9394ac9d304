"""The phone language model: Kaldi's own, the example of the documentation, and a slow oracle."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from nnet3.errors import TrainingError
from nnet3.kaldi_io import Fst, load_fst, open_int_vector_table
from nnet3.options import PhoneLmOptions
from nnet3.training.chain.graphs.phone_lm import estimate_phone_lm
from tests.chain.graphs.slow_phone_lm import SlowPhoneLm
from tests.shared_data import golden_cases

SENTENCES = [[1, 2, 1, 2, 3], [1, 2, 2], [2, 1, 2, 3]]


def _arcs(fst: Fst) -> list[list[tuple[int, int, float]]]:
    """As SlowPhoneLm has them."""
    arcs: list[list[tuple[int, int, float]]] = [
        [(0, -1, float(np.exp(-final)))] if final < np.inf else [] for final in fst.final
    ]
    for src, dst, label, cost in zip(fst.src, fst.dst, fst.ilabel, fst.cost, strict=True):
        arcs[src].append((int(label), int(dst), float(np.exp(-cost))))
    return arcs


@pytest.mark.parametrize("case", golden_cases("chain", "phones.ark", "phone_lm.fst"), ids=lambda case: case.name)
def test_golden_language_models_are_made_again(case: Path) -> None:
    command = next(line for line in (case / "graph.cmd").read_text().splitlines() if "est-phone-lm" in line)
    settings = {name.replace("-", "_"): int(value) for name, value in re.findall(r"--([a-z-]+)=(\d+)", command)}
    sequences = [phones for _, phones in open_int_vector_table(f"ark:{case}/phones.ark")]
    made = estimate_phone_lm(sequences, PhoneLmOptions(**settings))
    expected = load_fst(str(case / "phone_lm.fst"))
    assert made.start == expected.start
    for name in ("final", "offsets", "ilabel", "olabel", "cost", "dst"):
        np.testing.assert_array_equal(getattr(made, name), getattr(expected, name), name)


def test_worked_example_without_extra_states() -> None:
    fst = estimate_phone_lm(SENTENCES, PhoneLmOptions(3, 2, 0))
    assert fst.start == 0
    expected = [
        [(1, 1, 2 / 3), (2, 2, 1 / 3)],
        [(2, 2, 1)],
        [(0, -1, 1 / 6), (1, 1, 2 / 6), (2, 2, 1 / 6), (3, 3, 2 / 6)],
        [(0, -1, 1)],
    ]
    assert [[arc[:2] for arc in state] for state in _arcs(fst)] == [[arc[:2] for arc in state] for state in expected]
    for state, right in zip(_arcs(fst), expected, strict=True):
        np.testing.assert_allclose([arc[2] for arc in state], [arc[2] for arc in right], rtol=1e-6)


def test_worked_example_merges_in_order() -> None:
    """What the oracle itself should do."""
    slow = SlowPhoneLm(SENTENCES, 3, 2)
    slow.prune(2)
    assert slow.merged == [(0, 2), (2, 3), (2, 1), (0, 1)]


@pytest.mark.parametrize("seed", range(40))
def test_against_the_slow_oracle(seed: int) -> None:
    random = np.random.default_rng(seed)
    order = int(random.integers(2, 6))
    kept = int(random.integers(1, order + 1))
    sentences = [random.integers(1, 5, random.integers(0, 12)).tolist() for _ in range(random.integers(1, 15))]
    extra = int(random.integers(0, 30))
    slow = SlowPhoneLm(sentences, order, kept)
    slow.prune(extra)
    fst = estimate_phone_lm(sentences, PhoneLmOptions(order, kept, extra))
    expected = slow.arcs()
    assert [[arc[:2] for arc in state] for state in _arcs(fst)] == [[arc[:2] for arc in state] for state in expected]
    for state, right in zip(_arcs(fst), expected, strict=True):
        np.testing.assert_allclose([arc[2] for arc in state], [arc[2] for arc in right], rtol=1e-6)
        assert sum(arc[2] for arc in state) == pytest.approx(1)


@pytest.mark.parametrize(
    ("sequences", "message"),
    [([], "at least one sequence of phones"), ([[1, 0]], "phones begin at 1, but a sequence of phones has 0")],
)
def test_bad_sequences_are_refused(sequences: list, message: str) -> None:
    with pytest.raises(TrainingError, match=message):
        estimate_phone_lm(sequences)


@pytest.mark.parametrize("settings", [(1, 1, 0), (3, 4, 0), (3, 0, 0), (3, 2, -1)])
def test_bad_options_are_refused(settings: tuple[int, int, int]) -> None:
    with pytest.raises(TrainingError, match="must"):
        PhoneLmOptions(*settings)
