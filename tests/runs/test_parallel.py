"""What processes add up, and an objective over all output nodes."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import nnet3
from nnet3.errors import TrainingError
from nnet3.options import TrainerOptions
from nnet3.training.runs.packing import same
from nnet3.training.runs.parallel import SharedSteps, sum_over_processes
from nnet3.training.runs.process_group import ProcessGroup
from nnet3.training.train.evaluation import evaluate
from nnet3.training.train.minibatch import MatrixTarget, Minibatch, NetworkInput, grid
from nnet3.training.train.objectives import total_stats
from nnet3.training.train.running_state import load_network_state, network_state
from nnet3.training.train.trainer import Trainer
from tests.runs.thread_group import in_threads


def test_numbers_are_summed_each_for_itself_and_exactly() -> None:
    def work(group: ProcessGroup) -> list[float]:
        return sum_over_processes(group, [group.rank, 0.1, 2.0**40 + group.rank])

    assert in_threads(3, work) == [[3.0, pytest.approx(0.3, rel=1e-15), 3 * 2.0**40 + 3]] * 3
    assert sum_over_processes(ProcessGroup(), [3, 0.1]) == [3.0, 0.1]


def test_an_objective_is_the_sum_over_outputs_and_minibatches_in_test_mode() -> None:
    nnet = nnet3.Nnet.from_config(
        """
        input-node name=input dim=1
        component name=dropout type=DropoutComponent dim=1 dropout-proportion=0.9
        component-node name=dropout component=dropout input=input
        output-node name=output input=dropout
        output-node name=other input=input
        """
    )
    indexes = grid(1, range(2))

    def minibatch(*names: str) -> Minibatch:
        x, p = torch.tensor([[1.0], [2.0]]), torch.tensor([[1.0], [3.0]])
        return Minibatch([NetworkInput("input", indexes, x)], [MatrixTarget(name, indexes, p) for name in names])

    stats = total_stats(evaluate(nnet, [minibatch("output"), minibatch("output", "other")]).values())
    assert stats.objective == pytest.approx(2 * 0.1 * 7 + 7)  # what dropout leaves on average, not what it draws
    assert stats.weight == 3 * 4
    assert not nnet.components["dropout"].test_mode


CONFIG = """
input-node name=input dim=3
component name=affine type=AffineComponent input-dim=3 output-dim=2
component name=norm type=BatchNormComponent dim=2
component-node name=affine component=affine input=input
component-node name=norm component=norm input=affine
output-node name=output input=norm
"""


def _network(seed: int) -> nnet3.Nnet:
    """With statistics."""
    nnet = nnet3.Nnet.from_config(CONFIG, seed=seed)
    norm: Any = nnet.components["norm"]
    x = torch.randn(20, 2, generator=torch.Generator().manual_seed(seed)) * (seed + 2)
    y, memo = norm.propagate(x)
    norm.store_stats(x, y, memo)
    return nnet


def _tested(nnet: nnet3.Nnet) -> torch.Tensor:
    return nnet.compute(torch.arange(12.0).reshape(4, 3))


def test_all_comes_back_and_is_a_copy() -> None:
    first, second = _network(1), _network(2)
    expected, parameters = _tested(first), second.flat_parameters()[0]
    assert not torch.equal(_tested(second), expected)
    state = network_state(first)
    kept = network_state(first)
    load_network_state(second, state)
    assert torch.equal(_tested(second), expected)
    assert second.flat_parameters()[0] is parameters
    assert same(network_state(second), state)
    second.scale_(0.5)
    second.zero_stats()
    assert same(network_state(first), kept)
    assert same(state, kept)


@pytest.mark.parametrize(
    ("config", "what"),
    [
        (CONFIG.replace("affine", "affine2"), "affine"),
        (CONFIG.replace("output-dim=2", "output-dim=4").replace("dim=2", "dim=4"), "affine.bias_params"),
    ],
)
def test_another_network_is_refused_and_stays_as_it_was(config: str, what: str) -> None:
    other = nnet3.Nnet.from_config(config)
    before = network_state(other)
    with pytest.raises(TrainingError, match=f"of another network: it differs in parameters '{what}"):
        load_network_state(other, network_state(_network(1)))
    assert same(network_state(other), before)


def test_other_statistics_are_refused() -> None:
    config = CONFIG.replace("type=BatchNormComponent", "type=NoOpComponent")
    with pytest.raises(TrainingError, match="of another network: it differs in statistics"):
        load_network_state(nnet3.Nnet.from_config(config), network_state(_network(1)))


NNET = nnet3.Nnet.from_config(
    """
    input-node name=input dim=3
    component name=affine type=AffineComponent input-dim=3 output-dim=2
    component name=norm type=BatchNormComponent dim=2
    component-node name=affine component=affine input=input
    component-node name=norm component=norm input=affine
    output-node name=output input=norm objective=quadratic
    """,
    seed=1,
)
SIZE = 4  # sequences of the minibatch that processes have together
T = 5
OPTIONS = TrainerOptions(momentum=0.5, max_param_change=0.05, batchnorm_stats_scale=0.5)


def _minibatch(seed: int, share: slice) -> Minibatch:
    """Some sequences of one of `SIZE`."""
    generator = torch.Generator().manual_seed(seed)
    x, p = (torch.randn(SIZE, T, columns, generator=generator)[share] for columns in (3, 2))
    indexes = grid(len(x), range(T))
    rows = [each.reshape(len(indexes), -1) for each in (x, p)]
    return Minibatch([NetworkInput("input", indexes, rows[0])], [MatrixTarget("output", indexes, rows[1])])


def _steps(group: ProcessGroup) -> SharedSteps:
    nnet = NNET.copy()
    return SharedSteps(Trainer(nnet, OPTIONS, reduction=group if group.size > 1 else None))


def test_processes_take_the_steps_of_one_on_all_rows() -> None:
    def work(group: ProcessGroup) -> tuple[dict[str, object], list[float]]:
        steps, own = _steps(group), SIZE // group.size
        share, weights = slice(own * group.rank, own * (group.rank + 1)), []
        for seed in range(3):
            weights.append(steps.train_minibatch(_minibatch(seed, share), 0.1).total.weight)
            steps.after_minibatch(seed + 1)
            assert steps.models_agree
        steps.finish()
        return steps.state()["network"], steps.sum_of(tuple(weights))

    alone, first, second = work(ProcessGroup()), *in_threads(2, work)
    assert not isinstance(first, Exception), first
    assert not isinstance(second, Exception), second
    assert alone[1] == first[1] == second[1] == [SIZE * T * 1.0] * 3
    assert same(first, second)
    for part in ("parameters", "statistics"):
        torch.testing.assert_close(first[0][part], alone[0][part], rtol=1e-5, atol=1e-6)


def test_a_state_goes_on_to_the_same_bits_and_is_a_copy() -> None:
    first, second = _steps(ProcessGroup()), _steps(ProcessGroup())
    first.train_minibatch(_minibatch(0, slice(None)), 0.1)
    state = first.state()
    first.train_minibatch(_minibatch(1, slice(None)), 0.1)
    second.load_state(state)
    assert same(second.state(), state)
    second.train_minibatch(_minibatch(1, slice(None)), 0.1)
    assert same(second.state(), first.state())
    assert not same(second.state(), state)
