"""Kernels: the protocol by which the intermediate representation and the executor see components and operations."""

from __future__ import annotations

import re
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor


class Kernel(Protocol):
    """A forward and a backward function on matrices, with a state of its own: parameters and statistics.

    Matrices may be ranges of rows and columns of wider ones. A kernel without inputs is given an empty sequence.
    """

    def run_forward(self, inputs: Sequence[Tensor], output: Tensor, indexes: Any) -> Any:
        """Overwrite `output`; returns the memo for run_stats and run_backward."""

    def run_again(self, inputs: Sequence[Tensor], output: Tensor, memo: Any, indexes: Any) -> None:
        """Overwrite `output` by the result of the run_forward that left the memo; see `KernelInfo.repeats_forward`."""

    def run_stats(self, inputs: Sequence[Tensor], output: Tensor, memo: Any) -> None:
        """Add this forward pass to the kernel's statistics."""

    def run_backward(
        self,
        inputs: Sequence[Tensor],
        output: Tensor,
        output_deriv: Tensor,
        memo: Any,
        to_update: Any,
        input_derivs: Sequence[Tensor | None],
        accumulate: Sequence[bool],
        indexes: Any,
    ) -> None:
        """Fill all input derivatives but None, or add to derivatives marked in `accumulate`.

        Updates the kernel `to_update` if not None. `accumulate` is true only for inputs with the promise
        `accumulates_deriv`. Unneeded values are (0, 0).
        """

    def load_indexes(self, arrays: Mapping[str, np.ndarray], device: torch.device) -> Any:
        """Returns what the functions get as `indexes`, made from the named arrays of the computation."""

    # A kernel may also have `replay_state() -> Sequence[object] | None`: all that `run_forward` depends on besides its
    # operands and the contents of the tensors named, so that equal states (the same objects) mean the same arithmetic.
    # None, as for a kernel without it: on anything, for instance random numbers.
    # A kernel with `is_native` has `native_forward(inputs, output, indexes)`: operations of `nnet3.base.native` that do
    # as `run_forward` does, and depend on no more than `replay_state` says; None if there are none. The same for
    # `run_backward` is `native_backward`, with its operands, if there is one. Operations keep nothing that moves. A
    # kernel that promises `has_slices` has `slice(first, end, adds, goes_backward)`: see `slice_name`.


@dataclass(frozen=True)
class InputPromises:
    """The promises of a kernel about one input."""

    backprop_needs_value: bool = False
    propagate_in_place: bool = False  # the output may lie where this input lies
    backprop_in_place: bool = False  # the derivative of this input may lie where that of the output lies
    accumulates_deriv: bool = False  # backprop can add to the derivative of this input
    passes_deriv: bool = False  # the derivative of this input is that of the output, unchanged
    is_linear: bool = False  # row by row, the output is an affine function of this input while the others stay the same


@dataclass(frozen=True)
class KernelInfo:
    """All that lowering and passes may know of a kernel: promises, not types."""

    name: str
    inputs: tuple[InputPromises, ...] = field(default=(InputPromises(),))
    updatable: bool = False
    is_frozen: bool = False  # the program has no gradient for its parameters
    #: Output row i belongs to row i of every input that has samples: they have equal numbers of rows.
    row_by_row: bool = False
    #: Row by row, and an output row depends on its own rows alone, and on all of inputs that have no samples.
    rows_apart: bool = False
    backprop_rows_apart: bool = False  # so does a row of a derivative
    is_random: bool = False  # its forward pass draws random numbers
    backprop_is_linear: bool = True  # in the derivative of the output
    #: An update depends on all rows that it is given at once; it may be given those of several steps together.
    merges_updates: bool = False
    #: Its merged update draws random numbers: it comes after the derivatives of all kernels.
    learns_last: bool = False
    backprop_needs_output: bool = False
    backprop_needs_sign_only: bool = False  # of the output: whether each element is positive
    backprop_takes_input: bool = False  # instead of the output, which it makes again of its one input and the memo
    uses_memo: bool = False
    stores_stats: bool = False
    counts_backward: bool = False  # its backward pass counts what it does, though it stores no other statistics
    needs_indexes: bool = False  # its functions are given what `load_indexes` makes of named arrays
    indexes_go_on: bool = False  # these arrays go on as their rows do, however many there are
    repeats_forward: bool = False  # run_again gives to the same bits, for little, what run_forward has given
    has_slices: bool = False  # there are kernels of some of its columns: see `slice_name`
    slices_pack: bool = False  # a slice `packs`
    #: Without inputs it writes its weights, (columns of its first input, columns of its output), or to go backward
    #: (columns of its output, columns of its first input); it takes them, as it wrote them, as one more input.
    packs: bool = False

    @property
    def learns(self) -> bool:
        """True if a backward pass that updates changes something."""
        return self.updatable or self.stores_stats or self.counts_backward


_SLICE = re.compile(r"(.*)\[(\d+):(\d+)\]([+^]?)", re.DOTALL)


def slice_name(kernel: str, first: int, end: int, *, adds: bool = False, goes_backward: bool = False) -> str:
    """Returns the name of the kernel that multiplies columns [first, end) of the input of `kernel` as `kernel` does.

    The slice's first input has these columns. With `adds`, a second input is added instead of a bias. A slice that
    `goes_backward` packs weights for the derivative of these columns, and gives no output.
    """
    return f"{kernel}[{first}:{end}]{'+' if adds else '^' if goes_backward else ''}"


def named_slice(name: str) -> tuple[str, int, int, bool, bool] | None:
    """Returns the kernel, the columns, `adds` and `goes_backward`, from the name of a slice; else None."""
    match = _SLICE.fullmatch(name)
    return None if match is None else (match[1], int(match[2]), int(match[3]), match[4] == "+", match[4] == "^")


def whole_kernel(name: str, known: Container[str]) -> str:
    """Returns the name of the whole kernel for the name of a kernel or a slice; `known`: the names of whole kernels."""
    part = None if name in known else named_slice(name)
    return name if part is None else part[0]
