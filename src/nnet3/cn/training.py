"""Training: minibatch gradient descent (1.1, 1.2), torch optimizers, sequences in pieces with carried states."""

from __future__ import annotations

import numbers
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import torch

from nnet3.cn.differentiation import num_terms
from nnet3.cn.network import Network
from nnet3.cn.not_finite import NotFiniteError, check_finite
from nnet3.cn.place import warn_user
from nnet3.cn.samples import Sequences, as_matrix, sequences
from nnet3.errors import TrainingError, check_kind

Batch = Mapping[str, Any]


def sgd_step(network: Network, batch: Batch, learning_rate: float) -> float:
    """W <- W - learning_rate * gradient, of the criterion's mean over the minibatch's samples (1.1, 1.2).

    What belongs to no sample, as regularization does, is not divided. Returns that criterion, from before the step.
    Raises TrainingError if it or its gradient is not finite, and then changes nothing.
    """
    check_kind(network, Network, "what is trained", "a network")
    _check_rate(learning_rate)
    value = network.backward(batch, per_sample=True)
    check_finite(network, batch, value)
    with torch.no_grad():
        for tensor in network.tensors().values():
            assert tensor.grad is not None
            tensor.add_(tensor.grad, alpha=-learning_rate)
    return value


def train(
    network: Network,
    minibatches: Callable[[], Iterable[Batch]] | Iterable[Batch],
    optimizer: torch.optim.Optimizer | None = None,
    *,
    learning_rate: float = 0.1,
    epochs: int = 1,
    report: Callable[[int, float], None] | None = None,
) -> list[float]:
    """Go through the minibatches `epochs` times; returns the criterion of (1.2) of each epoch: its mean over samples.

    Without `optimizer` by plain gradient descent with `learning_rate`; with one, made of `network.tensors().values()`,
    by its steps on gradients per sample (see `Network.backward`); LBFGS may ask for them several times. `minibatches`:
    a list, or a function that begins anew for each epoch. `report(epoch, criterion)` is called after each. Raises
    TrainingError for an optimizer of other tensors, for a criterion or gradient that is not finite, and if there are no
    minibatches.
    """
    check_kind(network, Network, "what is trained", "a network")
    check_kind(epochs, int, "epochs", "an integer")
    if epochs < 0:
        raise TrainingError(f"epochs must be at least 0, got {epochs}")
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
            try:
                total += _step(network, batch, optimizer, learning_rate) * count
            except NotFiniteError as error:
                raise TrainingError(f"epoch {epoch + 1}, after {samples} samples: {error}") from None
            samples += count
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


def _step(network: Network, batch: Batch, optimizer: torch.optim.Optimizer | None, learning_rate: float) -> float:
    if optimizer is None:
        return sgd_step(network, batch, learning_rate)
    values: list[float] = []

    def closure() -> float:
        """The criterion per sample; optimizers such as LBFGS ask for it several times in a step."""
        value = network.backward(batch, per_sample=True)
        if not values:
            check_finite(network, batch, value)
        values.append(value)
        return value

    try:
        optimizer.step(closure)
    except RuntimeError as error:
        if "sparse gradients" not in str(error):
            raise
        raise TrainingError(f"{error}; or say cn.embedding(..., sparse=False), whose gradients are dense") from None
    if not values:
        raise TrainingError(f"{type(optimizer).__name__}.step(closure) has not called its closure")
    return values[0]


def _check_optimizer(network: Network, optimizer: torch.optim.Optimizer) -> None:
    check_kind(optimizer, torch.optim.Optimizer, "an optimizer", "one of torch.optim")
    ours = {id(tensor) for tensor in network.tensors().values()}
    theirs = {id(tensor) for group in optimizer.param_groups for tensor in group["params"]}
    if not theirs <= ours:
        raise TrainingError(
            "the optimizer has tensors that are not this network's: make it of network.tensors().values(), after "
            "network.to() and load()"
        )


def num_samples(network: Network, batch: Batch) -> int:
    """The number of samples of a minibatch: columns of its first input with samples that is no initial state.

    Of a network with several axes, those over which its first criterion is summed.
    """
    if network._nodes.is_staged and network.criteria:
        return num_terms(next(iter(network.criteria)), network._take(tuple(network.criteria), batch))
    for node in network.inputs:
        if node.shape.has_samples and node not in network.initial_states and network.names[node] in batch:
            value = batch[network.names[node]]
            what = f"input '{network.names[node]}'"
            turned = network.layout == "rows"
            return sum(value.lengths) if isinstance(value, Sequences) else as_matrix(value, what, turned).shape[1]
    return 1


