"""Verbs that rescore lattices: their scales, and which histories are one."""

from __future__ import annotations

import pytest

from tests.cli.check_options import check_options


@pytest.mark.parametrize("model", ["", "-const-arpa", "-kaldi-rnnlm"])
def test_costs_are_added_once(model: str) -> None:
    check_options(f"lattice-lmrescore{model}", {"--lm-scale": (1.0, None)})


def test_of_histories_the_last_words_count() -> None:
    for verb in ("lattice-lmrescore-kaldi-rnnlm", "lattice-lmrescore-kaldi-rnnlm-pruned"):
        check_options(verb, {"--max-ngram-order": (3, None)})


@pytest.mark.parametrize(("verb", "lm", "acoustic"), [("-kaldi-rnnlm", 0.5, 0.1), ("", 1.0, 1.0)])
def test_pruned_composition_compares_paths_by_scaled_costs(verb: str, lm: float, acoustic: float) -> None:
    scales = {"--lm-scale": (lm, None), "--acoustic-scale": (acoustic, None)}
    limits = {"--lattice-compose-beam": (6.0, None), "--max-arcs": (100000, 1), "--growth-ratio": (1.5, None)}
    check_options(f"lattice-lmrescore{verb}-pruned", scales | limits)
