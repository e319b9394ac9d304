"""The denominator: worked numbers, an oracle with dictionaries, finite differences, failures."""

from __future__ import annotations

import logging

import numpy as np
import pytest
import torch

from nnet3.chain import Denominator
from nnet3.errors import TrainingError
from nnet3.training.chain.denominator import _is_wrong
from tests.chain import slow_sums
from tests.chain.chain_data import random_graph, small_graph

Y = torch.tensor([[0.5, -1.0, 0.2], [0.0, 0.0, 0.0], [-0.3, 0.8, 1.1], [1.0, -2.0, 0.5]])


def test_a_worked_example_has_its_log_probs_and_posteriors() -> None:
    result = Denominator(small_graph(), 0.1).forward_backward(Y, 2)
    np.testing.assert_allclose(result.log_probs, [0.7756281, 0.7000552], atol=2e-7)
    assert result.posteriors is not None
    assert not result.failed
    expected = [
        [[0.7854671, 0.0308649, 0.1836680], [0.6605835, 0.1215537, 0.2178628]],
        [[0.2620704, 0.1404976, 0.5974320], [0.7722433, 0.0096436, 0.2181131]],
    ]
    np.testing.assert_allclose(result.posteriors, expected, atol=2e-7)
    little = Denominator(small_graph()).forward_backward(Y, 2, with_posteriors=False)
    np.testing.assert_allclose(little.log_probs, [0.4943416, 0.4142483], atol=2e-7)
    assert little.posteriors is None


def test_worked_numbers_beyond_the_range() -> None:
    y = Y.clone()
    y[1] = torch.tensor([0.0, 0.0, 35.0])
    result = Denominator(small_graph(), 0.1).forward_backward(y, 2)
    assert float(result.log_probs[1]) == pytest.approx(29.1761656, rel=1e-6)
    assert result.posteriors is not None
    np.testing.assert_allclose(result.posteriors[:, 1], [[0, 0, 1], [0.9490477, 0.0268711, 0.0240812]], atol=2e-7)


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_against_the_oracle(seed: int, dtype: torch.dtype) -> None:
    graph = random_graph(seed)
    frames, sequences = 6, 3
    y = 4 * torch.randn(frames * sequences, graph.num_pdfs, generator=torch.Generator().manual_seed(seed), dtype=dtype)
    result = Denominator(graph, 0.05).forward_backward(y, sequences)
    assert result.posteriors is not None
    assert result.posteriors.dtype == dtype
    tolerance = 1e-5 if dtype == torch.float32 else 1e-12
    for s in range(sequences):
        log_prob, gamma = slow_sums.denominator(graph, y[s::sequences].numpy(), 0.05)
        assert float(result.log_probs[s]) == pytest.approx(log_prob, rel=tolerance)
        np.testing.assert_allclose(result.posteriors[:, s], gamma, atol=tolerance)


@pytest.mark.parametrize("seed", range(3))
def test_posteriors_are_the_derivative(seed: int) -> None:
    graph = random_graph(seed, num_states=4, num_pdfs=3, num_arcs=10)
    denominator = Denominator(graph, 0.1)
    y = torch.randn(4, 3, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    result = denominator.forward_backward(y, 2)
    assert result.posteriors is not None
    step = 1e-6
    for row in range(4):
        for column in range(3):
            moved = []
            for sign in (1, -1):
                changed = y.clone()
                changed[row, column] += sign * step
                moved.append(float(denominator.forward_backward(changed, 2, with_posteriors=False).log_probs.sum()))
            difference = (moved[0] - moved[1]) / (2 * step)
            assert float(result.posteriors[row // 2, row % 2, column]) == pytest.approx(difference, abs=1e-7)


def test_a_thousand_frames_stay_in_the_range_of_float32() -> None:
    graph = random_graph(1)
    y = 30 * torch.randn(2000, graph.num_pdfs, generator=torch.Generator().manual_seed(1)).sign()
    result = Denominator(graph, 1e-5).forward_backward(y, 2)
    assert result.posteriors is not None
    assert not result.failed
    np.testing.assert_allclose(result.posteriors.sum(2), 1.0, atol=1e-3)
    exact = Denominator(graph, 1e-5).forward_backward(y.double(), 2, with_posteriors=False)
    np.testing.assert_allclose(result.log_probs, exact.log_probs, rtol=1e-6)


@pytest.mark.parametrize("value", [torch.nan, torch.inf])
def test_nan_is_a_failure_and_infinity_is_out_of_range(value: float, caplog: pytest.LogCaptureFixture) -> None:
    y = Y.clone()
    y[2, 1] = value
    with caplog.at_level(logging.WARNING, logger="nnet3"):
        result = Denominator(small_graph(), 0.1).forward_backward(y, 2)
    assert result.failed == (value != value)
    assert ("denominator" in caplog.text) == result.failed


@pytest.mark.parametrize(
    ("alpha_beta", "gamma", "warns", "is_wrong"),
    [
        *((50.0, 50.0, "", False), (50.09, 50.9, "", False), (49.91, 49.1, "", False)),
        *((50.2, 50.0, "alpha and beta over 50 sequences is 50.2", False), (50.0, 51.5, "posteriors over 50", False)),
        *((47.9, 50.0, "alpha and beta", True), (50.0, 52.1, "posteriors", True), (50.0, np.nan, "posteriors", True)),
    ],
)
def test_sums_that_are_off(
    alpha_beta: float, gamma: float, warns: str, is_wrong: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """By rounding nothing is said; what is a little off is said; by more than two sequences it is a failure."""
    assert _is_wrong(alpha_beta, gamma, 50) == is_wrong
    assert bool(caplog.records) == bool(warns)
    assert warns in caplog.text


@pytest.mark.parametrize("leak", [0.0, 1.0, -1.0, float("nan")])
def test_the_leak_must_be_between_0_and_1(leak: float) -> None:
    with pytest.raises(TrainingError, match="leaky-hmm-coefficient"):
        Denominator(small_graph(), leak)


@pytest.mark.parametrize(
    ("shape", "sequences", "message"),
    [((4, 2), 2, "2 columns"), ((4, 3), 3, "4 rows"), ((4, 3), 0, "of 0 sequences"), ((0, 3), 1, "of 0 rows")],
)
def test_sizes_that_do_not_fit(shape: tuple[int, int], sequences: int, message: str) -> None:
    with pytest.raises(TrainingError, match=message):
        Denominator(small_graph(), 0.1).forward_backward(torch.zeros(shape), sequences)
