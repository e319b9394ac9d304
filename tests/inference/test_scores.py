"""Scores: priors, scales, probabilities, and what is not finite."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from nnet3.errors import NetworkError, NumericalError
from nnet3.inference import scores as module
from nnet3.inference.scores import Scoring, log_priors


def _model(*priors: float) -> Any:
    return SimpleNamespace(priors=torch.tensor(priors))


def test_log_priors_are_none_without_priors() -> None:
    assert log_priors(_model()) is None
    found = log_priors(_model(0.5, 0.25))
    assert found is not None
    torch.testing.assert_close(found.exp(), torch.tensor([0.5, 0.25]))


@pytest.mark.parametrize(
    ("priors", "message"),
    [
        ((0.5, 0.0, 0.5), r"the prior of pdf 1 is 0, which makes"),
        ((0.5, 0.0, 0.5, 0.0, 0.0), r"the prior of pdf 1 \(and of 2 others\) is 0, which makes"),
    ],
)
def test_priors_of_zero_are_refused(priors: tuple[float, ...], message: str) -> None:
    with pytest.raises(NetworkError, match=message):
        log_priors(_model(*priors))


def test_the_order_of_what_is_done() -> None:
    """Priors first, then the scale, then the exponential; the outputs stay as they were."""
    outputs = torch.tensor([[1.0, 2.0]])
    scoring = Scoring(torch.tensor([0.5, 1.0], dtype=torch.float64), scale=0.5, exponentiate=True)
    torch.testing.assert_close(scoring.apply(outputs), torch.tensor([[0.25, 0.5]]).exp())
    assert outputs.tolist() == [[1.0, 2.0]]
    assert Scoring().apply(outputs) is outputs


def test_the_first_place_that_is_not_finite(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_ROWS_AT_ONCE", 3)
    outputs = torch.zeros(7, 2)
    assert Scoring().apply(outputs) is outputs
    for row in (6, 5, 3, 2, 0):
        outputs[row, 1] = torch.nan
        with pytest.raises(NumericalError, match=f"not finite, first in row {row}, column 1$"):
            Scoring().apply(outputs)
    with pytest.raises(NumericalError, match=r"first in row 1, column 0 after exp: is the output a log-probability\?"):
        Scoring(exponentiate=True).apply(torch.tensor([[1.0], [1000.0]]))
