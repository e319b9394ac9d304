"""NnetComputer: runs a computation on matrices from outside."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from typing import Any, Protocol, TextIO

import torch
from torch import Tensor

from nnet3.computation.computation import NnetComputation
from nnet3.computation.kernel import Kernel
from nnet3.computation.matrices import Matrix, as_tensor
from nnet3.compute.debug import Tracer, bad_rows, describe_rows
from nnet3.compute.link import LinkedComputation, Segment, link
from nnet3.errors import ExecutionError, NumericalError
from nnet3.text import did_you_mean


class KernelSource(Protocol):
    """What runs a computation's kernels; `nnet3.Nnet` is one."""

    @property
    def components(self) -> Mapping[str, Any]:
        """Kernels by name."""


class NnetComputer:
    """Runs a computation, forward and then backward, as often as wanted.

        computer.accept_input("input", features)
        computer.run()                                   # up to the segment marker: the forward part
        posterior = computer.get_output("output")
        computer.accept_input("output", derivative)      # of something to be maximised
        computer.run()                                   # the backward part
        input_derivative = computer.get_output("input")

    Commands are bound to memory and components once, when the computer is made. After the last run the next
    `accept_input` begins again with the first, for the next minibatch; `reset` begins again at any time. Parameters
    that are changed in place are used by the next run. Streaming computations loop: each run takes one more chunk.

    Outputs are copies that stay as they are. Matrices are (rows, columns), rows in the order of the request.
    """

    def __init__(
        self,
        computation: NnetComputation,
        nnet: KernelSource,
        nnet_to_update: KernelSource | None = None,
        device: str | torch.device = "cpu",
        *,
        nnet_to_store_stats: KernelSource | None = None,
        dtype: torch.dtype | None = None,
        check_finite: bool = True,
        debug: bool = False,
        debug_file: TextIO | None = None,
    ) -> None:
        """Link the computation.

        The backward part changes `nnet_to_update` in place. Statistics go to `nnet_to_store_stats`, by default to
        `nnet_to_update`, or if there is none to `nnet`. `dtype` is by default that of the parameters of `nnet`.
        With `check_finite` outputs are looked at after each run; with `debug` every command is printed to
        `debug_file` (default: stderr), and the first NaN or infinity stops the run.

        Raises ExecutionError if there is nothing to update where the computation updates, or a component is missing.
        """
        for model in (nnet, nnet_to_update, nnet_to_store_stats):
            if model is not None and not hasattr(model, "components"):
                hint = ": give its .nnet" if hasattr(model, "nnet") else ""
                raise ExecutionError(f"expected a network, got {type(model).__name__}{hint}")
        self.check_finite = check_finite
        self.computation = computation
        self.dtype = dtype or _parameter_dtype(nnet)
        self.linked: LinkedComputation = link(
            computation,
            nnet.components,
            device,
            self.dtype,
            kernels_to_update=None if nnet_to_update is None else nnet_to_update.components,
            kernels_to_store_stats=None if nnet_to_store_stats is None else nnet_to_store_stats.components,
            fill_undefined=debug,
        )
        self.device = self.linked.binder.device
        self._tracer = Tracer(self.linked.binder, debug_file or sys.stderr) if debug else None
        self._segment: Segment | None = self.linked.segment_at(0)

    def reset(self) -> None:
        """Begin again with the first run, whatever has been run so far; accepted inputs and outputs are dropped."""
        self.linked.state.clear()
        self._segment = self.linked.segment_at(0)

    def accept_input(self, name: str, matrix: Matrix) -> None:
        """Give a matrix to the next run: an input's value, or later the derivative of an output.

        It is copied and converted. Raises ExecutionError for a name that the next run does not take (naming those
        it does), for a wrong size, and for anything but a tensor or array of real numbers.
        """
        if self._segment is None:
            self.reset()
        accepts = self._segment.accepts if self._segment is not None else {}
        if name not in accepts:
            raise ExecutionError(self._unwanted_input(name, accepts))
        block = self.computation.submatrices[accepts[name]]
        what = f"derivative of output '{name}'" if self._is_output(name) else f"input '{name}'"
        tensor = as_tensor(matrix, what, dtype=self.dtype, device=self.device, copy=True)
        shape, expected = tuple(tensor.shape), (block.num_rows, block.num_cols)
        if shape != expected:
            raise ExecutionError(f"{what}: expected a matrix of (rows, columns) {expected}, got {shape}")
        self.linked.state.accepted[name] = tensor

    def run(self) -> None:
        """Run up to the next segment marker, or to the end.

        Raises ExecutionError if an input is missing or the end was reached before, NumericalError if an output is
        not finite. After an error in the middle of a run the computer is reset.
        """
        segment, state = self._segment, self.linked.state
        if segment is None:
            raise ExecutionError("the computation has ended: accept the next inputs or call reset() to begin again")
        missing = [f"'{name}'" for name in segment.accepts if name not in state.accepted]
        if missing:
            raise ExecutionError(f"missing before run(): {', '.join(missing)}; give them with accept_input()")
        try:
            with torch.no_grad():
                if self._tracer is not None:
                    self._tracer.run(segment)
                else:
                    for call in segment.calls:
                        call()
        except BaseException:
            self.reset()
            raise
        state.accepted.clear()
        self._segment = self.linked.segment_at(segment.next_start)
        if self.check_finite:
            self._check_outputs(segment)

    def get_output(self, name: str) -> Tensor:
        """An output's value after the forward run, an input's derivative after the backward run: (rows, columns)."""
        provided = self.linked.state.provided
        if name in provided:
            return provided[name]
        names = {name for segment in self.linked.segments.values() for name in segment.provides}
        if name in names:
            raise ExecutionError(f"'{name}' has not been computed yet: call run() first")
        if name in {io.name for io in self.computation.inputs}:
            raise ExecutionError(f"no derivative of input '{name}' was requested when the computation was compiled")
        raise ExecutionError(f"there is no output '{name}'; {_choice(name, names)}")

    def _is_output(self, name: str) -> bool:
        return name in {io.name for io in self.computation.outputs}

    def _unwanted_input(self, name: str, accepts: Mapping[str, int]) -> str:
        later = [n for segment in self.linked.segments.values() for n in segment.accepts]
        if name in later:
            return f"'{name}' is not for the next run, which takes {_quoted(accepts)}; call run() or reset() first"
        if self._is_output(name):
            return f"no derivative of output '{name}' was declared when the computation was compiled"
        return f"there is no input '{name}'; {_choice(name, accepts)}"

    def _check_outputs(self, segment: Segment) -> None:
        provided = self.linked.state.provided
        # Sums are a cheap first look (a NaN or infinity makes the sum one), and the device is waited for only once.
        sums = [provided[name].sum().isfinite() for name in segment.provides]
        if not sums or bool(torch.stack(sums).all()):
            return
        for name, submatrix in segment.provides.items():
            rows = bad_rows(provided[name])
            if len(rows):
                what = f"output '{name}'" if self._is_output(name) else f"derivative of input '{name}'"
                where = describe_rows(self.computation, submatrix, rows[:1])
                raise NumericalError(
                    f"the {what} is not finite in {len(rows)} of {len(provided[name])} rows, the first is {where}; "
                    "run with debug=True to see which command began it, or check_finite=False to accept it"
                )


def _parameter_dtype(nnet: KernelSource) -> torch.dtype:
    tensors = (tensor for component in nnet.components.values() for tensor in _parameters(component))
    return next((tensor.dtype for tensor in tensors if tensor.is_floating_point()), torch.float32)


def _parameters(component: Kernel) -> Iterator[Tensor]:
    """The tensors of a kernel that has any: trained ones, then fixed ones."""
    yield from getattr(component, "parameters", dict)().values()
    yield from (getattr(component, name) for name in getattr(component, "constant_names", ()))


def _quoted(names: Mapping[str, int] | set[str]) -> str:
    return ", ".join(f"'{name}'" for name in names) or "nothing"


def _choice(name: str, names: Mapping[str, int] | set[str]) -> str:
    return did_you_mean(name, names) or f"there is: {_quoted(names)}"
