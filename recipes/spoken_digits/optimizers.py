"""The same network from the same beginning by natural gradient, by plain SGD and by Adam: who learns how fast?"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch

import nnet3
from nnet3.examples import EXAMPLES, Example, MinibatchSource, Position, SourceOptions
from nnet3.train import Minibatch, Trainer, TrainerOptions, exponential_rate
from nnet3.training.train.to_minibatch import to_minibatch
from recipes.spoken_digits.examples import FACTOR
from recipes.spoken_digits.words import NETWORK, decide

Step = Callable[[Minibatch, float], float]  # one minibatch at a learning rate; gives the loss per frame
Start = Callable[[nnet3.Nnet], Step]


@dataclass(frozen=True)
class Comparison:
    """Epochs over all variants, and how often in each the test set is looked at. The rate that each begins with is the
    best of some, by the loss after a trial of so many minibatches; it falls exponentially to a part of it.
    """

    epochs: int
    looks: int = 4
    minibatch: int = 64
    natural_gradient: tuple[float, ...] = (0.0025, 0.005, 0.01)
    sgd: tuple[float, ...] = (0.1, 0.3, 1.0)
    adam: tuple[float, ...] = (0.001, 0.002, 0.004)
    trial: int = 20
    last_part: float = 0.05
    seed: int = 0


@dataclass(frozen=True)
class Curve:
    """How an optimizer did: its rate, and on the test set after `epochs` the log-probability per frame and accuracy."""

    name: str
    rate: float
    epochs: list[float]
    log_probabilities: list[float]
    accuracies: list[float]


def natural_gradient(nnet: nnet3.Nnet) -> Step:
    """Kaldi's way, by the package's own trainer."""
    trainer = Trainer(nnet, TrainerOptions(max_param_change=2.0))

    def step(minibatch: Minibatch, rate: float) -> float:
        return -trainer.train_minibatch(minibatch, rate).total.average

    return step


def by_torch(make: Callable[[list[torch.nn.Parameter]], torch.optim.Optimizer]) -> Start:
    """PyTorch's way: the network as a module, an optimizer of torch.optim, gradients clipped."""

    def start(nnet: nnet3.Nnet) -> Step:
        module = nnet3.TorchModule(nnet, frame_subsampling_factor=FACTOR).train()
        parameters = list(module.parameters())
        optimizer = make(parameters)
        left, right = nnet.left_context, nnet.right_context

        def step(minibatch: Minibatch, rate: float) -> float:
            frames = minibatch.inputs[0].matrix.reshape(minibatch.num_sequences, -1, nnet.node_dim("input"))
            target: Any = minibatch.targets[0]  # classes
            digits = torch.from_numpy(target.matrix.ids).long()  # one for each output frame
            outputs = module(frames[:, left : frames.shape[1] - right])  # the module repeats the outer frames itself
            loss = torch.nn.functional.nll_loss(outputs.flatten(0, 1), digits)
            optimizer.param_groups[0]["lr"] = rate
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(parameters, 5.0)
            optimizer.step()
            return loss.item()

        return step

    return start


def compare(archives: Sequence[Path], tests: Sequence[Path], plan: Comparison) -> list[Curve]:
    """The same network, the same minibatches in the same order, three optimizers."""
    ways: list[tuple[str, Start, Sequence[float]]] = [
        ("natural gradient", natural_gradient, plan.natural_gradient),
        ("SGD", by_torch(lambda parameters: torch.optim.SGD(parameters)), plan.sgd),
        ("Adam", by_torch(lambda parameters: torch.optim.Adam(parameters)), plan.adam),
    ]
    nnet, _ = _begin(natural_gradient, plan.seed)
    source = MinibatchSource(
        [f"ark:{path}" for path in archives],
        EXAMPLES,
        lambda example, key: to_minibatch(example, nnet.input_dims, nnet.output_dims, key),
        SourceOptions(minibatch_size=str(plan.minibatch), shuffle_buffer=0, seed=plan.seed),
    )
    trial = [each.minibatch for each in islice(source.prepared(Position()), plan.trial)]
    curves = []
    for name, start, rates in ways:
        rate = rates[0]
        if len(rates) > 1:
            rate = min(rates, key=lambda rate: _trial_loss(start, rate, trial, plan.seed))
        curves.append(_curve(name, start, rate, source, tests, plan))
    return curves


def _begin(start: Start, seed: int) -> tuple[nnet3.Nnet, Step]:
    torch.manual_seed(seed)
    nnet = nnet3.Nnet.from_xconfig(NETWORK.read_text(), seed=seed)
    return nnet, start(nnet)


def _trial_loss(start: Start, rate: float, minibatches: Sequence[Minibatch], seed: int) -> float:
    """The mean over the last quarter."""
    _, step = _begin(start, seed)
    losses = [step(minibatch, rate) for minibatch in minibatches]
    mean = float(np.mean(losses[-max(1, len(losses) // 4) :]))
    return mean if math.isfinite(mean) else math.inf


def _curve(
    name: str,
    start: Start,
    rate: float,
    source: MinibatchSource[Example, Minibatch],
    tests: Sequence[Path],
    plan: Comparison,
) -> Curve:
    nnet, step = _begin(start, plan.seed)
    curve = Curve(name, rate, [], [], [])
    for epoch in range(plan.epochs):
        with source.epoch(Position(epoch)) as prepared:
            minibatches = [each.minibatch for each in prepared]
        for number, minibatch in enumerate(minibatches, 1):
            done = epoch + number / len(minibatches)
            step(minibatch, exponential_rate(rate, rate * plan.last_part, done / plan.epochs))
            if number * plan.looks // len(minibatches) > (number - 1) * plan.looks // len(minibatches):
                decisions = decide(nnet, tests)
                curve.epochs.append(done)
                curve.log_probabilities.append(float(decisions.log_probabilities.mean()))
                curve.accuracies.append(decisions.accuracy)
    return curve
