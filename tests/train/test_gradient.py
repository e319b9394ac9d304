"""Processes that share each minibatch do together what one does with all of it."""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from torch import Tensor

import nnet3
from nnet3.errors import TrainingError
from nnet3.model.components.natural_gradient import OnlineNaturalGradient
from nnet3.model.components.row_sums import summed_by
from nnet3.model.nnet import Nnet
from nnet3.train import MatrixTarget, Minibatch, NetworkInput, OutputResult, StepResult, Trainer, TrainerOptions
from nnet3.training.runs.process_group import ProcessGroup
from nnet3.training.train.gradient import digest_of_sums
from nnet3.training.train.minibatch import Target, grid
from nnet3.training.train.objectives import ObjectiveByNode
from tests.effort import EFFORT, at_night
from tests.networks.network_of_type import SAMPLES, network_of_type, request_of_type
from tests.runs.thread_group import in_threads
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

    def work(group: ProcessGroup) -> list[StepResult]:
        own = Trainer(nets[group.rank], options, reduction=group)
        return [own.train_minibatch(data(n, *((0, 3), (3, 5))[group.rank]), 0.02) for n in range(6)]

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

    def work(group: ProcessGroup) -> list[str | None]:
        own = Trainer(nets[group.rank], TrainerOptions(momentum=0.5), reduction=group)
        reasons = []
        for number in range(3):
            minibatch = data(number, *((0, 3), (3, 5))[group.rank])
            if number == 1 and group.rank == 1:
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

    def work(group: ProcessGroup) -> Sequence[Tensor]:
        nnet = Nnet.from_config(config)
        looking = Looking(nnet)
        trainer = Trainer(nnet, TrainerOptions(seed=1), looking, reduction=group)
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


#: Sequences of each process, minibatch by minibatch: more and fewer rows than columns, ranks and sides of matrices.
UNEQUAL = [(7, 1), (1, 9), (2, 2), (1, 1), (25, 13), (13, 27), (39, 1), (1, 40), (40, 40), (41, 3), (2, 81)]
WIDE = """
input-node name=input dim=5
component name=one type=NaturalGradientAffineComponent input-dim=5 output-dim=40 max-change=0.5
component-node name=one component=one input=input
component name=relu type=RectifiedLinearComponent dim=40
component-node name=relu component=relu input=one
component name=norm type=BatchNormComponent dim=40
component-node name=norm component=norm input=relu
component name=narrow type=TdnnComponent input-dim=40 output-dim=10 time-offsets=0 orthonormal-constraint=-1
component-node name=narrow component=narrow input=norm
component name=two type=TdnnComponent input-dim=10 output-dim=40 time-offsets=0 l2-regularize=0.01
component-node name=two component=two input=narrow
component name=last type=LinearComponent input-dim=40 output-dim=3
component-node name=last component=last input=two
output-node name=output input=last objective=quadratic
"""
#: Statistics of minibatches that are drawn at random, by each process others.
_DRAWN = ("self_repaired", "oderiv", "num_dims", "value_sum", "deriv_sum", "count", "repair", "_stats")
STEPS = TrainerOptions(momentum=0.5, max_param_change=0.3)


def _wide(seed: int = 1) -> Nnet:
    return Nnet.from_config(WIDE, seed=seed).to(dtype=torch.float64)


def _minibatch(first: Any, last: Any, seed: int) -> Minibatch:
    """Rows for the indexes of an input and an output (each with its columns); sequences are told apart by their n."""
    rows = []
    for number, (_, indexes, columns) in enumerate((first, last)):
        generator = torch.Generator().manual_seed(2 * seed + number)
        sequences = torch.randn(100, 8, 2, columns, generator=generator, dtype=torch.float64)
        n, t, x = torch.as_tensor(indexes, dtype=torch.long).T
        rows.append(sequences[n, t, x])
    return Minibatch([NetworkInput(*first[:2], rows[0])], [MatrixTarget(*last[:2], rows[1])])


