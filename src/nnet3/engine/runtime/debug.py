"""Debug mode: print each command with its results, and stop at the first NaN or infinity."""

from __future__ import annotations

from itertools import groupby
from operator import itemgetter
from typing import TextIO

import numpy as np
import torch
from torch import Tensor

from nnet3.base.index import NO_TIME, N, T, distinct, format_time_span
from nnet3.engine.ir.commands import AccessMode, Backprop, Propagate
from nnet3.engine.ir.computation import NnetComputation
from nnet3.engine.ir.formatting import format_submatrix
from nnet3.engine.ir.matrices import is_finite
from nnet3.engine.runtime.link import LinkedComputation
from nnet3.engine.runtime.plan import SegmentPlan
from nnet3.errors import NumericalError

_MAX_SHOWN = 4  # norms on a line, sequences in a message


class Tracer:
    """Runs segments command by command and looks at the results of every command."""

    def __init__(self, computation: NnetComputation, stream: TextIO) -> None:
        self.computation, self.stream = computation, stream
        self._in_body = computation.commands_in_bodies()

    def run(self, linked: LinkedComputation, segment: SegmentPlan) -> None:
        """Run one segment. Raises NumericalError at the first command that wrote a NaN or an infinity."""
        self.linked = linked
        seen = segment.start
        for (number, iteration), calls in groupby(linked.calls_one_by_one(segment), itemgetter(0, 1)):
            for idle in range(seen, number):
                self._look_at(idle)
            for *_, call in calls:
                call()
            self._look_at(number, iteration)
            seen = max(seen, number + 1)
        for idle in range(seen, segment.end):
            self._look_at(idle)

    def _look_at(self, number: int, iteration: int = 0) -> None:
        text = self.computation.numbered_command(number, number in self._in_body)
        text += f" [iteration {iteration}]" if number in self._in_body else ""
        written = [(s, self.linked.view(self.computation, s, number, iteration)) for s in self._written(number)]
        norms = [f"|{format_submatrix(self.computation, s)}|={float(value.norm()):.6g}" for s, value in written]
        if len(norms) > _MAX_SHOWN:
            norms[_MAX_SHOWN:] = ["..."]
        print("  ".join([text, *norms]), file=self.stream)
        for submatrix, value in written:
            if not is_finite(value):
                what = describe_rows(self.computation, submatrix, bad_rows(value), iteration, self._node(number))
                raise NumericalError(f"{_kind(value)} in {text}: written to {what}")
        self._look_at_update(number, text)

    def _written(self, number: int) -> list[int]:
        """Returns the sub-matrices to which command `number` wrote."""
        command = self.computation.commands[number]
        accesses = command.accesses(self.computation)
        return list(dict.fromkeys(a.submatrix for a in accesses if a.mode is not AccessMode.READ))

    def _node(self, number: int) -> str:
        """Returns the node whose values command `number` computes, "" if it is no forward pass of a kernel."""
        command = self.computation.commands[number]
        return command.node if isinstance(command, Propagate) else ""

    def _look_at_update(self, number: int, text: str) -> None:
        command = self.computation.commands[number]
        if not isinstance(command, Backprop) or not command.update:
            return
        info = self.computation.kernels[command.kernel]
        planned = self.linked.plan.kernels[command.kernel]
        kernel = self.linked.kernels.for_update(planned, self.computation.need_model_derivative)
        parameters: dict[str, Tensor] = getattr(kernel, "parameters", dict)()
        for name, value in parameters.items():
            if not is_finite(value):
                raise NumericalError(f"{_kind(value)} in {text}: in the update of {name} of '{info.name}'")


def bad_rows(value: Tensor) -> np.ndarray:
    """Returns the rows of a matrix that hold a NaN or an infinity."""
    return np.flatnonzero((~torch.isfinite(value)).any(dim=1).cpu().numpy())


def describe_rows(
    computation: NnetComputation, submatrix: int, rows: np.ndarray, iteration: int = 0, node: str = ""
) -> str:
    """Describes rows of a sub-matrix in the network's terms: "node 'tdnn2.relu' (value), t=3..5 of n=0".

    `node`: whose values they are, where that is known; a matrix may have the times of another one.
    """
    block = computation.block_at(submatrix, iteration)
    row_text = f"row {rows[0]}" if len(rows) == 1 else f"rows {rows[0]}..{rows[-1]} ({len(rows)} of them)"
    info = computation.matrix_info.get(block.matrix)
    if info is None:
        return f"{format_submatrix(computation, submatrix)}, {row_text}"
    kind = "derivative" if info.is_deriv else "value"
    if info.indexes is None or (node and node != info.node):
        return f"node '{node or info.node}' ({kind}), {row_text}"
    indexes = info.indexes[block.row_offset + rows]
    sequences = [str(n) for n in distinct(indexes[:, N])]
    if len(sequences) > _MAX_SHOWN:
        sequences[_MAX_SHOWN:] = ["..."]
    times = format_time_span(indexes) if (indexes[:, T] != NO_TIME).any() else "one time step"
    return f"node '{info.node}' ({kind}), {times} of n={', '.join(sequences)}, {row_text}"


def _kind(value: Tensor) -> str:
    return "NaN" if torch.isnan(value).any() else "Inf"
