"""Stepper: a network that is computed frame by frame, for sequences whose next frame follows from the last."""

from __future__ import annotations

import copy
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from nnet3.base.index.given_numbers import whole_numbers
from nnet3.cn.frame_steps import FrameStep, FrameSteps, StepProgram
from nnet3.cn.given import GivenInput
from nnet3.cn.graph import NodeGraph
from nnet3.cn.node import Node
from nnet3.cn.program import Question
from nnet3.cn.runners import Runner
from nnet3.cn.samples import SampleLayout
from nnet3.cn.sequence_operation import SampleRows, SequenceOperation
from nnet3.errors import ArgumentError, NetworkError, check_kind, shown

if TYPE_CHECKING:
    from nnet3.cn.evaluation import EvaluatedNetwork

_MOST_RUNNERS = 32


class Stepper:
    """Values of a network one frame after the other, in test mode; `Network.stepper` makes one.

        stepper = net.stepper("scores", sequences=4)
        scores = stepper.step({"word": np.array([3, 3, 3, 3])})   # (rows, sequences)
        stepper.keep([0, 0, 2, 1])                                # beams: which sequences go on, some of them twice

    Rows that later frames read are kept between steps: a step costs the same at every frame. All sequences have had
    `frames` steps. Parameters are read anew at each step; values without samples stay those of the beginning.
    """

    def __init__(self, network: EvaluatedNetwork, nodes: Sequence[Node], inputs: Mapping[str, Any], sequences: int):
        check_kind(sequences, int, "the number of sequences of a stepper", "an integer")
        check_kind(inputs, Mapping, "what a stepper begins with", "a mapping from names of inputs to their values")
        if sequences < 1:
            raise ArgumentError(f"a stepper takes at least one sequence, got sequences={sequences}")
        graph, roots = network._nodes, tuple(dict.fromkeys(nodes))
        _check_have_frames(graph, roots)
        self._network, self._nodes, self._sequences = network, tuple(nodes), sequences
        self._frames = 0
        _, leaves = graph.leaves_below(roots)
        self._leaves = [leaf for leaf in leaves if leaf.says_samples]
        first = [leaf for leaf in leaves if not leaf.says_samples]
        network._check_names(first, inputs)
        network._check_statistics(graph.below(roots))
        fixed = _without_frames(graph, roots)
        own = {leaf.name: inputs[leaf.name] for leaf in first if not leaf.has_samples}
        self._values = network._values_of(fixed, own)[0] if fixed else {}
        self._looked_up = [node for node in graph.below(roots) if node.operation.is_whole]
        given = (*(node for node in fixed if node.is_evaluated), *self._looked_up)
        question = Question(graph, roots, None, given, by_frames=True)
        self._steps = FrameSteps.of(question, network._program_of(question).source)
        self._variants = graph.variants(False)
        self._clock: Tensor | None = None
        self._runners: dict[tuple[object, ...], Runner] = {}
        self._state = {
            self._steps.source.number[leaf.node]: self._rows(leaf, inputs[leaf.name])
            for leaf in first
            if leaf.has_samples
        }

    @property
    def sequences(self) -> int:
        """The number of sequences."""
        return self._sequences

    @property
    def frames(self) -> int:
        """The number of steps so far."""
        return self._frames

    def _rows(self, leaf: GivenInput, given: Any) -> Tensor:
        """Returns what is given for an input as (times * sequences, rows). Raises ShapeError."""
        network = self._network
        value = leaf.columns(given, network.layout == "rows") if leaf.says_samples else given
        rows = leaf.rows(value, SampleLayout((1,) * self._sequences, are_sequences=False), network._dtype)
        if leaf.classes is not None:
            leaf.check_classes(rows, value)
        return rows.to(network._device)

    def step(self, inputs: Mapping[str, Any]) -> Any:
        """Returns the values of the next frame, (rows, sequences); a list of several nodes' values.

        `inputs`: by name, the needed inputs with samples, a column for each sequence (a row in a network whose layout
        is "rows"). Raises NetworkError and ShapeError for inputs that do not fit; then nothing has happened.
        """
        network, source = self._network, self._steps.source
        with network._lock:
            network._follow_memory()
            check_kind(inputs, Mapping, "what a step is given", "a mapping from names of inputs to their values")
            network._check_names(self._leaves, inputs)
            if network._nodes.variants(False) != self._variants:
                raise NetworkError("settings of the network's nodes have changed: make another stepper")
            index = self._steps.step_index(self._frames)
            step = self._steps.steps[index]
            values = {leaf.node: self._rows(leaf, inputs[leaf.name]) for leaf in self._leaves}
            values |= {node: self._found(node, values) for node in self._looked_up}
            new = {source.number[node]: rows for node, rows in values.items() if node in source.number}
            new[source.clock] = self._zeros(len(step.new[source.clock]) * self._sequences)
            given = {node: self._given(step, node, new) for node in step.given}
            names = source.nodes
            accepted = {names[node].name: rows for node, rows in given.items()}
            found = self._runner(index).computer.compute(accepted, anew=True)
            computed = {node: found[names[node].name] for node in step.computed}
            self._state = {node: self._kept(step, node, given, computed) for node in step.after}
            self._frames += 1
            shown = [self._shown(step, source.number[node], computed) for node in self._nodes]
        return shown if len(shown) != 1 else shown[0]

    @torch.no_grad()
    def _found(self, node: Node, values: Mapping[Node, Tensor]) -> Tensor:
        """Returns the columns of a table that a node looks up, (sequences, rows)."""
        operation, layout = node.operation, SampleLayout((1,) * self._sequences, are_sequences=False)
        assert isinstance(operation, SequenceOperation)
        table, chosen = node.operands
        columns = table.memory.detach() if table.is_stored else self._values[table]
        return operation.compute([SampleRows(columns, None), SampleRows(values[chosen], layout)], layout)

    def _zeros(self, rows: int) -> Tensor:
        """Returns zeros (rows, 1), the input "frame:exists": programs ask which rows it has, not what is in them."""
        dtype, device = self._network._dtype, self._network._device
        zeros = self._clock
        if zeros is None or len(zeros) != rows or zeros.dtype != dtype or zeros.device != device:
            self._clock = zeros = torch.zeros(rows, 1, dtype=dtype, device=device)
        return zeros

    def _given(self, step: FrameStep, node: int, new: Mapping[int, Tensor]) -> Tensor:
        """Returns the rows of a node that the program of a step is given."""
        if node not in step.before:
            return new[node]
        state = self._state[node].to(self._network._device, self._network._dtype)
        return torch.cat([state, new[node]]) if node in step.new else state

    def _kept(self, step: FrameStep, node: int, given: Mapping[int, Tensor], computed: Mapping[int, Tensor]) -> Tensor:
        """Returns the rows of a node that are state after a step."""
        first, last, positions = step.kept[node]
        old = len(step.given[node]) if node in step.given else 0
        if positions is None and first >= old:
            rows, first, last = computed[node], first - old, last - old
        else:
            rows = torch.cat([given[node], computed[node]]) if node in computed else given[node]
        if positions is None:
            return rows[first * self._sequences : (last + 1) * self._sequences]
        return rows.unflatten(0, (-1, self._sequences))[positions.to(rows.device)].flatten(0, 1)

    def _shown(self, step: FrameStep, node: int, computed: Mapping[int, Tensor]) -> np.ndarray:
        first = step.shown[node] * self._sequences
        array = computed[node][first : first + self._sequences].detach().cpu().numpy()
        return array.copy() if self._network.layout == "rows" else array.T.copy()

    def _runner(self, index: int) -> Runner:
        network, question = self._network, self._steps.question
        key = (index, self._sequences, *network._state_of_runners(question))
        runner = self._runners.get(key)
        if runner is None or not runner.is_current():
            how = {"options": network.compile_options, "cache": network.cache, "source": self._steps.source}
            program = StepProgram(question, self._steps.steps[index], self._sequences, **how)
            runner = self._runners[key] = network._runner_of(program)
            runner.give(self._values)
            while len(self._runners) > _MOST_RUNNERS:
                del self._runners[next(iter(self._runners))]
        return runner

    def keep(self, sequences: Sequence[int]) -> None:
        """Goes on with these sequences, by number, in this order; some may come several times, some not at all.

        The next step has as many sequences as there are numbers. Raises ArgumentError for a number out of range.
        """
        refusal = "keep takes at least one number of a sequence"
        numbers = whole_numbers(sequences, refusal)
        if numbers.ndim != 1 or not numbers.size:
            raise ArgumentError(f"{refusal}, got {shown(sequences)}")
        if numbers.min() < 0 or numbers.max() >= self._sequences:
            raise ArgumentError(f"keep takes numbers from 0 to {self._sequences - 1}, got {shown(sequences)}")
        with self._network._lock:
            chosen = torch.from_numpy(numbers)
            self._state = {
                node: rows.unflatten(0, (-1, self._sequences))[:, chosen.to(rows.device)].flatten(0, 1)
                for node, rows in self._state.items()
            }
            self._sequences = len(numbers)

    def copy(self) -> Stepper:
        """Returns an independent stepper at the same frame; programs are shared."""
        other = copy.copy(self)
        other._state = dict(self._state)
        return other

    def __repr__(self) -> str:
        numbers = sum(rows.numel() for rows in self._state.values())
        return f"<Stepper: {self._sequences} sequences, {self._frames} frames, a state of {numbers} numbers>"