def _part(whole: Minibatch, begin: int, end: int) -> Minibatch:
    """The sequences from `begin` to `end`."""

    def cut(io: Any) -> tuple[Any, torch.Tensor]:
        chosen = (io.indexes[:, 0] >= begin) & (io.indexes[:, 0] < end)
        return io.indexes[chosen] - [begin, 0, 0], io.matrix[torch.from_numpy(chosen)]

    inputs = [NetworkInput(io.name, *cut(io)) for io in whole.inputs]
    return Minibatch(inputs, [MatrixTarget(target.name, *cut(target)) for target in whole.targets])


def _divided(whole: Minibatch, parts: Sequence[int], rank: int) -> Minibatch:
    return _part(whole, sum(parts[:rank]), sum(parts[: rank + 1]))


def _check_together_as_alone(start: Nnet, wholes: Sequence[Minibatch], parts: Sequence[Sequence[int]]) -> None:
    alone = start.copy()
    trainer = Trainer(alone, STEPS)
    for whole in wholes:
        trainer.train_minibatch(whole, 0.05)

    def work(group: ProcessGroup) -> dict[str, torch.Tensor]:
        own = start.copy()
        trainer = Trainer(own, STEPS, reduction=group)
        for whole, sizes in zip(wholes, parts, strict=True):
            assert trainer.train_minibatch(_divided(whole, sizes, group.rank), 0.05).skipped is None
        return everything(own)

    before, wanted = everything(start), everything(alone)
    results = in_threads(len(parts[0]), work)
    for found in results:
        assert not isinstance(found, Exception), results
        for name, tensor in wanted.items():
            if any(word in name for word in _DRAWN):
                continue
            change = float((tensor - before[name]).norm())
            assert float((found[name] - tensor).norm()) <= 1e-5 * change + 1e-10, name


def _frames(sequences: int, seed: int) -> Minibatch:
    indexes = grid(sequences, range(1))
    return _minibatch(("input", indexes, 5), ("output", indexes, 3), seed)


@pytest.mark.parametrize("order", [1, *at_night(-1)])
def test_rows_on_both_sides_of_each_threshold(order: int) -> None:
    """Each row is a sequence: 40 are as many as the longer side of a matrix, 20 as a rank, 1 as fewer than any."""
    parts = [sizes[::order] for sizes in UNEQUAL]
    wholes = [_frames(sum(sizes), seed) for seed, sizes in enumerate(parts)]
    _check_together_as_alone(_wide(), wholes, parts)


def test_three_processes_give_the_gradient_of_one() -> None:
    parts = [(1, 2, 60), (30, 20, 10), (1, 1, 1), (45, 1, 1), (13, 13, 14), (14, 13, 14), (1, 39, 41)]
    wholes = [_frames(sum(sizes), seed) for seed, sizes in enumerate(parts)]
    _check_together_as_alone(_wide(), wholes, parts)


@pytest.mark.parametrize("type_name", sorted(SAMPLES))
def test_every_type_of_component(type_name: str) -> None:
    start = network_of_type(type_name)
    for component in start.components.values():
        if type_name != "BatchNormComponent":
            component.set_test_mode(True)
    parts = [(1, 9), (9, 1)] if EFFORT == 1 else [(1, 4), (3, 1), (1, 1), (2, 7), (9, 1)] * min(EFFORT, 3)
    wholes = []
    for seed, sizes in enumerate(parts):
        request = request_of_type(type_name, sum(sizes))
        first, last = request.inputs[0].indexes, request.outputs[0].indexes
        columns = start.node_dim("input"), start.node_dim("output")
        wholes.append(_minibatch(("input", first, columns[0]), ("output", last, columns[1]), seed))
    _check_together_as_alone(start, wholes, parts)


