"""The objective as the trainer sees it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

import nnet3
from nnet3.chain import ChainObjective, ChainOptions, ChainTarget, Denominator, Supervision, chain_value
from nnet3.components import RandomSource
from nnet3.errors import TrainingError
from nnet3.train import MatrixTarget
from nnet3.training.chain.supervision import concatenate
from tests.chain.chain_data import (
    SCORES,
    TARGET,
    WEIGHTS,
    distance,
    fst_of,
    golden_graph,
    golden_minibatches,
    indexes,
    random_acceptor,
    random_cyclic_acceptor,
    random_graph,
    small_graph,
    supervision_of,
)
from tests.shared_data import golden_cases

INF = np.inf
LINEAR = fst_of([(0, 1, 1, 4.0593629), (1, 2, 1, 0.0), (2, 3, 3, 0.0), (3, 4, 2, 0.0)], [INF] * 4 + [0.0])


def test_a_worked_example_has_its_value() -> None:
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
def test_golden_objectives_are_computed_again(path: Path) -> None:
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
def test_a_failed_minibatch_has_no_derivative_but_that_of_the_l2_term(end_to_end: bool) -> None:
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


DENOMINATOR = Denominator(random_graph(1), 0.1)
Y, XENT = torch.randn(2, 4, 5, generator=torch.Generator().manual_seed(0)).unbind()


def test_main_and_second_output() -> None:
    options = ChainOptions(l2_regularize=0.1, xent_regularize=0.2)
    objective = ChainObjective(DENOMINATOR, options)
    assert objective.outputs(TARGET) == ("output", "output-xent")
    results = objective.evaluate(TARGET, [Y, XENT], rng=RandomSource(0), with_derivs=True)
    value = chain_value(Y, TARGET.supervision, DENOMINATOR, options, with_posteriors=True)
    main, xent = results
    assert (main.stats.objective, main.stats.auxiliary, main.stats.weight) == (value.objective, value.l2_term, 2.0)
    assert value.deriv is not None
    assert value.posteriors is not None
    rows = torch.from_numpy(WEIGHTS).unsqueeze(1)
    torch.testing.assert_close(main.deriv, value.deriv * rows)
    assert (xent.name, xent.stats.weight, xent.stats.auxiliary) == ("output-xent", 2.0, 0.0)
    assert xent.stats.objective == pytest.approx(float((XENT * value.posteriors).sum()))
    torch.testing.assert_close(xent.deriv, 0.2 * value.posteriors * rows)


def test_without_deriv_weights_and_second_output() -> None:
    objective = ChainObjective(DENOMINATOR, apply_deriv_weights=False)
    assert objective.outputs(TARGET) == ("output",)
    (result,) = objective.evaluate(TARGET, [Y], rng=RandomSource(0), with_derivs=True)
    value = chain_value(Y, TARGET.supervision, DENOMINATOR, ChainOptions())
    torch.testing.assert_close(result.deriv, value.deriv)
    (result,) = objective.evaluate(TARGET, [Y], rng=RandomSource(0), with_derivs=False)
    assert result.deriv is None
    assert result.stats.objective == pytest.approx(value.objective)


def test_the_pull_into_range_is_drawn() -> None:
    objective = ChainObjective(DENOMINATOR, ChainOptions(out_of_range_regularize=0.5), apply_deriv_weights=False)
    rng, pulled = RandomSource(3), []
    for _ in range(100):
        (result,) = objective.evaluate(TARGET, [Y * 0 + 40.0], rng=rng, with_derivs=True)
        assert result.deriv is not None
        pulled.append(float(result.deriv.sum()) < -100)
    assert 30 < sum(pulled) < 70


def test_end_to_end_the_numerator_is_not_weighted_in_what_is_reported() -> None:
    supervision = supervision_of([random_cyclic_acceptor(2, 5)], 4, 5, end_to_end=True, weight=0.5)
    (result,) = ChainObjective(DENOMINATOR).evaluate(
        ChainTarget("output", indexes(1, 4), supervision), [Y], rng=RandomSource(0), with_derivs=False
    )
    value = chain_value(Y, supervision, DENOMINATOR, ChainOptions())
    assert result.stats.objective == pytest.approx(value.num_log_prob - 0.5 * value.den_log_prob)
    (failed,) = ChainObjective(DENOMINATOR).evaluate(
        ChainTarget("output", indexes(1, 4), supervision), [Y * torch.nan], rng=RandomSource(0), with_derivs=False
    )
    assert failed.stats.objective == -10 * 0.5 * 4


def test_without_derivatives_nothing_is_drawn() -> None:
    objective, rng = ChainObjective(DENOMINATOR, ChainOptions(xent_regularize=0.2)), RandomSource(0)
    results = objective.evaluate(TARGET, [Y, XENT], rng=rng, with_derivs=False)
    assert [result.deriv for result in results] == [None, None]
    assert rng.uniform() == RandomSource(0).uniform()


def test_other_targets_are_refused() -> None:
    target = MatrixTarget("output", indexes(1, 4), Y)
    with pytest.raises(TrainingError, match="supervision of sequences, got a MatrixTarget"):
        ChainObjective(DENOMINATOR).evaluate(target, [Y], rng=RandomSource(0), with_derivs=False)


def test_a_graph_of_other_examples_is_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    linear = fst_of([(0, 1, 3, 0.0), (1, 2, 3, 0.0)], [np.inf, np.inf, 0.0])  # not a sequence of the small graph
    objective, target = ChainObjective(Denominator(small_graph(), 0.1)), supervision_of([linear], 2, 3)
    for _ in range(2):
        objective.evaluate(
            ChainTarget("output", indexes(1, 2), target), [Y[:2, :3]], rng=RandomSource(0), with_derivs=True
        )
    assert caplog.text.count("the denominator graph has none of the label sequences of an example") == 1


_NODES = "input-node name=input dim=3\noutput-node name=output input=input\n"


@pytest.mark.parametrize("name", ["output-xent", "other-xent"])
def test_it_is_looked_at_where_the_network_has_it(name: str) -> None:
    nnet = nnet3.Nnet.from_config(f"{_NODES}output-node name={name} input=input\n")
    objective = ChainObjective(Denominator(small_graph(), 0.1), ChainOptions(xent_regularize=0.0))
    made = objective.with_second_outputs(nnet)
    assert made.outputs(TARGET) == (("output", "output-xent") if name == "output-xent" else ("output",))
    assert made.denominator is objective.denominator
