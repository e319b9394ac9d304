"""RnnlmTrainer does what Kaldi's rnnlm-train did, in each run of the golden data: changes, embeddings, objectives."""

from __future__ import annotations

import re

import numpy as np
import pytest
import torch

from nnet3.kaldi_io import load_matrix
from nnet3.model.components import gru_nonlinearity
from nnet3.model.nnet import load_nnet
from tests.rescoring_data import needs_rescoring
from tests.rnnlm.golden_training import Run, change, runs

FIRST, LATER, LEAST_COSINE = 2e-3, 2e-2, 0.999  # relative to the change
OBJECTIVES = 5e-4  # of printed numbers: 4 digits
_OBJF = re.compile(r"(?:Objf for|Overall objf).*")
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e-\d+)?")


class _RepairsEverySecondTime:
    """Draws as Kaldi did in the case `gru`: the count of 1.raw says that the second step of backstitch repaired."""

    calls = 0

    def uniform(self) -> float:
        self.calls += 1
        return 1.0 if self.calls % 2 else 0.0


@needs_rescoring
@pytest.mark.parametrize("run", runs(), ids=str)
def test_runs_end_where_kaldis_end(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    draws = _RepairsEverySecondTime()
    original = gru_nonlinearity.GruComponent._store_and_repair

    def store_and_repair(self: gru_nonlinearity.GruComponent, *given: torch.Tensor) -> None:
        if run.count == 1:
            self.rng = draws
        original(self, *given)

    monkeypatch.setattr(gru_nonlinearity.GruComponent, "_store_and_repair", store_and_repair)
    nnet, embedding, _, lines = run.trained()
    start, wanted = load_nnet(run.path("read-rnnlm")), load_nnet(run.path("write-rnnlm"))
    most = FIRST if run.count == 1 else LATER
    for name, component in start.components.items():
        if component.parameters():
            _compare(change(nnet, start, name), change(wanted, start, name), most, name)
    if "write-embedding" in run.options:
        first = load_matrix(run.path("read-embedding"))
        _compare(embedding.numpy() - first, load_matrix(run.path("write-embedding")) - first, most, "embedding")
    log = (run.case / f"train_{run.count}.log").read_text()
    found = [line for line in lines if _OBJF.match(line)]
    for ours, theirs in zip(found, _OBJF.findall(log), strict=True):
        assert _NUMBER.sub("N", ours) == _NUMBER.sub("N", theirs)
        numbers = [np.array(_NUMBER.findall(line), float) for line in (ours, theirs)]
        np.testing.assert_allclose(*numbers, rtol=OBJECTIVES, atol=OBJECTIVES, err_msg=f"{ours}\n{theirs}")


def _compare(ours: np.ndarray, theirs: np.ndarray, most: float, what: str) -> None:
    ours, theirs = ours.ravel(), theirs.ravel()
    assert np.linalg.norm(ours - theirs) <= most * np.linalg.norm(theirs), what
    assert ours @ theirs >= LEAST_COSINE * np.linalg.norm(ours) * np.linalg.norm(theirs), what


@needs_rescoring
def test_all_kinds_but_batchnorm_have_runs() -> None:
    assert {run.case.name for run in runs()} == {"backstitch", "fixed", "gru", "lstm", "sampled", "tdnn"}
    assert len(runs()) == 23
