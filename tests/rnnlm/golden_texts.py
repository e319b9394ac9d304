"""Words, sentences and probabilities of the golden cases of RNNLMs."""

from __future__ import annotations

from pathlib import Path

from nnet3.training.rnnlm.sentences import Sentences, parse_sentences
from tests.rescoring_data import RNNLM_CASES

SAMPLED = [case for case in RNNLM_CASES if (case / "sampling.lm").exists()]
WITH_FEATURES = [case for case in RNNLM_CASES if (case / "features.txt").exists()]


def names(case: Path) -> dict[int, str]:
    """Returns the words of a case by number."""
    lines = [line.split() for line in (case / "words.txt").read_text().splitlines()]
    return {int(number): word for word, number in sorted(lines, key=lambda pair: int(pair[1]))}


def sentences(case: Path) -> Sentences:
    """Returns the sentences of train.txt."""
    return parse_sentences((case / "train.txt").read_bytes(), "train.txt")
