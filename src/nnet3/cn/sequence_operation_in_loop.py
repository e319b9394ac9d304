"""SequenceOperationInLoop: a node of whole sequences inside a loop over frames, such as a decoder's attention.

A step of the loop has one frame of each sequence of the first operand. The further operands, the *contexts*, lie
outside of the loop: all their frames are known before the loop begins. No program holds contexts: a run is given
the contexts, and gradients of contexts are collected in place, like the gradients of a component's parameters.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import torch
from torch import Tensor

from nnet3.cn.node import Node
from nnet3.cn.operation import Matrices, Operation, put
from nnet3.cn.samples import SampleLayout
from nnet3.cn.sequence_operation import SampleRows, SequenceOperation
from nnet3.cn.shape import Shape
from nnet3.engine.ir.kernel import InputPromises, KernelInfo
from nnet3.errors import ShapeError


@dataclass(eq=False)
class SequenceOperationInLoop(Operation):
    """The outputs of a program for frames (operand 0), with the sequence numbers of operand 1, and contexts.

    `wanted`: whether the gradient of each context is wanted.
    """

    type: ClassVar[str] = "stepped"
    num_operands: ClassVar[int] = 2
    whole: SequenceOperation
    wanted: Sequence[bool]
    _contexts: list[SampleRows] = field(default_factory=list)
    _padded: list[Tensor] = field(default_factory=list)  # (sequences, most frames, rows) each, or (columns, rows)
    _there: Tensor = field(default_factory=lambda: torch.zeros(0, 0))
    _gradients: list[Tensor] = field(default_factory=list)

    def begin(self, contexts: Sequence[SampleRows]) -> None:
        """Takes the contexts of a run, and forgets the gradients of the last run."""
        number = len(contexts[0].samples.lengths)
        dtype = contexts[0].tensor.dtype
        if number > 2 / torch.finfo(dtype).eps:
            raise ShapeError(f"{self.whole.type}: {dtype} does not tell {number} sequences apart: use a wider dtype")
        self._contexts = list(contexts)
        padded = [each.tensor if each.layout is None else each.padded()[0] for each in contexts]
        self._padded, self._there = padded, contexts[0].padded()[1]
        self._gradients = [torch.zeros_like(frames) for frames in padded]

    def gradients(self) -> list[Tensor]:
        """Returns the gradients of the contexts, as their rows lie."""
        pairs = zip(self._contexts, self._gradients, strict=True)
        return [gradient if each.layout is None else each.unpadded(gradient) for each, gradient in pairs]

    def info(self, name: str, operands: Sequence[Shape], value: Shape, wanted: Sequence[bool]) -> KernelInfo:
        promises = InputPromises(backprop_needs_value=True, accumulates_deriv=True)
        apart = {"row_by_row": True, "rows_apart": True, "backprop_rows_apart": True}
        return KernelInfo(name, (promises,) * 2, updatable=any(self.wanted), merges_updates=True, **apart)

    def structure(self) -> dict[str, Any]:
        return self.whole.structure()

    def replay_state(self) -> list[object] | None:
        return None  # contexts are others in each run

    def evaluate(self, inputs: Matrices, output: Tensor) -> None:
        output.copy_(self._value(inputs[0], inputs[1], self._padded))

    def run_backward(
        self, inputs: Matrices, output: Tensor, output_deriv: Tensor, memo: Any, to_update: Any,
        input_derivs: Sequence[Tensor | None], accumulate: Sequence[bool], indexes: Any,
    ) -> None:  # fmt: skip
        """Autograd's gradients of the frames and, where there is something to update, of the contexts."""
        dx = input_derivs[0]
        with torch.enable_grad():
            frames = inputs[0].detach().requires_grad_(dx is not None and bool(dx.numel()))
            updates = [to_update is not None and wanted for wanted in self.wanted]
            contexts = [each.detach().requires_grad_(is_) for each, is_ in zip(self._padded, updates, strict=True)]
            value = self._value(frames, inputs[1], contexts)
            leaves = [leaf for leaf in (frames, *contexts) if leaf.requires_grad]
            found = dict(zip(leaves, torch.autograd.grad(value, leaves, output_deriv), strict=True)) if leaves else {}
        for context, gradient in zip(contexts, self._gradients, strict=True):
            if context in found:
                gradient += found[context]
        if dx is not None and frames in found:
            put(dx, found[frames], accumulate[0])

    def _value(self, frames: Tensor, numbers: Tensor, contexts: Sequence[Tensor]) -> Tensor:
        """Returns the rows of the value; all rows of one sequence are computed together."""
        sequence = numbers.detach()[:, 0].long()
        order = torch.argsort(sequence, stable=True)
        counts = torch.bincount(sequence, minlength=len(self._there))
        position = torch.empty_like(sequence)  # of a row among those of its sequence
        position[order] = torch.arange(len(order), device=order.device) - (counts.cumsum(0) - counts)[sequence[order]]
        together = frames.new_zeros(len(counts), int(counts.max()), frames.shape[1])
        together = together.index_put((sequence, position), frames)
        return self.whole.step(together, contexts, self._there)[sequence, position]


@dataclass(frozen=True, eq=False)
class ContextInputs:
    """Further inputs of a run, for nodes of whole sequences in loops: values by context, and the samples of rows."""

    contexts: Mapping[Node, SampleRows]
    layout: SampleLayout

    def numbers(self, like: Tensor) -> Tensor:
        """Returns the number of the sequence of each row, (samples, 1)."""
        return torch.as_tensor(self.layout.sequence_of_row).to(like)[:, None]


def row_operands(node: Node) -> Sequence[Node]:
    """Returns the operands that a program reads row by row: of a node of whole sequences the first one, else all."""
    return node.operands[:1] if node.operation.is_whole else node.operands


def contexts_of(node: Node) -> Sequence[Node]:
    """Returns the operands that are known as wholes before a program begins."""
    return node.operands[1:] if node.operation.is_whole else ()
