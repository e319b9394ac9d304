"""The objective: worked numbers, Kaldi's, finite differences, what happens when it cannot be computed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from nnet3.chain import ChainOptions, Denominator, Supervision, chain_value
from nnet3.chain.supervision import concatenate
from nnet3.errors import TrainingError
from tests.chain.chain_data import (
    SCORES,
    distance,
    fst_of,
    golden_graph,
    golden_minibatches,
    random_acceptor,
    random_cyclic_acceptor,
    random_graph,
    small_graph,
    supervision_of,
)
from tests.shared_data import golden_cases

INF = np.inf
LINEAR = fst_of([(0, 1, 1, 4.0593629), (1, 2, 1, 0.0), (2, 3, 3, 0.0), (3, 4, 2, 0.0)], [INF] * 4 + [0.0])


def test_worked_numbers() -> None:
    denominator = Denominator(small_graph(), 0.1)
    value = chain_value(SCORES, supervision_of([LINEAR], 4, 3), denominator, ChainOptions())
    assert (value.num_log_prob, value.den_log_prob) == pytest.approx((-6.4593629, 1.4006445), abs=1e-6)
    assert (value.objective, value.weight, value.l2_term) == pytest.approx((-7.8600074, 4, 0), abs=1e-6)
    half = chain_value(
        SCORES,
        supervision_of([LINEAR], 4, 3, weight=0.5),
        denominator,
        ChainOptions(l2_regularize=0.01),
        with_posteriors=True,
    )
    assert (half.objective, half.weight, half.l2_term) == pytest.approx((-3.9300037, 2, -0.0225), abs=1e-6)
    assert value.deriv is not None
    assert half.deriv is not None
    assert half.posteriors is not None
    torch.testing.assert_close(half.deriv, 0.5 * value.deriv - 0.005 * SCORES)
    assert half.posteriors.nonzero().tolist() == [[0, 0], [1, 0], [2, 2], [3, 1]]
    assert set(half.posteriors.unique().tolist()) == {0.0, 0.5}


@pytest.mark.parametrize("path", golden_cases("chain", "objf.json"), ids=lambda path: path.name)
def test_golden_objectives(path: Path) -> None:
    graph = golden_graph(path)
    compared = 0
    for case in golden_minibatches(path):
        supervision, output, said = case.target.supervision, case.arrays["output"], case.numbers
        denominator, bound = Denominator(graph, case.leak), 1e-4 if supervision.end_to_end else 1e-5
        value = chain_value(output, supervision, denominator, ChainOptions(), with_posteriors=True)
        per_frame = 1e-5 * supervision.num_frames
        assert value.weight == pytest.approx(said["weight"])
        assert value.objective == pytest.approx(said["objf"], abs=per_frame)
        assert value.num_log_prob * supervision.weight == pytest.approx(said["num_logprob"], abs=per_frame)
        assert value.den_log_prob == pytest.approx(said["den_logprob"], abs=per_frame)
        assert value.deriv is not None
        assert value.posteriors is not None
        assert distance(value.deriv, case.arrays["deriv"]) < bound
        assert distance(value.posteriors, case.arrays["posterior"]) < bound
        xent = float((value.posteriors.double() * case.arrays["output-xent"]).sum())
        assert xent == pytest.approx(said["xent_objf"], rel=1e-5)
        little = Denominator(graph, 1e-5).forward_backward(output, supervision.num_sequences, with_posteriors=False)
        assert float(little.log_probs.sum()) == pytest.approx(said["den_logprob_leaky_1e-5"], abs=per_frame)
        with_l2 = chain_value(output, supervision, denominator, ChainOptions(l2_regularize=case.l2))
        assert with_l2.l2_term == pytest.approx(said["l2_term"], rel=1e-5)
        if compared == 0:
            assert with_l2.deriv is not None
            assert distance(with_l2.deriv, case.arrays["deriv_l2"]) < bound
            for pull, name in ((False, "clamp_deriv"), (True, "clamp_deriv_penalty")):
                beyond = chain_value(
                    case.arrays["clamp_output"], supervision, denominator, ChainOptions(), pull_into_range=pull
                )
                assert beyond.objective == pytest.approx(said["clamp_objf"], abs=per_frame)
                assert beyond.deriv is not None
                assert distance(beyond.deriv, case.arrays[name]) < bound
        compared += 1
    assert compared >= 2


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("end_to_end", [False, True])
def test_derivative_by_finite_differences(seed: int, end_to_end: bool) -> None:
    graph = random_graph(seed, num_states=4, num_pdfs=3, num_arcs=12)
    fsts = [random_cyclic_acceptor(s, 3) if end_to_end else random_acceptor(s, 3, 3) for s in (seed, seed + 50)]
    merged = tuple(fsts) if end_to_end else (concatenate(fsts),)
    supervision = Supervision(0.7, 2, 3, 3, merged, end_to_end)
    denominator, options = Denominator(graph, 0.1), ChainOptions(l2_regularize=0.1)
    y = torch.randn(6, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    value = chain_value(y, supervision, denominator, options)
    assert value.deriv is not None
    step = 1e-6
    for place in range(18):
        moved = []
        for sign in (1, -1):
            changed = y.clone()
            changed.view(-1)[place] += sign * step
            there = chain_value(changed, supervision, denominator, options, with_deriv=False)
            moved.append(there.objective + there.l2_term)
        assert float(value.deriv.view(-1)[place]) == pytest.approx((moved[0] - moved[1]) / (2 * step), abs=1e-7)


@pytest.mark.parametrize("end_to_end", [False, True])
def test_failure(end_to_end: bool) -> None:
    """An output that is NaN: -10 per frame, no derivative but that of the l2 term (if the numerator is fine)."""
    supervision = supervision_of([LINEAR], 4, 3, weight=0.5, end_to_end=end_to_end)
    y = SCORES.clone()
    y[0, 1] = torch.nan  # not in the numerator
    options = ChainOptions(l2_regularize=0.01)
    value = chain_value(y, supervision, Denominator(small_graph(), 0.1), options, with_posteriors=True)
    assert value.failed
    assert (value.objective, value.weight) == (-20.0, 2.0)
    assert value.deriv is not None
    assert value.posteriors is not None
    torch.testing.assert_close(value.deriv[1:], -0.005 * SCORES[1:])
    assert not value.posteriors.any()


def test_an_infinite_numerator_is_a_failure_without_an_l2_term() -> None:
    supervision = supervision_of([fst_of([(0, 1, 1, 0.0)], [INF, 0.0])], 4, 3, end_to_end=True)
    value = chain_value(SCORES, supervision, Denominator(small_graph(), 0.1), ChainOptions(l2_regularize=0.01))
    assert value.failed
    assert (value.objective, value.l2_term) == (-40.0, 0.0)
    assert value.deriv is not None
    assert not value.deriv.any()


def test_defaults_are_those_of_kaldi() -> None:
    assert ChainOptions() == ChainOptions(
        l2_regularize=0.0, out_of_range_regularize=0.01, xent_regularize=0.0, lwf_den_scale=0.0
    )
    value = chain_value(SCORES + 40, supervision_of([LINEAR], 4, 3), Denominator(small_graph(), 0.1), ChainOptions())
    assert value.posteriors is None
    assert value.deriv is not None
    assert abs(float(value.deriv.sum())) < 1e-4  # not pulled back into range


def test_more_of_the_denominator_end_to_end() -> None:
    denominator = Denominator(small_graph(), 0.1)
    plain, more = (
        chain_value(SCORES, supervision_of([LINEAR], 4, 3), denominator, ChainOptions(lwf_den_scale=scale)).deriv
        for scale in (0.0, 1.0)
    )
    torch.testing.assert_close(plain, more, rtol=0, atol=0)  # not of others
    derivs = [
        chain_value(
            SCORES, supervision_of([LINEAR], 4, 3, end_to_end=True), denominator, ChainOptions(lwf_den_scale=scale)
        ).deriv
        for scale in (0.0, 1.0)
    ]
    assert derivs[0] is not None
    assert derivs[1] is not None
    gamma = denominator.forward_backward(SCORES, 1).posteriors
    assert gamma is not None
    torch.testing.assert_close(derivs[0] - derivs[1], gamma.reshape(4, 3))


@pytest.mark.parametrize("shape", [(4, 4), (3, 3), (8, 3)])
def test_sizes_that_do_not_fit(shape: tuple[int, int]) -> None:
    with pytest.raises(TrainingError, match="supervision is for 4 x 3"):
        chain_value(torch.zeros(shape), supervision_of([LINEAR], 4, 3), Denominator(small_graph(), 0.1), ChainOptions())


@pytest.mark.parametrize("value", [-1.0, INF, float("nan")])
def test_options_must_be_numbers_from_0_on(value: float) -> None:
    with pytest.raises(TrainingError, match=r"l2_regularize must be (a finite number|>= 0)"):
        ChainOptions(l2_regularize=value)
