"""Adds the gradient of a minibatch to the delta: forward, objective, backward."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Sequence
from weakref import WeakKeyDictionary

import torch

from nnet3.base.options.compiling import CompileOptions
from nnet3.engine.driver import ComputationCache
from nnet3.engine.ir.commands_kernels import Backprop, Propagate
from nnet3.engine.ir.computation import NnetComputation
from nnet3.engine.ir.kernel import whole_kernel
from nnet3.engine.ir.matrices import is_finite
from nnet3.engine.runtime import NnetComputer
from nnet3.errors import TrainingError
from nnet3.model.components.base import Component
from nnet3.model.components.random_source import RandomSource, SharedNumbers
from nnet3.model.components.row_sums import RowReduction, summed_by
from nnet3.model.nnet import Nnet
from nnet3.training.train.minibatch import Minibatch, MinibatchComputers, naming
from nnet3.training.train.objectives import Objective, ObjectiveStats, OutputResult
from nnet3.training.train.running_state import add_up_statistics, statistics
from nnet3.training.train.trainable import UnusableError

_ANOTHER = "another process found something that is not finite"
_DIGEST_BYTES = 6  # a float64 holds such a number exactly


def bad_data(minibatch: Minibatch) -> str | None:
    """Returns a complaint about the first input or target that is not finite; None if all are."""
    for io in minibatch.inputs:
        if not is_finite(io.matrix):
            return f"input '{io.name}' is not finite"
    for target in minibatch.targets:
        if not target.is_finite:
            return f"the target of output '{target.name}' is not finite"
    return None


def bad_results(results: Sequence[OutputResult]) -> str | None:
    """Returns a complaint about the first objective or derivative that is not finite; None if all are."""
    for result in results:
        if not all(math.isfinite(number) for number in result.stats.numbers()):
            return f"the objective of output '{result.name}' is not finite"
        if result.deriv is not None and not is_finite(result.deriv):
            return f"the derivative of the objective by output '{result.name}' is not finite"
    return None


class Gradient:
    """Adds gradients of minibatches to `delta`; statistics go to `nnet`, or with `stats_in_delta` to `delta`.

    Components draw single numbers from `scalars`, if given.

    With a reduction all processes add the gradient of the minibatch that they share, and raise UnusableError together.
    """

    def __init__(
        self,
        nnet: Nnet,
        delta: Nnet,
        objective: Objective,
        cache: ComputationCache | None,
        reduction: RowReduction | None,
        compile_options: CompileOptions | None,
        *,
        store_stats: bool,
        stats_in_delta: bool = False,
        scalars: SharedNumbers | None = None,
    ) -> None:
        self._scalars = scalars
        self._nnet, self._delta, self._objective, self._reduction = nnet, delta, objective, reduction
        self._computers = MinibatchComputers(
            *(nnet, delta, cache, compile_options), store_stats=store_stats, stats_to=delta if stats_in_delta else nnet
        )
        self._digests = WeakKeyDictionary[NnetComputer, float]()

    def begin(self, minibatch: Minibatch) -> int:
        """Returns the number of sequences in all processes' parts of the minibatch.

        Raises UnusableError in all processes if the data of one are not finite, TrainingError if their parts would be
        computed in different steps.
        """
        complaint, count = bad_data(minibatch), minibatch.num_sequences
        if self._reduction is None:
            if complaint is not None:
                raise UnusableError(complaint)
            return count
        rank, size = self._reduction.rank, self._reduction.size
        numbers = torch.zeros(2 + size, dtype=torch.float64)
        numbers[0], numbers[1], numbers[2 + rank] = complaint is not None, count, self._digest(minibatch)
        self._reduction.sum_([numbers])
        if numbers[0]:
            raise UnusableError(complaint or _ANOTHER)
        if (numbers[2:] != numbers[2]).any():
            raise TrainingError(
                f"process {rank} of {size}: the processes' parts of this minibatch are of different structure, and are "
                "computed in different steps: divide examples that can be merged (those that a run merges are), or "
                "average models instead"
            )
        return int(numbers[1])

    def _agree(self, complaint: str | None) -> None:
        """Raises UnusableError in all processes if one has a complaint."""
        has_complaint = torch.tensor([complaint is not None], dtype=torch.float64)
        if self._reduction is not None:
            self._reduction.sum_([has_complaint])
        if has_complaint:
            raise UnusableError(complaint or _ANOTHER)

    def add(self, minibatch: Minibatch, seed: int, *, delta_is_zero: bool) -> dict[str, ObjectiveStats]:
        """Adds the rate times the gradient to delta; returns the objective's statistics by output.

        Raises UnusableError if an objective or a derivative by an output is not finite. Parameters' gradients are not
        looked at, nor anything else that the minibatch leaves behind.
        """
        rank = 0 if self._reduction is None else self._reduction.rank
        seed += rank * 1_000_000_007  # no two processes drop the same units
        for net in (self._nnet, self._delta):
            net.seed_random(seed, self._scalars)
        if rank != 0 and not delta_is_zero:
            self._delta.scale_(0.0)  # the sum over processes shall have what it began with once
        before = {} if self._reduction is None else {n: s.copy() for n, s in statistics(self._nnet).items()}
        with summed_by(self._reduction), naming(minibatch):
            results = self._forward_backward(minibatch, RandomSource(seed + 1))
        stats: dict[str, ObjectiveStats] = {}
        for result in results:
            stats.setdefault(result.name, ObjectiveStats()).add(result.stats)
        if self._reduction is not None:
            self._reduction.sum_(self._delta.flat_parameters())
            add_up_statistics(self._delta, {}, self._reduction)
            add_up_statistics(self._nnet, before, self._reduction)
            stats = self._add_up(stats)
        return stats

    def _add_up(self, stats: dict[str, ObjectiveStats]) -> dict[str, ObjectiveStats]:
        assert self._reduction is not None
        numbers = torch.tensor([each.numbers() for each in stats.values()], dtype=torch.float64)
        self._reduction.sum_([numbers])
        return {name: ObjectiveStats(*row) for name, row in zip(stats, numbers.tolist(), strict=True)}

    def _forward_backward(self, minibatch: Minibatch, rng: RandomSource) -> Sequence[OutputResult]:
        computer = self._computers.run_forward(minibatch, self._outputs(minibatch))
        results: list[OutputResult] = []
        try:
            for target in minibatch.targets:
                outputs = [computer.get_output(name) for name in self._objective.outputs(target)]
                results += self._objective.evaluate(target, outputs, rng=rng, with_derivs=True)
            self._agree(bad_results(results))
        except BaseException:
            computer.reset()
            raise
        for result in results:
            assert result.deriv is not None, "an objective that gives no derivative"
            computer.accept_input(result.name, result.deriv)
        computer.run()
        for io in minibatch.inputs:
            if io.take_deriv is not None:
                io.take_deriv(computer.get_output(io.name))
        return results

    def _digest(self, minibatch: Minibatch) -> float:
        computer = self._computers.get(minibatch, self._outputs(minibatch))
        if computer not in self._digests:
            self._digests[computer] = digest_of_sums(computer.computation, self._nnet)
        return self._digests[computer]

    def _outputs(self, minibatch: Minibatch) -> list[tuple[str, ...]]:
        return [self._objective.outputs(target) for target in minibatch.targets]


def digest_of_sums(computation: NnetComputation, nnet: Nnet) -> float:
    """Returns a number that is equal for programs whose processes keep in step."""
    parts = [
        *_sums(computation, nnet),
        *sorted(_with_statistics(computation, nnet)),
        *(io.name for io in computation.outputs),
    ]
    digest = hashlib.blake2b(repr(parts).encode(), digest_size=_DIGEST_BYTES).digest()
    return float(int.from_bytes(digest, "big"))


def _sums(computation: NnetComputation, nnet: Nnet) -> Iterator[tuple[str, str, bool]]:
    """Yields the commands that sum over rows: batch-norm's, and updates by natural gradient."""
    for command in computation.commands:
        if isinstance(command, Propagate | Backprop):
            name = computation.kernels[command.kernel].name
            if name in nnet.components and _sums_over_rows(nnet.components[name], command):
                yield type(command).__name__, name, isinstance(command, Backprop) and command.update


def _sums_over_rows(component: Component, command: Propagate | Backprop) -> bool:
    leaves = [leaf for _, leaf in component.leaves()]
    is_update = isinstance(command, Backprop) and command.update
    return any(leaf.has_running_statistics or (is_update and leaf.natural_gradients) for leaf in leaves)


def _with_statistics(computation: NnetComputation, nnet: Nnet) -> set[str]:
    """Returns the components whose statistics may change."""
    kernels = {c.kernel for c in computation.commands if isinstance(c, Propagate | Backprop)}
    return {whole_kernel(computation.kernels[kernel].name, nnet.components) for kernel in kernels}
