"""Sequences in pieces, with states carried from each piece to the next (truncated back-propagation)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from nnet3.cn.network import Network
from nnet3.cn.place import warn_user
from nnet3.cn.samples import Sequences, as_matrix, sequences
from nnet3.errors import TrainingError, check_kind


def truncated(
    network: Network, batch: Mapping[str, Any], frames: int, *, at_once: int | None = None
) -> Iterator[dict[str, Any]]:
    """Yields the sequences of a batch in pieces of `frames` frames; states go from piece to piece.

    A delay with an initial state begins with the batch's state, or else with `default`. The delay continues with the
    last frames of the piece before, as left by the network's last gradient or evaluation (`network.final_states`).
    Every piece gets the values without samples. Sequences that have ended drop out of later pieces; with `at_once`, so
    many go on at a time, and a new sequence takes the place of an ended sequence (1.6.2). Warns of nodes that look at
    other frames without a state: such nodes see no frames beyond the edges of a piece. Raises TrainingError for states
    of delays that look into the future.
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
    num_going_on = at_once or len(waiting)
    starts = dict.fromkeys(waiting[:num_going_on], 0)  # of the next piece of each sequence that is gone through
    waiting = waiting[num_going_on:]
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
        while waiting and len(starts) < num_going_on:
            starts[waiting.pop(0)] = 0


def _first_states(network: Network, name: str, given: Any, num_sequences: int) -> list[np.ndarray]:
    """Returns the state of every sequence before its first frame, (rows, lag)."""
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
