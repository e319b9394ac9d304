"""Left and right context of a simple network: frames of input that one frame of output needs on either side.

Kaldi finds contexts by trial. A window of frames is supposed to be given, shifted by s for each s up to the modulus M.
Left and right context are the frames that the output loses at the ends of the window, in the worst case. For nearly all
networks the available times of every node are an interval, and no trial is needed: the intervals follow from the slots'
sources and the slots that must be available (NodeRules). Trials remain for a Switch or a Failover between different
times, for components that can do with some of their inputs, and for offsets in x.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from nnet3.base.index import indexes_at
from nnet3.engine.lowering.build_graph import computable_outputs
from nnet3.engine.lowering.source import LoweringRequest, RequestedRows
from nnet3.errors import NetworkError, RequestError
from nnet3.model.structure.cycles import never_computable, startless_warnings
from nnet3.model.structure.forwarding import ALL_TIMES, Interval, NotIntervalsError
from nnet3.model.structure.node_rules import NodeRules
from nnet3.model.structure.nodes import InputNode
from nnet3.model.structure.parts import NetworkParts

_MAX_MODULUS = 1000  # there is a trial for each time within it
_WINDOW = 2**32  # frames of input: more than all offsets can sum up to in practice
_MOST_CELLS = 10_000_000

_FIRST_WINDOW, _SURE_WINDOW = 40, 640
_MOST_TRIED = 5_000_000  # (slots of all nodes) x times; windows up to the sure one are tried whatever it takes


def context_by_trials(parts: NetworkParts) -> tuple[int, int]:
    """Returns (left, right) context, from windows of doubling length until a window is long enough.

    Raises NetworkError if no window within the limit makes an output computable.
    """
    rules = NodeRules(parts)
    probe = np.zeros((1, 3), np.int32)
    slots = sum(rules.slots(number, probe)[0].shape[1] for number in range(len(parts.nodes)))
    window = _FIRST_WINDOW
    while window <= _SURE_WINDOW or 3 * window * slots <= _MOST_TRIED:
        trials = [_trial(rules, shift, window) for shift in range(parts.modulus + 1)]
        if all(trial is not None for trial in trials):
            contexts = [trial for trial in trials if trial is not None]
            return max(left for left, _ in contexts), max(right for _, right in contexts)
        window *= 2
    raise NetworkError(f"no output is computable from {window // 2} frames of input: the context cannot be found")


def _trial(rules: NodeRules, shift: int, window: int) -> tuple[int, int] | None:
    """Returns the frames lost at the left and the right if input is given for t = shift .. shift + window - 1."""
    number = rules.parts.node_number
    frames = indexes_at(np.arange(shift, shift + window))
    inputs = [RequestedRows(number["input"], "input", frames)]
    if "ivector" in number:
        times = np.arange(shift - rules.parts.modulus, shift + window)
        inputs.append(RequestedRows(number["ivector"], "ivector", indexes_at(times)))
    wanted = RequestedRows(number["output"], "output", frames)
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


def compute_context(parts: NetworkParts) -> tuple[int, int]:
    """Returns (left, right) context. Raises NetworkError if no output can be computed, whatever input is given."""
    if parts.modulus > _MAX_MODULUS:
        raise NetworkError(
            f"the structure of the network repeats after {parts.modulus} frames only: the context cannot be found "
            f"beyond {_MAX_MODULUS}"
        )
    try:
        found = context_by_intervals(parts)
    except NotIntervalsError:
        hopeless = parts.node_number["output"] in never_computable(parts)
        found = None if hopeless else context_by_trials(parts)
    if found is None:
        reasons = "".join(f"\n{reason}" for reason in startless_warnings(parts))
        raise NetworkError(f"no output is computable, however much input is given: there is no context{reasons}")
    return found


def context_by_intervals(parts: NetworkParts) -> tuple[int, int] | None:
    """Returns (left, right) context, None if no output is ever computable. Raises NotIntervalsError."""
    number = parts.node_number["output"]
    found = _contexts(parts, [number]).get(number)
    return None if found is None else (max(0, found[0]), max(0, found[1]))


def node_contexts(parts: NetworkParts) -> dict[str, tuple[int, int]]:
    """Returns the (left, right) context of each node: the value at t needs frames t - left .. t + right of `input`.

    A node whose input begins after t has a left context below 0. Left out are nodes needed by no output, nodes that do
    not look at `input` or are never computable, hidden nodes; and all nodes if the context must be found by trials.
    """
    if parts.modulus > _MAX_MODULUS:
        return {}
    outputs = [number for number, node in enumerate(parts.nodes) if node.is_output]
    try:
        found = _contexts(parts, outputs)
    except NotIntervalsError:
        return {}
    looking = {number: (left, right) for number, (left, right) in found.items() if left + right >= 0}
    return {parts.nodes[number].name: both for number, both in looking.items() if not parts.nodes[number].is_hidden}


def _contexts(parts: NetworkParts, targets: list[int]) -> dict[int, tuple[int, int]]:
    """Returns (left, right) context of the computable nodes that the targets need. Raises NotIntervalsError."""
    rules = NodeRules(parts)
    order, stuck = _order(rules, targets)
    if stuck and not stuck <= never_computable(parts):
        raise NotIntervalsError  # a recurrence has another way to start
    at_once = max(1, _MOST_CELLS // max(1, len(order)))
    found: dict[int, tuple[int, int]] = {}
    hopeless = set(stuck)
    for first in range(0, parts.modulus + 1, at_once):
        shifts = np.arange(first, min(first + at_once, parts.modulus + 1), dtype=np.int64)
        for number, times in _available_times(rules, order, stuck, shifts).items():
            if (np.maximum(times.low, shifts) > np.minimum(times.high, shifts + _WINDOW - 1)).any():
                hopeless.add(number)
            left, right = int((times.low - shifts).max()), int((shifts + _WINDOW - 1 - times.high).max())
            before = found.get(number, (left, right))
            found[number] = max(left, before[0]), max(right, before[1])
    return {number: context for number, context in found.items() if number not in hopeless}


def _order(rules: NodeRules, targets: Iterable[int]) -> tuple[list[int], set[int]]:
    """Returns the nodes that the targets need, sources first, and apart the nodes on a cycle or in need of a cycle."""
    users: dict[int, list[int]] = {}
    waiting: dict[int, int] = {}
    stack = list(targets)
    while stack:
        number = stack.pop()
        if number in waiting:
            continue
        sources = set(rules.needs(number))
        waiting[number] = len(sources)
        for source in sources:
            users.setdefault(source, []).append(number)
        stack += sources
    order = [number for number, count in waiting.items() if count == 0]
    for number in order:
        for user in users.get(number, ()):
            waiting[user] -= 1
            if waiting[user] == 0:
                order.append(user)
    return order, set(waiting) - set(order)


def _available_times(
    rules: NodeRules, order: Iterable[int], stuck: Iterable[int], shifts: npt.NDArray[np.int64]
) -> dict[int, Interval]:
    """Returns the available times of every node, for windows that begin at the given shifts."""
    number_of, nodes = rules.parts.node_number, rules.parts.nodes
    never, last = Interval.never(len(shifts)), shifts + _WINDOW - 1
    given = {"input": Interval(shifts, last), "ivector": Interval(shifts - rules.parts.modulus, last)}
    known = dict.fromkeys(stuck, never)
    for number in order:
        if isinstance(nodes[number], InputNode):
            known[number] = given.get(nodes[number].name, never)
        else:
            slots = rules.preimages(number, lambda name: known[number_of[name]])
            known[number] = _node_times(rules, number, slots, len(shifts))
    return known


def _node_times(rules: NodeRules, node: int, slots: list[Interval], num_shifts: int) -> Interval:
    """Returns the available times of a node, from the available times of the node's slots.

    Raises NotIntervalsError unless some slots, equal for all shifts, are available at all these times and suffice:
    else the times are put together from intervals that would not meet if the window were shorter.
    """
    if len(slots) == 1 and slots[0] is not ALL_TIMES:
        return slots[0]
    low, high = (np.empty((num_shifts, len(slots)), np.int64) for _ in range(2))
    for column, slot in enumerate(slots):
        low[:, column], high[:, column] = slot.low, slot.high
    times = Interval.between(-rules.availability(node, -low), rules.availability(node, high))
    within = (low <= times.low[:, np.newaxis]) & (high >= times.high[:, np.newaxis])
    throughout = np.logical_and.reduce(within, axis=0, keepdims=True)
    if not rules.availability(node, throughout).all():
        raise NotIntervalsError
    return times
