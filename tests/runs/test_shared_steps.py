"""Steps that processes share: each is one step on all their rows; a state goes on to the same bits."""

from __future__ import annotations

import torch

import nnet3
from nnet3.options import TrainerOptions
from nnet3.runs.packing import same
from nnet3.runs.shared_steps import SharedSteps
from nnet3.runs.world import World
from nnet3.train.minibatch import MatrixTarget, Minibatch, NetworkInput, grid
from nnet3.train.objectives import ObjectiveByNode
from tests.runs.thread_world import in_threads

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


def _steps(world: World) -> SharedSteps:
    nnet = NNET.copy()
    return SharedSteps(nnet, OPTIONS, ObjectiveByNode(nnet), world)


def test_processes_take_the_steps_of_one_on_all_rows() -> None:
    def work(world: World) -> tuple[dict[str, object], list[float]]:
        steps, own = _steps(world), SIZE // world.size
        share, weights = slice(own * world.rank, own * (world.rank + 1)), []
        for seed in range(3):
            weights.append(steps.train_minibatch(_minibatch(seed, share), 0.1).total.weight)
            steps.after_minibatch(seed + 1)
            assert steps.models_agree
        steps.finish()
        return steps.state()["network"], steps.sum_of(tuple(weights))

    alone, first, second = work(World()), *in_threads(2, work)
    assert not isinstance(first, Exception), first
    assert not isinstance(second, Exception), second
    assert alone[1] == first[1] == second[1] == [SIZE * T * 1.0] * 3
    assert same(first, second)
    for part in ("parameters", "statistics"):
        torch.testing.assert_close(first[0][part], alone[0][part], rtol=1e-5, atol=1e-6)


def test_a_state_goes_on_to_the_same_bits_and_is_a_copy() -> None:
    first, second = _steps(World()), _steps(World())
    first.train_minibatch(_minibatch(0, slice(None)), 0.1)
    state = first.state()
    first.train_minibatch(_minibatch(1, slice(None)), 0.1)
    second.load_state(state)
    assert same(second.state(), state)
    second.train_minibatch(_minibatch(1, slice(None)), 0.1)
    assert same(second.state(), first.state())
    assert not same(second.state(), state)
