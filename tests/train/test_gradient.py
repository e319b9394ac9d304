"""Processes that share each minibatch do together what one does with all of it."""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from torch import Tensor

from nnet3.nnet import Nnet
from nnet3.runs.world import World
from nnet3.train import MatrixTarget, Minibatch, NetworkInput, OutputResult, StepResult, Trainer, TrainerOptions
from nnet3.train.minibatch import Target, grid
from nnet3.train.objectives import ObjectiveByNode
from tests.runs.thread_world import in_threads
from tests.train.networks import everything

CONFIG = """
input-node name=input dim=4
component name=affine type=NaturalGradientAffineComponent input-dim=12 output-dim=10 l2-regularize=0.01 max-change=0.3
component-node name=affine component=affine input=Append(Offset(input, -1), input, Offset(input, 1))
component name=relu type=RectifiedLinearComponent dim=10
component-node name=relu component=relu input=affine
component name=norm type=BatchNormComponent dim=10
component-node name=norm component=norm input=relu
component name=tdnn type=TdnnComponent input-dim=10 output-dim=6 time-offsets=0,1 orthonormal-constraint=-1
component-node name=tdnn component=tdnn input=norm
component name=scale type=NaturalGradientPerElementScaleComponent dim=6
component-node name=scale component=scale input=tdnn
component name=cells type=NaturalGradientAffineComponent input-dim=6 output-dim=16
component-node name=cells component=cells input=scale
dim-range-node name=narrow input-node=tdnn dim-offset=0 dim=4
component name=lstm type=LstmNonlinearityComponent cell-dim=4 self-repair-scale=0.0
component-node name=lstm component=lstm input=Append(cells, narrow)
component name=repeated type=NaturalGradientRepeatedAffineComponent input-dim=8 output-dim=4 num-repeats=2
component-node name=repeated component=repeated input=lstm
output-node name=output input=repeated objective=quadratic
"""
OPTIONS: dict[str, dict[str, Any]] = {
    "momentum": {"momentum": 0.5, "max_param_change": 0.05},
    "backstitch": {"backstitch_training_scale": 0.3},
}


def data(number: int, first: int, last: int) -> Minibatch:
    """Sequences first to last - 1 of minibatch `number`, which has five."""
    generator = torch.Generator().manual_seed(number)
    x = torch.randn(5, 8, 4, generator=generator, dtype=torch.float64)[first:last]
    y = torch.randn(5, 5, 4, generator=generator, dtype=torch.float64)[first:last]
    count = last - first
    return Minibatch(
        [NetworkInput("input", grid(count, range(-1, 7)), x.flatten(0, 1))],
        [MatrixTarget("output", grid(count, range(5)), y.flatten(0, 1))],
    )


def network(seed: int) -> Nnet:
    nnet = Nnet.from_config(CONFIG, seed=seed).to(dtype=torch.float64)
    for component in nnet.components.values():
        component.self_repair_scale = 0.0  # type: ignore[attr-defined]
    return nnet


@pytest.mark.parametrize("kind", OPTIONS)
@pytest.mark.parametrize("seed", [1, 2])
def test_two_are_one(kind: str, seed: int) -> None:
    """Parameters and statistics to 1e-5 (and better), of each other to the bit."""
    options = TrainerOptions(seed=4, **OPTIONS[kind])
    alone = network(seed)
    trainer = Trainer(alone, options)
    results = [trainer.train_minibatch(data(number, 0, 5), 0.02) for number in range(6)]
    nets = [network(seed) for _ in range(2)]

    def work(world: World) -> list[StepResult]:
        own = Trainer(nets[world.rank], options, reduction=world)
        return [own.train_minibatch(data(n, *((0, 3), (3, 5))[world.rank]), 0.02) for n in range(6)]

    shared = in_threads(2, work)
    start, wanted, *found = (everything(net) for net in (network(seed), alone, *nets))
    for name, tensor in wanted.items():
        if "self_repaired" in name or "oderiv" in name or "num_dims" in name or name.startswith("relu"):
            continue  # of a random choice of minibatches, which is another in each process
        assert torch.equal(found[0][name], found[1][name]), name
        change = (tensor - start[name]).norm()
        assert float((found[0][name] - tensor).norm()) <= 1e-5 * float(change) + 1e-12, name
    for one, mine in zip(results, shared[0], strict=True):
        assert mine.total.objective == pytest.approx(one.total.objective, rel=1e-8)
        assert mine.total.weight == one.total.weight == 25.0
    assert any(update.factor < 1 for result in results for update in result.updates)


def test_they_skip_together(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL)
    nets = [network(1) for _ in range(2)]

    def work(world: World) -> list[str | None]:
        own = Trainer(nets[world.rank], TrainerOptions(momentum=0.5), reduction=world)
        reasons = []
        for number in range(3):
            minibatch = data(number, *((0, 3), (3, 5))[world.rank])
            if number == 1 and world.rank == 1:
                minibatch.inputs[0].matrix[0, 0] = math.nan
            reasons.append(own.train_minibatch(minibatch, 0.02).skipped)
        return reasons

    first, second = in_threads(2, work)
    assert first == [None, "another process found something that is not finite", None]
    assert second == [None, "input 'input' is not finite", None]
    found = [everything(net) for net in nets]
    assert all(torch.equal(found[0][name], found[1][name]) for name in found[0] if "params" in name)


def test_no_two_drop_the_same_units() -> None:
    config = "input-node name=input dim=100\ncomponent name=drop type=DropoutComponent dim=100 dropout-proportion=0.5\n"
    config += "component-node name=drop component=drop input=input\noutput-node name=output input=drop\n"
    rows = grid(1, [0])
    minibatch = Minibatch(
        [NetworkInput("input", rows, torch.ones(1, 100))], [MatrixTarget("output", rows, torch.ones(1, 100))]
    )

    class Looking(ObjectiveByNode):
        seen: Sequence[Tensor] = ()

        def evaluate(self, target: Target, outputs: Sequence[Tensor], **settings: Any) -> Sequence[OutputResult]:
            self.seen = [*self.seen, outputs[0].clone(), settings["rng"].uniform_tensor(3, like=outputs[0])]
            return super().evaluate(target, outputs, **settings)

    def work(world: World) -> Sequence[Tensor]:
        nnet = Nnet.from_config(config)
        looking = Looking(nnet)
        trainer = Trainer(nnet, TrainerOptions(seed=1), looking, reduction=world)
        for _ in range(2):
            trainer.train_minibatch(minibatch)
        return looking.seen

    first, second = in_threads(2, work)
    for one, other in zip(first, second, strict=True):
        assert not torch.equal(one, other)
    for seen in (first, second):
        assert not torch.equal(seen[0], seen[2])
        assert not torch.equal(seen[1], seen[3])


def test_without_adding_up_they_differ() -> None:
    """The comparison can fail."""
    nets = [network(1) for _ in range(2)]
    for rank, net in enumerate(nets):
        Trainer(net).train_minibatch(data(0, *((0, 3), (3, 5))[rank]), 0.02)
    found = [everything(net) for net in nets]
    assert not torch.equal(found[0]["affine.linear_params"], found[1]["affine.linear_params"])