def _check_have_frames(graph: NodeGraph, roots: Collection[Node]) -> None:
    """Raises NetworkError for a node that has no value frame by frame."""
    for node in roots:
        if not node.is_evaluated:
            raise NetworkError(f"'{graph.names[node]}' ({node.type}) is not computed, but given")
        if not node.shape.has_samples:
            raise NetworkError(f"'{graph.names[node]}' is {node.shape}: it has no value for each frame")
    for node in graph.below(tuple(roots)):
        operation, what = node.operation, f"'{graph.names[node]}' ({node.type})"
        if node.shape.axis or (operation.is_whole and operation.looks_at_other_frames):
            raise NetworkError(f"{what} is of whole sequences, not computed frame by frame")
        if operation.is_whole and (node.operands[1].is_evaluated or node in roots):
            raise NetworkError(f"{what} looks up an input before each step: it cannot look up what a step computes")


def _without_frames(graph: NodeGraph, roots: tuple[Node, ...]) -> list[Node]:
    """Returns the values without samples that frames look at, parameters aside.

    Raises NetworkError for a value that is computed of all frames.
    """
    below = [node for node in graph.below(roots) if node.shape.has_samples]
    found = list(dict.fromkeys(operand for each in below for operand in each.operands))
    found = [node for node in found if not node.shape.has_samples and not node.is_stored]
    for node in found:
        if any(leaf.has_samples for leaf in graph.leaves_below((node,))[1]):
            raise NetworkError(f"'{graph.names[node]}' ({node.type}) is computed of all frames of a sequence at once")
    return found
