"""Runner: a program with memory; Runners: the runners of a network's last questions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from operator import is_
from typing import Any

import torch
from torch import Tensor

from nnet3.cn.node import Gradients, Node
from nnet3.cn.operation import Operation, OperationState
from nnet3.cn.program import Program, Question
from nnet3.cn.sequence_operation_in_loop import ContextInputs, contexts_of
from nnet3.cn.source import GRADIENT, PROBE, SEQUENCE
from nnet3.engine.ir.kernel import Kernel
from nnet3.engine.runtime import NnetComputer
from nnet3.engine.runtime.second_use_cache import SecondUseCache

_MOST_RUNNERS = 128
_MOST_SEQUENCES = 32  # for sequences of some lengths: each may take half a megabyte
_MOST_ONCE = 4  # and of these, for lengths that were seen once
_MOST_RECENT = 16  # questions that are known by identity: those of a network in stages come one after another


@dataclass
class _Kernels:
    components: Mapping[str, Any]


class Bonds:
    """The memory and the objects in use by a runner of a program, as found on creation."""

    def __init__(self, program: Program, gradients: Gradients):
        source, question = program.source, program.question
        stored = [(node, number) for node, number in source.number.items() if node.is_stored]
        self._known, self._training = gradients, question.training
        self._values = [(node, node.memory.detach()) for node, _ in stored]
        taught = [node for node, number in stored if source.nodes[number].gradient]
        self._gradients = [(node, gradients.of(node), gradients.of(node).detach()) for node in taught]
        keepers = [n for n in source.number if not n.is_stored and n not in question.given and _keeps(n)]
        self._objects = [(node, node.operation.held(self._training)) for node in keepers]

    def hold(self) -> bool:
        """Returns true if memory and objects are unchanged."""
        for node, memory in self._values:
            if not memory.is_set_to(node.memory) or memory.dtype != node.memory.dtype:
                return False
        for node, gradient, memory in self._gradients:
            if self._known.get(node) is not gradient or not memory.is_set_to(gradient):
                return False
        for node, objects in self._objects:
            now = node.operation.held(self._training)
            if len(now) != len(objects) or not all(map(is_, now, objects)):
                return False
        return True


def _keeps(node: Node) -> bool:
    return type(node.operation).held is not Operation.held


class Runner:
    """A program with memory: runs as often as wanted, in one thread at a time.

    Parameters are read in place; the gradients of parameters that need one lie in `gradients`.
    """

    def __init__(
        self,
        program: Program,
        generator: torch.Generator,
        gradients: Gradients,
        dtype: torch.dtype,
        device: torch.device,
        recorders: Mapping[str, Kernel],
    ):
        """`recorders`: kernels that replace kernels by name."""
        self.gradients, self._bonds = gradients, Bonds(program, gradients)
        self.program, self.dtype, self.device = program, dtype, device
        self.names = program.source.names
        self._seeds: dict[float, Tensor] = {}
        self.memory: dict[str, Tensor] = {}  # of values without samples, by the name under which they are bound
        for node, number in program.source.number.items():
            self._bind(node, program.source.nodes[number].memory, program.source.nodes[number].gradient)
        for node, number in program.source.probe.items():
            self._bind_buffers(node, program.source.nodes[number].memory, program.source.nodes[number].gradient)
        known = program.source.kernels(OperationState(generator, program.question.training))
        kernels = _Kernels({name: recorders.get(name, kernel) for name, kernel in known.items()})
        updates = program.request.need_model_derivative
        to_update = _Kernels(program.source.kernels_to_update(kernels.components)) if updates else None
        stores = program.question.stores_statistics
        to_store = _Kernels(program.source.kernels_of_statistics(kernels.components)) if stores else None
        used = [matrix.name for matrix in program.computation.outside]
        self.computer = NnetComputer(
            program.computation,
            kernels,
            to_update,
            device,
            nnet_to_store_stats=to_store,
            dtype=dtype,
            outside={name: self.memory[name] for name in used},
            check_finite=False,
        )

    def change(self, program: Program) -> bool:
        """Runs another program of the same source from now on; returns False for a program of another family."""
        computation = program.computation
        member, own = computation.member, self.program.computation.member
        is_restricted = program.ragged is not None and program.ragged is self.program.ragged
        if not is_restricted and (member is None or own is None or member.kept is not own.kept):
            return False
        self.computer.change(computation)
        self.program = program
        return True

    def is_current(self) -> bool:
        """Returns true if the nodes still have the memory and the objects used by the runner."""
        return self._bonds.hold()

    def _bind(self, node: Node, memory: str, gradient: str) -> None:
        if not memory:
            return
        if not node.is_stored:
            self._bind_buffers(node, memory, gradient)
            return
        self.memory[memory] = node.memory.detach()  # its memory of now, whatever `node.memory.data` will be
        if gradient:
            self.memory[gradient] = self.gradients.of(node).detach()

    def _bind_buffers(self, node: Node, memory: str, gradient: str) -> None:
        if memory:
            self.memory[memory] = torch.zeros(
                node.shape.num_cols or 1, node.shape.rows, dtype=self.dtype, device=self.device
            )
        if gradient:
            self.memory[gradient] = torch.zeros_like(self.memory[memory])

    def give(self, values: Mapping[Node, Tensor]) -> None:
        """Takes the values without samples."""
        for node, memory in self._given.items():
            memory.copy_(values[node])

    def forward(self, values: Mapping[Node, Tensor], contexts: ContextInputs | None = None) -> dict[Node, Tensor]:
        """Returns the outputs, from the values (rows, columns) of inputs and given nodes. They are the caller's."""
        self.give(values)
        accepted = {self.names[node]: values[node] for node in self.program.provided}
        for node in self.program.sample_probes:
            rows = self.program.layout_of(node).num_samples
            zeros = torch.zeros(rows, node.shape.rows, dtype=self.dtype, device=self.device)
            accepted[self.names[node] + PROBE] = zeros
        if contexts is not None:
            accepted[SEQUENCE] = contexts.numbers(torch.empty(0, dtype=self.dtype, device=self.device))
            for node, operation in self.program.source.operations_in_loops.items():
                operation.begin([contexts.contexts[operand] for operand in contexts_of(node)])
        found = self.computer.compute(accepted, anew=True)
        return {node: found[self.names[node]] for node in self.program.question.outputs}

    def context_gradients(self) -> dict[Node, Tensor]:
        """Returns the gradients of what nodes in a loop read whole, after `backward`."""
        found: dict[Node, Tensor] = {}
        for node, operation in self.program.source.operations_in_loops.items():
            for context, gradient in zip(contexts_of(node), operation.gradients(), strict=True):
                found[context] = found[context] + gradient if context in found else gradient
        return found

    def backward(self, seeds: Mapping[Node, float | Tensor]) -> dict[Node, Tensor]:
        """Returns gradients of probed nodes, inputs and given nodes, (rows, columns).

        Gradients of parameters go to their own memory. `seeds`: gradients of the criteria; a plain number is that of a
        1 x 1 criterion.
        """
        accepted = {}
        for node in self.program.question.criteria:
            seed = seeds[node]
            accepted[self.names[node]] = seed if isinstance(seed, Tensor) else self._seed(seed)
        for memory in self._cleared:
            memory.zero_()
        outputs = self.computer.compute(accepted)
        return {
            node: outputs[found] if isinstance(found, str) else found.clone() for node, found in self._found.items()
        }

    def _seed(self, weight: float) -> Tensor:
        """Returns a number as the gradient of a criterion."""
        if weight not in self._seeds:
            self._seeds = {weight: torch.full((1, 1), weight, dtype=self.dtype, device=self.device)}
        return self._seeds[weight]

    @cached_property
    def overwritten(self) -> set[Node]:
        """The stored nodes whose gradients `backward` overwrites."""
        if self.program.question.accumulates or not self.program.question.criteria:
            return set()
        bound = {matrix.name for matrix in self.program.computation.outside}
        return {node for node in self.program.source.number if node.is_stored and self.names[node] + GRADIENT in bound}

    @cached_property
    def _given(self) -> dict[Node, Tensor]:
        """The memory of given values without samples."""
        nodes = self.program.source.nodes
        named = {node: nodes[number].memory for node, number in self.program.source.number.items()}
        return {node: self.memory[name] for node, name in named.items() if name and not node.is_stored}

    @cached_property
    def _cleared(self) -> list[Tensor]:
        """The memory of gradients that are the runner's own."""
        own = [self.names[node] + GRADIENT for node in self.program.source.number if not node.is_stored]
        own += [self.names[node] + PROBE + GRADIENT for node in self.program.source.probe]
        return [self.memory[name] for name in own if name in self.memory]

    @cached_property
    def _found(self) -> dict[Node, str | Tensor]:
        """The gradients that `backward` gives: the names of outputs, or memory."""
        question, found = self.program.question, dict[Node, str | Tensor]()
        for node in self.program.provided:
            if question.flags.get(node, False):
                found[node] = self.names[node]
        for node in self.program.source.probe:
            name = self.names[node] + PROBE
            found[node] = self.memory.get(name + GRADIENT, name)
        for node in self.program.source.number:
            is_given = not node.operands or node in question.given
            if not node.is_stored and is_given and self.names[node] + GRADIENT in self.memory:
                found[node] = self.memory[self.names[node] + GRADIENT]
        return found


