"""Finds left and right context of a simple network by trial, which works for every network."""

from __future__ import annotations

import numpy as np

from nnet3.errors import NetworkError, RequestError
from nnet3.index import IndexTable, T
from nnet3.lowering.build_graph import computable_outputs
from nnet3.lowering.source import LoweringRequest, RequestedRows
from nnet3.structure.node_rules import NodeRules
from nnet3.structure.parts import NetworkParts

_FIRST_WINDOW, _SURE_WINDOW = 40, 640
_MOST_CELLS = 5_000_000  # (slots of all nodes) x times; windows up to the sure one are tried whatever it takes


def context_by_trials(parts: NetworkParts) -> tuple[int, int]:
    """Returns (left, right) context, from windows of twice the length until one is long enough.

    Raises NetworkError if none that can be tried makes an output computable.
    """
    rules = NodeRules(parts)
    probe = np.zeros((1, 3), np.int32)
    slots = sum(rules.slots(number, probe)[0].shape[1] for number in range(len(parts.nodes)))
    window = _FIRST_WINDOW
    while window <= _SURE_WINDOW or 3 * window * slots <= _MOST_CELLS:
        trials = [_trial(rules, shift, window) for shift in range(parts.modulus + 1)]
        if all(trial is not None for trial in trials):
            contexts = [trial for trial in trials if trial is not None]
            return max(left for left, _ in contexts), max(right for _, right in contexts)
        window *= 2
    raise NetworkError(f"no output is computable from {window // 2} frames of input: the context cannot be found")


def _trial(rules: NodeRules, shift: int, window: int) -> tuple[int, int] | None:
    """Returns the frames lost at the left and the right if input is given for t = shift .. shift + window - 1."""
    number = rules.parts.node_number
    inputs = [RequestedRows(number["input"], "input", _frames(shift, shift + window))]
    if "ivector" in number:
        inputs.append(RequestedRows(number["ivector"], "ivector", _frames(shift - rules.parts.modulus, shift + window)))
    wanted = RequestedRows(number["output"], "output", _frames(shift, shift + window))
    try:
        (outputs,) = computable_outputs(rules, LoweringRequest(inputs, [wanted]))
    except RequestError as error:
        raise NetworkError(f"the context cannot be found: {error}") from error
    if not outputs.any():
        return None
    first = int(outputs.argmax())
    after = outputs[first:]
    end = first + (len(after) if after.all() else int((~after).argmax()))
    return first, window - end


def _frames(first: int, end: int) -> IndexTable:
    table = np.zeros((end - first, 3), np.int32)
    table[:, T] = np.arange(first, end)
    return table
