"""Training: minibatch gradient descent (1.1, 1.2), torch optimizers, sequences in pieces with carried states."""

from __future__ import annotations

import numbers
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import torch

from nnet3.cn.network import Network
from nnet3.cn.nodes.delay import DelayNode
from nnet3.cn.samples import Sequences, sequences
from nnet3.errors import TrainingError, check_kind

Batch = Mapping[str, Any]


def sgd_step(network: Network, batch: Batch, learning_rate: float) -> float:
    """W <- W - learning_rate * (sum over samples of the gradient) / (samples of the minibatch) (1.1, 1.2).

    Returns the criterion per sample, from before the step.
    """
    check_kind(network, Network, "what is trained", "a network")
    _check_rate(learning_rate)
    value = network.backward(batch)
    samples = num_samples(network, batch)
    with torch.no_grad():
        for tensor in network.tensors().values():
            assert tensor.grad is not None
            tensor.add_(tensor.grad, alpha=-learning_rate / samples)
    return value / samples


def train(
    network: Network,
    minibatches: Callable[[], Iterable[Batch]] | Iterable[Batch],
    optimizer: torch.optim.Optimizer | None = None,
    *,
    learning_rate: float = 0.1,
    epochs: int = 1,
    report: Callable[[int, float], None] | None = None,
) -> list[float]:
    """Go through the minibatches `epochs` times; returns the criterion per sample of each epoch.

    Without `optimizer` by plain gradient descent with `learning_rate`; with one, made of `network.tensors().values()`,
    by its steps on gradients per sample. `minibatches`: a list, or a function that begins anew for each epoch.
    `report(epoch, criterion)` is called after each. Raises TrainingError for an optimizer of other tensors, for a
    criterion that is not finite, and if there are no minibatches.
    """
    check_kind(network, Network, "what is trained", "a network")
    check_kind(epochs, int, "epochs", "an integer")
    _check_rate(learning_rate)
    if not callable(minibatches) and (isinstance(minibatches, Mapping | str) or not isinstance(minibatches, Iterable)):
        raise TrainingError(f"expected a list of minibatches, each {{'x': X, ...}}, got a {type(minibatches).__name__}")
    if optimizer is not None:
        _check_optimizer(network, optimizer)
    history = []
    for epoch in range(epochs):
        total, samples = 0.0, 0
        for batch in minibatches() if callable(minibatches) else minibatches:
            check_kind(batch, Mapping, "a minibatch", "a mapping from names of inputs to their values")
            count = num_samples(network, batch)
            total += _step(network, batch, optimizer, learning_rate, count) * count
            samples += count
            if not np.isfinite(total):
                raise TrainingError(f"epoch {epoch + 1}: the criterion is {total}; a smaller learning rate may help")
        if samples == 0:
            raise TrainingError(f"epoch {epoch + 1}: no minibatches (a generator can be gone through only once)")
        history.append(total / samples)
        if report is not None:
            report(epoch + 1, history[-1])
    return history


def _check_rate(learning_rate: float) -> None:
    check_kind(learning_rate, numbers.Real, "a learning rate", "a number")
    if not 0 <= learning_rate < float("inf"):
        raise TrainingError(f"a learning rate must be a finite number >= 0, got {learning_rate}")


def _step(
    network: Network, batch: Batch, optimizer: torch.optim.Optimizer | None, learning_rate: float, count: int
) -> float:
    if optimizer is None:
        return sgd_step(network, batch, learning_rate)
    value = network.backward(batch)
    for tensor in network.tensors().values():
        assert tensor.grad is not None
        tensor.grad.div_(count)
    optimizer.step()
    return value / count


def _check_optimizer(network: Network, optimizer: torch.optim.Optimizer) -> None:
    ours = {id(tensor) for tensor in network.tensors().values()}
    theirs = {id(tensor) for group in optimizer.param_groups for tensor in group["params"]}
    if not theirs <= ours:
        raise TrainingError(
            "the optimizer has tensors that are not this network's: make it of network.tensors().values(), after "
            "network.to() and load()"
        )


def num_samples(network: Network, batch: Batch) -> int:
    """How many samples a minibatch has: columns of its first input with samples that is no initial state."""
    for node in network.inputs:
        if node.shape.has_samples and node not in network.initial_states and network.names[node] in batch:
            value = batch[network.names[node]]
            return sum(value.lengths) if isinstance(value, Sequences) else int(np.shape(value)[1])
    return 1


def truncated(network: Network, batch: Mapping[str, Sequences], frames: int) -> Iterator[dict[str, Any]]:
    """The sequences of a batch in pieces of `frames` frames, states carried from each piece to the next.

    Delays of the network that have an initial state begin with their `default` and then go on with the frames that
    the last gradient or evaluation of the piece before has left (`network.final_states`). Sequences that have ended
    drop out of later pieces. Raises TrainingError for delays that look into the future.
    """
    check_kind(network, Network, "what is cut into pieces for", "a network")
    check_kind(frames, int, "the number of frames of a piece", "an integer")
    if frames < 1 or not batch or not all(isinstance(value, Sequences) for value in batch.values()):
        raise TrainingError("truncated takes at least one frame a piece, and inputs that are all cn.sequences")
    delays = [node for node in network.nodes if isinstance(node, DelayNode) and node.initial is not None]
    if any(node.operation.lag < 0 for node in delays):
        raise TrainingError("a delay that looks into the future cannot have its state carried forward")
    lengths = next(iter(batch.values())).lengths
    carried: dict[str, list[np.ndarray]] = {}
    for node in delays:
        assert node.initial is not None
        lag = network.initial_states[node.initial]
        first = np.full((node.shape.rows, lag), node.operation.default)
        carried[network.names[node.initial]] = [first] * len(lengths)
    for start in range(0, max(lengths), frames):
        here = [n for n, length in enumerate(lengths) if length > start]
        piece: dict[str, Any] = {
            name: sequences([value[n][:, start : start + frames] for n in here]) for name, value in batch.items()
        }
        piece.update({name: sequences([states[n] for n in here]) for name, states in carried.items()})
        yield piece
        if start + frames >= max(lengths):
            return
        final = network.final_states(piece)
        for name, values in final.items():
            for n, value in zip(here, values, strict=True):
                carried[name][n] = np.concatenate([carried[name][n], value], 1)[:, -carried[name][n].shape[1] :]
