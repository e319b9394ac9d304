"""Operation: one type of computation node, its properties and functions (Sections 1.4 to 1.6 of the chapter).

An operation is a frozen dataclass whose fields are the options of the node; the operation is also the node's kernel.
Matrices inside are transposed: a value of shape D x S lies as S rows of D columns, so that a column of the chapter is a
row here; a value without samples, R x C, lies as C rows of R columns.
"""

from __future__ import annotations

import abc
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass
from typing import Any, ClassVar, TypeAlias

import numpy as np
import torch
from torch import Tensor

from nnet3.base.index import IndexTable
from nnet3.base.native import operations as native
from nnet3.base.native.operations import Operations
from nnet3.cn.options import checked_option, is_kind, kinds_of_fields
from nnet3.cn.shape import Shape
from nnet3.cn.source_nodes import NodeForm
from nnet3.engine.ir.kernel import InputPromises, Kernel, KernelInfo
from nnet3.engine.lowering.source import NodeKind
from nnet3.errors import ArgumentError, GradientError, NetworkError, ShapeError

Matrices: TypeAlias = Sequence[Tensor]
OWN_VALUE = -1
"""Stands for the node's own value in `gradient_needs`."""


@dataclass
class OperationState:
    """The state that kernels share besides parameters: the source of random numbers, and the mode."""

    generator: torch.Generator
    training: bool = False


