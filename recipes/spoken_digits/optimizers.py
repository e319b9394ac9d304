"""The same network from the same beginning by natural gradient, by plain SGD and by Adam: who learns how fast?"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

import nnet3
from nnet3.train import Minibatch, Trainer, TrainerOptions, exponential_rate
from nnet3.train.examples import EXAMPLES, MinibatchSource, Position, SourceOptions
from nnet3.train.examples.to_minibatch import to_minibatch
from recipes.spoken_digits.examples import FACTOR
from recipes.spoken_digits.words import NETWORK, decide

Step = Callable[[Minibatch, float], None]  # one minibatch, at a learning rate


@dataclass(frozen=True)
class Comparison:
    """Epochs over all variants, places in an epoch at which the test set is looked at, and the best rates we know."""

    epochs: int
    looks: int = 4
    minibatch: int = 64
    natural_gradient: float = 0.002
    sgd: float = 0.2
    adam: float = 0.002
    last_rate: float = 0.05  # as a part of the first one
    seed: int = 0


def natural_gradient(nnet: nnet3.Nnet) -> Step:
    """Kaldi's way, by the package's own trainer."""
    trainer = Trainer(nnet, TrainerOptions(max_param_change=2.0))

    def step(minibatch: Minibatch, rate: float) -> None:
        trainer.train_minibatch(minibatch, rate)

    return step


def by_torch(make: Callable[[list[torch.nn.Parameter]], torch.optim.Optimizer]) -> Callable[[nnet3.Nnet], Step]:
    """PyTorch's way: the network as a module, an optimizer of torch.optim, gradients clipped."""

    def start(nnet: nnet3.Nnet) -> Step:
        module = nnet3.TorchModule(nnet, frame_subsampling_factor=FACTOR).train()
        parameters = list(module.parameters())
        optimizer = make(parameters)
        left, right = nnet.left_context, nnet.right_context

        def step(minibatch: Minibatch, rate: float) -> None:
            size = minibatch.num_sequences
            frames = minibatch.inputs[0].matrix.reshape(size, -1, nnet.node_dim("input"))
            digits = torch.from_numpy(minibatch.targets[0].matrix.ids).long()  # one for each output frame
            outputs = module(frames[:, left : frames.shape[1] - right])  # the module repeats the outer frames itself
            optimizer.param_groups[0]["lr"] = rate
            optimizer.zero_grad()
            torch.nn.functional.nll_loss(outputs.flatten(0, 1), digits).backward()
            torch.nn.utils.clip_grad_norm_(parameters, 5.0)
            optimizer.step()

        return step

    return start


def compare(archives: Sequence[Path], tests: Sequence[Path], comparison: Comparison) -> dict[str, list[list[float]]]:
    """For each optimizer rows of epoch, log-probability per frame and accuracy of the test set."""
    ways = {
        "natural gradient": (natural_gradient, comparison.natural_gradient),
        "SGD": (by_torch(lambda parameters: torch.optim.SGD(parameters)), comparison.sgd),
        "Adam": (by_torch(lambda parameters: torch.optim.Adam(parameters)), comparison.adam),
    }
    return {name: _curve(start, rate, archives, tests, comparison) for name, (start, rate) in ways.items()}


def _curve(
    start: Callable[[nnet3.Nnet], Step], rate: float, archives: Sequence[Path], tests: Sequence[Path], plan: Comparison
) -> list[list[float]]:
    nnet = nnet3.Nnet.from_xconfig(NETWORK.read_text(), seed=plan.seed)
    torch.manual_seed(plan.seed)
    step = start(nnet)
    source = MinibatchSource(
        [f"ark:{path}" for path in archives],
        EXAMPLES,
        lambda example, key: to_minibatch(example, nnet.input_dims, nnet.output_dims, key),
        SourceOptions(minibatch_size=str(plan.minibatch), shuffle_buffer=0, seed=plan.seed),
    )
    rows = []
    for epoch in range(plan.epochs):
        with source.epoch(Position(epoch)) as prepared:
            minibatches = [each.minibatch for each in prepared]
        for number, minibatch in enumerate(minibatches, 1):
            done = epoch + number / len(minibatches)
            step(minibatch, exponential_rate(rate, rate * plan.last_rate, done / plan.epochs))
            if number * plan.looks // len(minibatches) > (number - 1) * plan.looks // len(minibatches):
                decisions = decide(nnet, tests)
                rows.append([done, float(decisions.log_probabilities.mean()), decisions.accuracy])
    return rows
