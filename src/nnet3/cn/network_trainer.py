"""NetworkTrainer: the trainer of networks, for computational networks; a torch optimizer may take its steps."""

from __future__ import annotations

from typing import Any

import torch

from nnet3.base.options.network_training import NetworkTrainingOptions
from nnet3.cn.network import Network
from nnet3.cn.network_in_training import CRITERION, Batch, NetworkInTraining
from nnet3.errors import TrainingError, check_kind
from nnet3.training.train.objectives import ObjectiveStats
from nnet3.training.train.step_result import StepResult
from nnet3.training.train.trainable import Restorable
from nnet3.training.train.trainer import MinibatchTrainer

_OF_GRADIENTS = {
    "sparse gradients": "or say cn.embedding(..., sparse=False), whose gradients are dense",
    "dense gradients": "l1 and l2 make them dense",
}


class NetworkTrainer(MinibatchTrainer[Batch]):
    """All that is drawn at random is a function of the network's generator as it is now (see `Network.seed_random`)."""

    model: NetworkInTraining

    def __init__(
        self,
        model: NetworkInTraining,
        options: NetworkTrainingOptions,
        optimizer: torch.optim.Optimizer | None = None,
    ) -> None:
        if optimizer is not None:
            _check_optimizer(model.network, optimizer, options)
        self.optimizer = optimizer
        seed = int(torch.randint(2**31, (), generator=model.network.generator))
        super().__init__(model, options.trainer_options(seed))

    def set_rate(self, rate: float, *, is_scheduled: bool) -> float:
        """Sets the optimizer's rates, if there is an optimizer and rates change; returns the rate of the next step."""
        if self.optimizer is None:
            return rate
        for group in self.optimizer.param_groups if is_scheduled else ():
            group["lr"] = rate
        return float(self.optimizer.param_groups[0]["lr"])

    def contents(self) -> dict[str, Any]:
        if self.optimizer is None:
            return super().contents()
        return {**super().contents(), "optimizer": self.optimizer.state_dict()}

    def load_contents(self, contents: dict[str, Any]) -> None:
        super().load_contents(contents)
        if self.optimizer is not None:
            self.optimizer.load_state_dict(contents["optimizer"])

    def _plain_step(self, minibatch: Batch, number: int, num_sequences: int, before: Restorable) -> StepResult:
        if self.optimizer is None:
            return super()._plain_step(minibatch, number, num_sequences, before)
        found: list[dict[str, ObjectiveStats]] = []

        def closure() -> float:
            """Returns the criterion per sample, computed several times in a step by optimizers such as LBFGS."""
            found.append(self.model.compute_gradient(minibatch, self._seed(number), is_checked=not found))
            self.model.add_penalties_to_gradient()
            return found[-1][CRITERION].average

        try:
            self.optimizer.step(closure)
        except RuntimeError as error:
            hint = next((hint for about, hint in _OF_GRADIENTS.items() if about in str(error)), None)
            if hint is None:
                raise
            raise TrainingError(f"{error}; {hint}") from None
        if not found:
            raise TrainingError(f"{type(self.optimizer).__name__}.step(closure) has not called its closure")
        return StepResult(found[0])


def _check_optimizer(network: Network, optimizer: torch.optim.Optimizer, options: NetworkTrainingOptions) -> None:
    check_kind(optimizer, torch.optim.Optimizer, "an optimizer", "one of torch.optim")
    # What was frozen after the optimizer was made is among its tensors; without a gradient it stays as it is.
    ours = {
        id(tensor) for tensor in (*(n.memory for n in network.stored), *dict(network._component_tensors()).values())
    }
    theirs = {id(tensor) for group in optimizer.param_groups for tensor in group["params"]}
    if not theirs <= ours:
        raise TrainingError(
            "the optimizer has tensors that are not this network's: make it of network.tensors().values(), after "
            "network.to() and load()"
        )
    if options.of_own_step:
        raise TrainingError(
            f"{', '.join(options.of_own_step)} belong to steps without an optimizer: {type(optimizer).__name__} has "
            "ways of its own; l1, l2 and clip_norm go with one"
        )