def _two_lengths(nnet: Nnet, lengths: Sequence[int]) -> list[Any]:
    def work(group: ProcessGroup) -> str | None:
        indexes = grid(2, range(lengths[group.rank]))
        part = _minibatch(
            ("input", indexes, nnet.node_dim("input")), ("output", indexes, nnet.node_dim("output")), group.rank
        )
        return Trainer(nnet.copy(), STEPS, reduction=group).train_minibatch(part, 0.05).skipped

    return in_threads(2, work)


def test_parts_that_are_computed_in_other_steps_are_an_error_in_all() -> None:
    """Batch-norm in a recurrence sums once for each time step."""
    nnet = Nnet.from_config(
        """
        input-node name=input dim=2
        component name=affine type=NaturalGradientAffineComponent input-dim=4 output-dim=2
        component-node name=affine component=affine input=Append(input, IfDefined(Offset(norm, -1)))
        component name=norm type=BatchNormComponent dim=2
        component-node name=norm component=norm input=affine
        output-node name=output input=norm objective=quadratic
        """
    ).to(dtype=torch.float64)
    assert _two_lengths(nnet, (3, 3)) == [None, None]
    ends = _two_lengths(nnet, (3, 5))
    assert all(isinstance(end, TrainingError) for end in ends)
    for rank, end in enumerate(ends):
        assert str(end).startswith(f"process {rank} of 2: the processes' parts of this minibatch are of different str")


def test_parts_of_other_lengths_that_are_summed_alike_are_one_minibatch() -> None:
    assert _two_lengths(_wide(), (3, 5)) == [None, None]


def test_outputs_and_components_with_statistics_must_be_the_same() -> None:
    """Those of a network for several tasks, of which each minibatch has one."""
    nnet = Nnet.from_config(
        """
        input-node name=input dim=2
        component name=a type=AffineComponent input-dim=2 output-dim=2
        component-node name=a component=a input=input
        component name=b type=AffineComponent input-dim=2 output-dim=2
        component-node name=b component=b input=input
        output-node name=one input=a
        output-node name=two input=b
        output-node name=three input=a
        """
    )
    digests = set()
    for name in ("one", "two", "three"):
        for sequences in (1, 2, 9):
            indexes = grid(sequences, range(2))
            request = _minibatch(("input", indexes, 2), (name, indexes, 2), 0).request(train=True)
            digests.add((name, digest_of_sums(nnet3.compile(nnet, request), nnet)))
    assert len(digests) == len({digest for _, digest in digests}) == 3
    assert all(digest == int(digest) < 2**53 for _, digest in digests)


def test_the_same_eigenvectors_are_taken_in_all_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where eigenvalues are equal, rounding decides about the vectors; a matrix that all sum mixes those of all."""
    eigh = torch.linalg.eigh

    def work(group: ProcessGroup) -> tuple[OnlineNaturalGradient, torch.Tensor]:
        estimate = OnlineNaturalGradient(4)
        generator = torch.Generator().manual_seed(group.rank)
        monkeypatch.setattr(torch.linalg, "eigh", turned)
        with summed_by(group):
            for _ in range(3):
                x, _ = estimate.precondition(torch.randn(3, 6, generator=generator, dtype=torch.float64))
        return estimate, x

    def turned(z: torch.Tensor) -> Any:
        values, vectors = eigh(z)
        return values, vectors * torch.where(torch.rand(len(values)) < 0.5, -1.0, 1.0)

    (first, _), (second, _) = in_threads(2, work)
    torch.testing.assert_close(first.state().w, second.state().w, rtol=1e-12, atol=1e-12)
    assert torch.equal(first.state().d, second.state().d)


def test_an_estimate_that_meets_nan_stays_in_step() -> None:
    def work(group: ProcessGroup) -> tuple[int, bool]:
        estimate = OnlineNaturalGradient(4)
        with summed_by(group):
            for number in range(3):
                x = torch.ones(3, 6, dtype=torch.float64)
                x[0, 0] = math.nan if number == 1 and group.rank == 1 else 2.0
                estimate.precondition(x)
        return estimate.state().calls, bool(estimate.state().w.isfinite().all())

    assert in_threads(2, work) == [(3, True), (3, True)]
