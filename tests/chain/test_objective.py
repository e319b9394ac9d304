"""The objective as the trainer sees it."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import nnet3
from nnet3.chain import ChainObjective, ChainOptions, ChainTarget, Denominator, chain_value
from nnet3.components import RandomSource
from nnet3.errors import TrainingError
from nnet3.train import MatrixTarget
from tests.chain.chain_data import (
    TARGET,
    WEIGHTS,
    fst_of,
    indexes,
    random_cyclic_acceptor,
    random_graph,
    small_graph,
    supervision_of,
)

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


def test_other_targets() -> None:
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
    made = objective.with_second_output(nnet)
    assert made.outputs(TARGET) == (("output", "output-xent") if name == "output-xent" else ("output",))
    assert made.denominator is objective.denominator
