"""Sampling LMs in the ARPA format: the lines that Kaldi writes, and models of such files."""

from __future__ import annotations

from pathlib import Path

import pytest

from nnet3.base.options.rnnlm import SamplingLmOptions
from nnet3.errors import ModelFormatError
from nnet3.training.rnnlm.sampling_lm_arpa import arpa_lines, from_arpa, probability
from nnet3.training.rnnlm.sampling_lm_estimate import estimate_sampling_lm
from tests.rescoring_data import needs_rescoring
from tests.rnnlm.golden_texts import SAMPLED, names, sentences

OPTIONS = SamplingLmOptions(unigram_factor=20, bos_factor=2)  # those of both cases


@needs_rescoring
@pytest.mark.parametrize("case", SAMPLED, ids=lambda case: case.name)
def test_arpa_files_have_kaldis_lines(case: Path) -> None:
    found = estimate_sampling_lm(sentences(case), max(names(case)) + 1, 1, 2, OPTIONS, for_arpa=True)
    ours = list(arpa_lines(found, names(case), 1))
    theirs = (case / "sampling.arpa").read_text().splitlines()
    assert sorted(line.replace("-0.000", "0.000") for line in ours) == sorted(
        line.replace("-0.000", "0.000") for line in theirs
    )


def test_models_of_arpa_files_have_their_probabilities(caplog: pytest.LogCaptureFixture) -> None:
    labels = {"<s>": 1, "</s>": 2, "a": 3, "b": 4}
    log10 = {("</s>",): -0.5, ("a",): -0.4, ("b",): -0.7, ("<s>",): -99.0, ("a", "b"): -0.2, ("<s>", "a"): -0.1}
    log10 |= {("<s>", "a", "b"): -0.05}
    back_off = {("<s>",): -0.3, ("a",): -0.6, ("<s>", "a"): -0.2}
    lm = from_arpa(log10, back_off, labels, "lm.arpa")
    assert (lm.order, len(lm.unigrams)) == (3, 5)
    for ngram, value in log10.items():
        *history, word = (labels[each] for each in ngram)
        assert probability(lm, tuple(history), word) == pytest.approx(10**value)
    assert probability(lm, (1, 3), 2) == pytest.approx(10 ** (-0.2 - 0.6 - 0.5))
    assert not caplog.records
    from_arpa(log10 | {("b", "a"): -3.0}, back_off, labels, "lm.arpa")
    assert "back-off alone gives an n-gram" in caplog.text
    with pytest.raises(ModelFormatError, match=r"lm\.arpa: the word 'c' has no number"):
        from_arpa({("c",): -1.0}, {}, labels, "lm.arpa")