def truncated(network: Network, batch: Batch, frames: int, *, at_once: int | None = None) -> Iterator[dict[str, Any]]:
    """The sequences of a batch in pieces of `frames` frames, states carried from each piece to the next.

    Delays of the network that have an initial state begin with that of the batch, or else with their `default`, and
    then go on with the frames that the last gradient or evaluation of the piece before has left
    (`network.final_states`). Values that belong to no sample are given to each piece. Sequences that have ended drop
    out of later pieces; with `at_once` so many are gone through at a time, and another one takes the place of each that
    has ended (1.6.2). Warns of nodes that look at other frames without a state: they see none beyond the edges of a
    piece. Raises TrainingError for states of delays that look into the future.
    """
    check_kind(network, Network, "what is cut into pieces for", "a network")
    check_kind(frames, int, "the number of frames of a piece", "an integer")
    check_kind(batch, Mapping, "what is cut into pieces", "a mapping from names of inputs to their values")
    states = {network.names[node]: lag for node, lag in network.initial_states.items()}
    if any(lag < 0 for lag in states.values()):
        raise TrainingError("a delay that looks into the future cannot have its state carried forward")
    with_samples = {network.names[node] for node in network.inputs if node.shape.has_samples}
    cut = {name: value for name, value in batch.items() if name in with_samples and name not in states}
    if frames < 1 or not cut or not all(isinstance(value, Sequences) for value in cut.values()):
        raise TrainingError("truncated takes at least one frame a piece, and inputs that are all cn.sequences")
    lengths = next(iter(cut.values())).lengths
    check_kind(at_once, (int, type(None)), "at_once", "a number of sequences")
    if at_once is not None and at_once < 1:
        raise TrainingError(f"truncated goes through at least one sequence at a time, got at_once={at_once}")
    carried = {name: _first_states(network, name, batch.get(name), len(lengths)) for name in states}
    if max(lengths) > frames:
        _warn_of_cut_contexts(network, frames)
    waiting = [n for n, length in enumerate(lengths) if length]
    places = at_once or len(waiting)
    starts = dict.fromkeys(waiting[:places], 0)  # of the next piece of each sequence that is gone through
    waiting = waiting[places:]
    while starts:
        piece = {name: value for name, value in batch.items() if name not in with_samples}
        for name, value in cut.items():
            piece[name] = sequences([value[n][:, start : start + frames] for n, start in starts.items()])
        piece.update({name: sequences([values[n] for n in starts]) for name, values in carried.items()})
        yield piece
        here = list(starts)
        starts = {n: start + frames for n, start in starts.items() if start + frames < lengths[n]}
        for name, values in (network.final_states(piece) if starts else {}).items():
            for n, value in zip(here, network.turned(values), strict=True):
                carried[name][n] = np.concatenate([carried[name][n], value], 1)[:, -carried[name][n].shape[1] :]
        while waiting and len(starts) < places:
            starts[waiting.pop(0)] = 0


def _first_states(network: Network, name: str, given: Any, num_sequences: int) -> list[np.ndarray]:
    """The state of each sequence before its first frame, (rows, lag)."""
    node = network.find(name)
    if given is None:
        delay = next(delay for delay in network._nodes.delays if delay.initial is node)
        return [np.full((node.shape.rows, network.initial_states[node]), delay.operation.default)] * num_sequences
    states = list(given if isinstance(given, Sequences) else as_matrix(given, f"input '{name}'").T[:, :, np.newaxis])
    if len(states) != num_sequences:
        raise TrainingError(f"input '{name}': expected states of {num_sequences} sequences, got {len(states)}")
    return states


def _warn_of_cut_contexts(network: Network, frames: int) -> None:
    cut = ", ".join(f"'{network.names[node]}'" for node in network.nodes if node.needs_other_frames)
    if cut:
        warn_user(
            f"pieces of {frames} frames cut what {cut} see of other frames: delays into the past go on where they have "
            "an initial state, as in cn.macros.lstm(..., carry=True); what looks into the future cannot"
        )