class Operation(abc.ABC):
    """Base of all operations. `type` is the name in printouts and in the text form."""

    type: ClassVar[str]
    num_operands: ClassVar[int] = 1  # -1: any
    num_optional: ClassVar[int] = 0  # of these, how many may be left out, the last ones first
    weights: ClassVar[tuple[int, ...]] = ()  # operands that begin with random numbers if they are parameters
    #: For each operand, the values that its gradient needs: numbers of operands, or OWN_VALUE; () if none needs any.
    gradient_needs: ClassVar[tuple[frozenset[int], ...]] = ()
    #: The value may overwrite that of an operand of equal shape. The gradient of the last operand, which is
    #: computed last, may overwrite that of the node.
    evaluates_in_place: ClassVar[bool] = False
    gradient_in_place: ClassVar[bool] = False
    has_gradient: ClassVar[bool] = True
    gradient_needs_sign_only: ClassVar[bool] = False  # of the node's own value
    uses_memo: ClassVar[bool] = False
    repeats_forward: ClassVar[bool] = False  # whether `evaluate` costs little and, without a memo, may be called again
    is_given: ClassVar[bool] = False  # whether the value comes from outside with each run
    looked_at: ClassVar[int] = 0  # the operand of which other frames matter, if they do
    is_whole: ClassVar[bool] = False  # whether PyTorch computes it of whole sequences, between programs
    steps: ClassVar[bool] = False  # if so, whether it can be computed frame by frame of its first operand, by `step`
    #: Factors of the operands of which the value is a linear combination; () if it is none.
    linear_factors: ClassVar[tuple[float, ...]] = ()
    is_bilinear: ClassVar[bool] = False  # whether it is linear in each of its two operands, element by element

    def __post_init__(self) -> None:
        for name, kind in kinds_of_fields(type(self)).items():
            if is_kind(kind):
                object.__setattr__(self, name, checked_option(getattr(self, name), kind, f"{self.type}: {name}"))
        self.check()

    def check(self) -> None:
        """Raises NetworkError for options of the right kinds whose values cannot be."""

    # ---- when the graph is built ----

    def infer(self, operands: Sequence[Shape]) -> Shape:
        """Returns the value's shape, from shapes of `operands`. Raises ShapeError with the expected shapes."""
        raise NetworkError(f"{self.type} has no shape: {type(self).__name__} must define infer(operands)")

    def num_classes(self, operands: Sequence[Shape]) -> dict[int, int]:
        """Returns the number of classes for each operand of class indexes."""
        return {}

    def check_number_of_operands(self, number: int) -> None:
        """Raises ShapeError unless a node may have `number` operands."""
        fewest = self.num_operands - self.num_optional
        if self.num_operands >= 0 and not fewest <= number <= self.num_operands:
            wanted = f"{fewest} to {self.num_operands}" if self.num_optional else f"{fewest}"
            raise ShapeError(f"{self.type} has {wanted} operands, got {number}")

    def check_gradient(self, operand: int) -> None:
        """Raises GradientError if the gradient with respect to this operand does not exist."""
        if not self.has_gradient:
            raise GradientError(f"{self.type} has no gradient: it cannot be part of a criterion that is trained")

    def chooses_columns(self, operand: int) -> bool:
        """Tells whether the value is columns of this operand, with a sparse gradient as a result."""
        return False

    def reads_sparsely(self, operand: int) -> bool:
        """Tells whether a sparse input may be this operand without becoming dense."""
        return False

    def info(self, name: str, operands: Sequence[Shape], value: Shape, wanted: Sequence[bool]) -> KernelInfo:
        """Returns the promises of the kernel. `wanted` says for each operand whether its gradient is asked for."""
        needed: set[int] = set()
        for number, is_wanted in enumerate(wanted):
            if is_wanted:
                needed |= self.needs_of_gradient(number)
        # A gradient without samples sums over all frames of a recurrence: it is computed at once, after the loop.
        merges = value.has_samples and any(w and not s.has_samples for w, s in zip(wanted, operands, strict=True))
        inputs = []
        for number, shape in enumerate(operands):
            fits = shape == value
            inputs.append(
                InputPromises(
                    backprop_needs_value=number in needed,
                    propagate_in_place=self.evaluates_in_place and fits,
                    backprop_in_place=self.gradient_in_place and fits and number == len(operands) - 1,
                    accumulates_deriv=True,
                    passes_deriv=(passes := fits and self.linear_factors[number : number + 1] == (1.0,)),
                    is_linear=passes,
                )
            )
        return KernelInfo(
            name,
            tuple(inputs),
            row_by_row=value.has_samples,
            rows_apart=value.has_samples,
            backprop_rows_apart=value.has_samples,
            is_random=self.is_random,
            merges_updates=merges and not self.uses_memo,
            backprop_needs_output=OWN_VALUE in needed,
            uses_memo=self.uses_memo and any(wanted),
            backprop_needs_sign_only=self.gradient_needs_sign_only,
            repeats_forward=self.repeats_forward and not self.uses_memo,
        )

    def needs_of_gradient(self, operand: int) -> frozenset[int]:
        return self.gradient_needs[operand] if self.gradient_needs else frozenset()

    def kernel(self, state: OperationState) -> Kernel:
        """Returns the kernel of a node: the operation itself, unless it needs more than options from `state`."""
        return self

    def gradient_kernel(self) -> Kernel:
        """Returns the kernel in which the gradients of the operation's own parameters are collected, if it has any."""
        return self

    @property
    def is_random(self) -> bool:
        """True if `evaluate` draws random numbers."""
        return False

    # ---- as lowering sees it ----

    def form(self, operands: Sequence[Shape], value: Shape) -> NodeForm:
        """Returns the form of a node whose operands and value have these shapes; given and stored nodes have none."""
        return NodeForm(NodeKind.KERNEL)

    @property
    def looks_at_other_frames(self) -> bool:
        """True if a frame of the value depends on other frames of the operand `looked_at`."""
        return False

    def precompute_indexes(
        self, inputs: IndexTable, outputs: IndexTable, need_backprop: bool
    ) -> dict[str, np.ndarray] | None:
        """Returns the named arrays of a kernel that `needs_indexes`."""
        return None

    # ---- of operations that keep something; see `nnet3.cn.dependence` ----

    def parameters(self) -> dict[str, Tensor]:
        """Returns the operation's own parameters, by name."""
        return {}

    @property
    def needs_training(self) -> bool:
        """True if any of these is to be trained."""
        return False

    def in_mode(self, training: bool) -> Operation:
        """Returns the operation as it computes in training, or else in test mode."""
        return self

    def contents(self) -> tuple[list[Tensor], object]:
        """Returns the numbers, and the settings besides options, of which values in test mode are made."""
        return [], None

    def variant(self, training: bool) -> Hashable:
        """Returns the settings on which programs depend and which may change after the node's creation."""
        return None

    def held(self, training: bool) -> list[object]:
        """Returns the objects of which the operation's kernels in this mode are made at present."""
        return []

    # ---- in text ----

    def options(self) -> dict[str, Any]:
        """Returns the options by name, as literals; None is left out."""
        values = {name: getattr(self, name) for name in kinds_of_fields(type(self))}
        return {name: value for name, value in values.items() if value is not None}

    def structure(self) -> dict[str, Any]:
        """Returns the options on which programs depend."""
        return self.options()

    @classmethod
    def option_kinds(cls) -> dict[str, str]:
        """Returns the operation's options, with the kinds of their values as annotated."""
        return kinds_of_fields(cls)

    @classmethod
    def from_options(cls, **options: Any) -> Operation:
        """Returns the operation described by `options`. Raises ArgumentError, NetworkError for other options."""
        own: tuple[Field[Any], ...] = fields(cls) if is_dataclass(cls) else ()
        for each in own:
            if each.name not in options and each.default is MISSING:
                raise ArgumentError(f"{cls.type}: {each.name} is missing")
        return cls(**options)

    # ---- the two functions of the chapter ----

    def evaluate(self, inputs: Matrices, output: Tensor) -> Any:
        """Overwrites `output`; returns the memo that `compute_partial_gradient` is given."""
        raise NetworkError(f"{self.type} has no value: {type(self).__name__} must define evaluate(inputs, output)")

    def compute_partial_gradient(
        self,
        child: int,
        inputs: Matrices,
        output: Tensor,
        gradient: Tensor,
        memo: Any,
        child_gradient: Tensor,
        accumulate: bool,
    ) -> None:
        """Writes the gradient with respect to operand `child` to `child_gradient`, or adds it.

        `gradient` is the node's gradient; values not named by `gradient_needs` are (0, 0).
        """
        raise GradientError(f"{self.type} has no gradient")

    # ---- the same by native code: operations of `nnet3.base.native`, None where there are none ----

    is_native: ClassVar[bool] = False  # whether there are some

    def native_value(self, inputs: Matrices, output: Tensor) -> Operations | None:
        """Returns native code for `evaluate`."""
        return None

    def native_gradient(
        self, child: int, inputs: Matrices, output: Tensor, gradient: Tensor, dx: Tensor, accumulate: bool
    ) -> Operations | None:
        """Returns native code for `compute_partial_gradient`."""
        return None

    # ---- the kernel protocol ----

    def native_forward(self, inputs: Matrices, output: Tensor, indexes: Any) -> Operations | None:
        return self.native_value(inputs, output)

    def native_backward(
        self,
        inputs: Matrices,
        output: Tensor,
        output_deriv: Tensor,
        memo: Any,
        to_update: Any,
        input_derivs: Sequence[Tensor | None],
        accumulate: Sequence[bool],
        indexes: Any,
    ) -> Operations | None:
        return native.in_a_row(
            *(
                self.native_gradient(child, inputs, output, output_deriv, deriv, accumulate[child])
                for child, deriv in enumerate(input_derivs)
                if deriv is not None and deriv.numel()
            )
        )

    def run_forward(self, inputs: Matrices, output: Tensor, indexes: Any) -> Any:
        return self.evaluate(inputs, output)

    def run_again(self, inputs: Matrices, output: Tensor, memo: Any, indexes: Any) -> None:
        self.evaluate(inputs, output)

    def run_stats(self, inputs: Matrices, output: Tensor, memo: Any) -> None:
        """Operations keep no statistics."""

    def run_backward(
        self,
        inputs: Matrices,
        output: Tensor,
        output_deriv: Tensor,
        memo: Any,
        to_update: Any,
        input_derivs: Sequence[Tensor | None],
        accumulate: Sequence[bool],
        indexes: Any,
    ) -> None:
        # In order: of a node that is an operand twice, the first gradient overwrites and the second is added.
        for child, deriv in enumerate(input_derivs):
            if deriv is not None and deriv.numel():
                self.compute_partial_gradient(child, inputs, output, output_deriv, memo, deriv, accumulate[child])

    def load_indexes(self, arrays: Mapping[str, np.ndarray], device: torch.device) -> Any:
        return None

    def replay_state(self) -> list[object] | None:
        return []  # operations do not change


