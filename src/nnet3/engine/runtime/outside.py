"""Matrices from outside: memory bound by name, and matrices given for one run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from nnet3.base.text import did_you_mean
from nnet3.engine.ir.computation import NnetComputation
from nnet3.engine.ir.matrices import as_tensor, warn_of_gradient
from nnet3.engine.runtime.dtypes import DTYPES
from nnet3.engine.runtime.memory import unrecorded
from nnet3.engine.runtime.plan import OutsidePlan, Plan, Port, SegmentPlan
from nnet3.errors import ExecutionError


def results_in(outside: Mapping[str, Tensor], segment: SegmentPlan) -> dict[str, Tensor]:
    """Returns the results of a segment that are in outside memory, by the names of ports."""
    named = segment.bound_results().items()
    return {port.name: outside[name] for name, port in named if name in outside}


def check_outside(plan: Plan, outside: Mapping[str, Any], device: torch.device) -> None:
    """Check bound memory: all `outside` matrices of the program by name, and any inputs and outputs.

    Inputs and outputs go by their names, derivatives by "NAME.deriv". Any strides are allowed, except that written
    memory must not hold an element twice. Raises ExecutionError for missing or unknown names, for
    anything but matrices, and for wrong shapes, types or devices.
    """
    needed = {memory.name: memory for memory in plan.outside}
    ports = {port.bound_name: port for segment in plan.segments for port in segment.accepts}
    results = {name: port for segment in plan.segments for name, port in segment.bound_results().items()}
    for name in needed:
        if name not in outside:
            raise ExecutionError(
                f"the program works on memory '{name}', which is not bound: give outside={{'{name}': ...}}"
            )
    known: dict[str, OutsidePlan | Port] = {**results, **ports, **needed}
    for name, tensor in outside.items():
        if name not in known:
            hint = did_you_mean(name, known) or f"there is: {', '.join(known) or 'nothing'}"
            raise ExecutionError(f"nothing of the name '{name}' can be bound to outside memory; {hint}")
        if not isinstance(tensor, Tensor):
            raise ExecutionError(f"outside memory '{name}' must be a tensor, got {type(tensor).__name__}")
        expected = known[name]
        shape = expected.num_rows, expected.num_cols
        if tensor.shape != shape:
            raise ExecutionError(
                f"outside memory '{name}': expected (rows, columns) {shape}, got {tuple(tensor.shape)}"
            )
        if name in needed and tensor.dtype != DTYPES[plan.dtype]:
            raise ExecutionError(f"outside memory '{name}': expected {plan.dtype}, got {tensor.dtype}")
        if tensor.device != device:
            raise ExecutionError(f"outside memory '{name}' is on {tensor.device}, but the computation runs on {device}")
        is_written = name in results or (name in needed and needed[name].writable)
        if is_written and tensor.numel() and 0 in [s for s, n in zip(tensor.stride(), shape, strict=True) if n > 1]:
            raise ExecutionError(f"outside memory '{name}' is written to, but is an expanded tensor: give a copy")
        if is_written and tensor.is_inference():
            raise ExecutionError(f"outside memory '{name}' is written to, but was made in inference mode: give a copy")


def outside_dtype(computation: NnetComputation, outside: Mapping[str, Any]) -> torch.dtype | None:
    """Returns the dtype of the first bound matrix; None if there is none."""
    tensors = (outside.get(memory.name) for memory in computation.outside)
    return next((tensor.dtype for tensor in tensors if isinstance(tensor, Tensor)), None)


def accepted_matrix(matrix: Any, shape: tuple[int, int], what: str, device: torch.device) -> Tensor:
    """Returns a copy of the user's matrix on the device, in its own dtype (for dtypes of NumPy alone: the nearest).

    Raises ExecutionError for other shapes, and for anything without floats or integers.
    """
    if isinstance(matrix, Tensor):
        warn_of_gradient(matrix, what)
    with unrecorded():
        tensor = as_tensor(matrix, what, device=device, copy=True)
    if tensor.shape != shape:
        raise ExecutionError(f"{what}: expected a matrix of (rows, columns) {shape}, got {tuple(tensor.shape)}")
    return tensor