class Runners:
    """Runners of the programs of a network's questions, for use by one thread.

    The last runners are kept; runners for sequences from the second time on, since most lengths do not come again.
    """

    def __init__(
        self,
        state: Callable[[Question], tuple[object, ...]],
        program_of: Callable[[Question, Program | None], Program],
        runner_of: Callable[[Program], Runner],
    ) -> None:
        """`state`: the dependences of a runner besides the question's key, while the bonds of the runner last.

        `program_of`: the program of a question, like that of an equal question if one is given.
        """
        self._state, self._program_of, self._runner_of = state, program_of, runner_of
        self._of_samples = SecondUseCache[Runner](_MOST_RUNNERS, _MOST_RUNNERS)
        self._of_sequences = SecondUseCache[Runner](_MOST_SEQUENCES, _MOST_ONCE)
        self._recent: dict[Question, tuple[tuple[object, ...], Runner]] = {}

    def __len__(self) -> int:
        return len(self._of_samples) + len(self._of_sequences)

    def find(self, question: Question) -> Runner:
        """Returns a runner for a question: a known one that works on the present objects and memory, or a new one."""
        state = self._state(question)
        recent = self._recent.get(question)
        if recent is not None and recent[0] == state and recent[1].is_current():
            return recent[1]
        key, layout = (*question.key, *state), question.layout
        kept = self._of_sequences if layout is not None and layout.are_sequences else self._of_samples
        found = kept.find(key)
        if found is not None and found.is_current():
            if len(self._recent) >= _MOST_RECENT:
                self._recent.clear()
            self._recent[question] = state, found
            return found
        return kept.keep(key, self._made(question, kept.take_spare(key, lambda other: other[1:] == key[1:])))

    def _made(self, question: Question, spare: Runner | None) -> Runner:
        """Returns the spare runner, changed to the question, or else a new runner.

        The spare runner ran an equal question for other samples.
        """
        if spare is not None and not spare.is_current():
            spare = None
        program = self._program_of(question, None if spare is None else spare.program)
        if spare is not None and spare.change(program):
            self._recent = {asked: known for asked, known in self._recent.items() if known[1] is not spare}
            return spare
        return self._runner_of(program)

    def clear(self) -> None:
        self._recent.clear()
        self._of_samples.clear()
        self._of_sequences.clear()


class UnitRunner(Runner):
    """A runner with random numbers and memory for gradients of its own: units may share parameters."""

    def __init__(self, program: Program, dtype: torch.dtype, device: torch.device):
        self.generator = torch.Generator()
        super().__init__(program, self.generator, Gradients(), dtype, device, {})

    def backward(self, seeds: Mapping[Node, float | Tensor]) -> dict[Node, Tensor]:
        for node in set(self.gradients) - self.overwritten:
            self.gradients[node].zero_()
        return super().backward(seeds)