def put(dest: Tensor, value: Tensor, accumulate: bool) -> None:
    """dest = value, or dest += value."""
    if accumulate:
        dest.add_(value)
    else:
        dest.copy_(value)


def put_product(dest: Tensor, left: Tensor, right: Tensor, accumulate: bool) -> None:
    """dest = left * right, or dest += left * right, element by element."""
    if accumulate:
        dest.addcmul_(left, right)
    else:
        torch.mul(left, right, out=dest)


def put_scaled(dest: Tensor, value: Tensor, factor: float | Tensor, accumulate: bool) -> None:
    """dest = factor * value, or dest += factor * value; a tensor factor has one element or broadcasts."""
    if isinstance(factor, Tensor):
        put_product(dest, value, factor, accumulate)
    elif accumulate:
        dest.add_(value, alpha=factor)
    else:
        torch.mul(value, factor, out=dest)


def native_put(
    dest: Tensor, value: Tensor, accumulate: bool, factor: float = 1.0, other: Tensor | None = None
) -> Operations | None:
    """dest = factor * value, times `other` if given, or dest += the product; a row gets the sum of a value's rows."""
    before = dest if accumulate else None
    if dest.shape != value.shape:
        return native.sum_rows(dest, value, other, before, factor)
    if other is not None:
        return native.multiply(dest, value, other, before, factor)
    return native.add(dest, value, factor) if accumulate else native.scaled_copy(dest, value, factor)


def check_class_indexes(type: str, indexes: Tensor, classes: int, *, least: int = 0) -> None:
    """Raises ShapeError for class indexes outside `least` ... classes - 1. Indexes on a device are not waited for."""
    if indexes.device.type != "cpu" or not indexes.numel():
        return
    lowest, highest = (each.item() for each in indexes.aminmax())
    if not (lowest >= least and highest < classes):
        bad = ~((indexes >= least) & (indexes < classes))
        raise ShapeError(
            f"{type}: expected class indexes {least} ... {classes - 1}, as there are {classes} rows of scores, "
            f"got {indexes[bad][0].item():g}"
        )


def equal_columns(type: str, x: Shape, y: Shape) -> int | str | None:
    """Returns the common number of columns of two operands; raises ShapeError for different numbers."""
    if x.cols != y.cols:
        raise ShapeError(f"{type} needs operands with as many columns as each other")
    return x.cols


def equal_shapes(type: str, x: Shape, y: Shape) -> Shape:
    """Returns the common shape of two operands; raises ShapeError for different shapes."""
    if x != y:
        raise ShapeError(f"{type} needs operands of equal shape")
    return x
