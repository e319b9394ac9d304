"""SequenceOperation: a node of whole sequences, computed by PyTorch between the programs of a network.

The value may have another axis than the operands: a number of a whole sequence, frames of another input. Values are
rows of samples, as in programs; the gradient is autograd's.
"""

from __future__ import annotations

import abc
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar, TypeAlias

import numpy as np
import torch
from torch import Tensor

from nnet3.cn.operation import Operation
from nnet3.cn.samples import SampleLayout
from nnet3.cn.shape import Shape
from nnet3.errors import GradientError, NetworkError, ShapeError

#: From the gradient of a value to the gradients of the operands; None for an operand without one.
Backward: TypeAlias = Callable[[Tensor], Sequence[Tensor | None]]


@dataclass(frozen=True, eq=False)
class SampleRows:
    """A value: `tensor`, (samples, rows), and the layout of the samples; without samples (columns, rows)."""

    tensor: Tensor
    layout: SampleLayout | None

    @property
    def samples(self) -> SampleLayout:
        assert self.layout is not None, "a value with samples has a layout"
        return self.layout

    def numbers(self, array: np.ndarray) -> Tensor:
        """Returns integers as a tensor on the device of the value."""
        return torch.as_tensor(array, dtype=torch.int64, device=self.tensor.device)

    @property
    def sequence(self) -> Tensor:
        """The number of the sequence of each row, (samples,)."""
        return self.numbers(self.samples.sequence_of_row)

    def at(self, rows: np.ndarray) -> Tensor:
        """Returns the rows with numbers `rows`, (n, rows of the value); zeros for -1."""
        positions = self.numbers(rows)
        if not len(self.tensor):
            return self.tensor.new_zeros(len(rows), self.tensor.shape[1])
        found = self.tensor.index_select(0, positions.clamp(min=0))
        return found if (rows >= 0).all() else torch.where((positions >= 0)[:, None], found, 0.0)

    def padded(self) -> tuple[Tensor, Tensor]:
        """Returns (sequences, most frames, rows), zeros at the ends, and where frames are, (sequences, most frames)."""
        lengths = np.array(self.samples.lengths)
        frame, sequence = np.meshgrid(np.arange(lengths.max(initial=0)), np.arange(len(lengths)))
        rows = self.samples.rows_at(sequence.ravel(), frame.ravel())
        return self.at(rows).unflatten(0, sequence.shape), self.numbers(rows).unflatten(0, sequence.shape) >= 0

    def unpadded(self, padded: Tensor) -> Tensor:
        """Returns the rows of the samples, (samples, rows), of a tensor padded like the result of `padded`."""
        return padded[self.sequence, self.numbers(self.samples.frame_of_row)]


class SequenceOperation(Operation):
    """Base. `integers`: the operands that are class indexes or numbers of frames, which have no gradient.

    `is_lazy`: whether the value is computed only if a user needs it (see `after`).
    """

    is_whole: ClassVar[bool] = True
    is_lazy: ClassVar[bool] = False
    integers: ClassVar[tuple[int, ...]] = ()

    @property
    def looks_at_other_frames(self) -> bool:
        return True

    def infer(self, operands: Sequence[Shape]) -> Shape:
        """Returns the shape of the first operand, unless an operation says another."""
        check_samples(self.type, *operands)
        return operands[0]

    @abc.abstractmethod
    def compute(self, operands: Sequence[SampleRows], own: SampleLayout | None) -> Tensor:
        """Returns the rows of the value, by functions known to autograd; `own`: the value's samples."""

    def differentiate(self, operands: Sequence[SampleRows], own: SampleLayout | None) -> tuple[Tensor, Backward] | None:
        """Returns the value with its gradient, found in less time than by autograd; None where autograd is to find it.

        Autograd does not look on. Operands with a gradient have `requires_grad`.
        """
        return None

    def after(self, operand: SequenceOperation) -> SequenceOperation | None:
        """Returns the operation that finds this one's value without that of a lazy operand, the only one; or None.

        `differentiate` of the operation takes the operands of `operand`.
        """
        return None

    def reduced(self, how: str) -> SequenceOperation | None:
        """Returns, of a lazy operation, what finds the value reduced over the frames of each sequence; or None."""
        return None

    def step(self, frames: Tensor, contexts: Sequence[Tensor], there: Tensor) -> Tensor:
        """Returns the value (sequences, number, rows of it) at frames (sequences, number, rows) of the first operand.

        `contexts`: the further operands, (sequences, most frames, rows) each, or without samples (columns, rows);
        `there`: a mask of the existing frames of the first context.
        """
        raise NetworkError(f"{self.type} cannot stand in a loop: its class {type(self).__name__} has no step()")

    def check_gradient(self, operand: int) -> None:
        if operand in self.integers:
            raise GradientError(f"{self.type} has no gradient with respect to integers")


def check_samples(type: str, *operands: Shape) -> None:
    """Raises ShapeError unless all operands have samples."""
    if not all(operand.has_samples for operand in operands):
        raise ShapeError(f"{type} needs operands with samples")
