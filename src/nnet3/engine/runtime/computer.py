"""NnetComputer: runs a computation on matrices from outside."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Protocol, TextIO

import numpy as np
import torch
from torch import Tensor

from nnet3.base.text import did_you_mean
from nnet3.engine.ir.computation import NnetComputation
from nnet3.engine.runtime.constants import Constants
from nnet3.engine.runtime.debug import Tracer, bad_rows, describe_rows
from nnet3.engine.runtime.dtypes import DTYPES
from nnet3.engine.runtime.kernels import Kernels
from nnet3.engine.runtime.link import LinkedComputation, link
from nnet3.engine.runtime.linker import RunState
from nnet3.engine.runtime.memory import Lease, OneThread, checked_device, pool_of, unrecorded
from nnet3.engine.runtime.models import check_fingerprint, check_one_dtype, check_tensors, common_dtype, model_dtype
from nnet3.engine.runtime.outside import accepted_matrix, check_outside, outside_dtype, results_in
from nnet3.engine.runtime.plan import Plan, Port, SegmentPlan
from nnet3.engine.runtime.plan_family import plan_of
from nnet3.errors import ExecutionError, NumericalError, check_kind


class KernelSource(Protocol):
    """The owner of a computation's kernels; `nnet3.Nnet` is one."""

    @property
    def components(self) -> Mapping[str, Any]:
        """The kernels by the names of components."""


class Observer(Protocol):
    """Runs segments in the place of the computer, and looks at what happens."""

    def run(self, linked: LinkedComputation, segment: SegmentPlan) -> None:
        """Make all calls of the segment, in order."""


class NnetComputer:
    """Runs a computation, forward and then backward, as often as wanted.

        computer.accept_input("input", features)
        computer.run()                                   # up to the segment marker: the forward pass
        posterior = computer.get_output("output")
        computer.accept_input("output", derivative)      # of something to be maximised
        computer.run()                                   # the backward pass
        input_derivative = computer.get_output("input")

    After the last run the next `accept_input` begins again with the first, for the next minibatch; `reset` begins
    again at any time. Parameters that are changed in place are used by the next run.

    Computers share memory. A computer has an arena to itself from its first run to its last, or to `reset`, or until it
    is forgotten: the arena keeps the values that the backward pass needs. Then the next computer may have it. Several
    computers of one computation can run in several threads; one computer belongs to one thread at a time. A copy (also
    by pickle) begins with the first run.

    Outputs are copies that may be changed. Matrices are (rows, columns), rows in the order of the request.
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
        outside: Mapping[str, Tensor] | None = None,
    ) -> None:
        """Plan and link the computation.

        The backward pass changes `nnet_to_update` in place. Statistics go to `nnet_to_store_stats`, by default to
        `nnet_to_update`, or without one to `nnet`. `dtype` is the dtype of the parameters, of `nnet` or bound from
        outside; by default a network without any computes in the dtype last given to `Nnet.to`, else in the dtype of
        its inputs. With `check_finite` outputs are looked at after each run; with `debug` every command is
        printed to `debug_file` (default: stderr), and the first NaN or infinity stops the run.

        `outside` binds memory by name: the computation's outside matrices (parameters, gradients), and if wanted inputs
        and outputs ("NAME"), derivatives ("NAME.deriv"), the next state of a stream ("NAME.after"), which are then read
        and written in place: nothing has to be accepted for them, and `get_output` gives the bound tensor itself.

        Raises ExecutionError if the computation updates and there is nothing to update, or leaves a component frozen
        that would change, if a component is missing, if the computation was compiled for another network, and for
        another dtype than the network's, outside memory that does not fit, and a missing device.
        """
        check_kind(computation, NnetComputation, "the computation", "what nnet3.compile gives")
        self._nnets = nnet, nnet_to_update, nnet_to_store_stats
        for number, model in enumerate(self._nnets):
            if (model is not None or number == 0) and not hasattr(model, "components"):
                hint = ": give its .nnet" if hasattr(model, "nnet") else ""
                raise ExecutionError(f"expected a network, got {type(model).__name__}{hint}")
        check_fingerprint(computation.fingerprint, nnet)
        self.computation, self.check_finite = computation, check_finite
        self.debug, self.debug_file = debug, debug_file
        self.device, self.outside = checked_device(device), dict(outside or {})
        self._given_dtype = model_dtype(nnet, dtype) or outside_dtype(computation, self.outside)
        self._begin()

    # ---- what a copy does not take along ----

    def _begin(self) -> None:
        self._observer: Observer | None = None
        if self.debug:
            self._observer = Tracer(self.computation, self.debug_file or sys.stderr)
        self._lease: Lease | None = None
        self._state, self._alone = RunState(), OneThread()
        self._next_segment = 0
        self._prepare(self._given_dtype or torch.float32)

    def __getstate__(self) -> dict[str, Any]:
        kept = ("_nnets", "computation", "check_finite", "debug", "device", "outside", "_given_dtype")
        return {name: getattr(self, name) for name in kept} | {"debug_file": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._begin()

    # ---- plan and link ----

    @property
    def dtype(self) -> torch.dtype:
        """The dtype of the computation; where nothing gives it, float32 until inputs have another."""
        return DTYPES[self.plan.dtype]

    def _prepare(self, dtype: torch.dtype) -> None:
        self.plan: Plan = plan_of(self.computation, dtype, prove=self.debug)
        self._wanted: dict[int, dict[str, Port]] = {}  # by segment and name
        self._bound: dict[int, dict[str, Tensor]] = {}  # results in outside memory, by segment and name
        check_outside(self.plan, self.outside, self.device)
        self._constants = Constants(self.device)
        self._kernels = self._look_up_kernels(self.plan)

    def change(self, computation: NnetComputation) -> None:
        """Run another computation of the same network from now on, beginning with its first run.

        The effect is a new computer's, and comes quicker if both computations are of one family (see
        `nnet3.ComputationCache`): common parts stay bound. Raises the errors of making a computer, and then changes
        nothing.
        """
        check_kind(computation, NnetComputation, "the computation", "what nnet3.compile gives")
        with self._alone():
            if computation.fingerprint is not self.computation.fingerprint:
                check_fingerprint(computation.fingerprint, self._nnets[0])
            before, plan = self.plan, plan_of(computation, self.dtype, prove=self.debug)
            if plan.outside is not before.outside or len(self.outside) > len(plan.outside):
                check_outside(plan, self.outside, self.device)
            has_its_calls = plan.has_calls_of(before)
            kernels = self._kernels if has_its_calls else self._look_up_kernels(plan)
            self._reset()
            self.computation, self.plan, self._kernels = computation, plan, kernels
            if not plan.has_tables_of(before):
                self._constants = self._constants.of_plan(before, plan) if has_its_calls else Constants(self.device)
            self._wanted.clear()
            self._bound.clear()
            if self.debug:
                self._observer = Tracer(computation, self.debug_file or sys.stderr)

    def _look_up_kernels(self, plan: Plan) -> Kernels:
        network, *others = self._nnets
        to_update, to_store_stats = (model if model is None else model.components for model in others)
        kernels = Kernels(network.components, to_update, to_store_stats)
        kernels.check(plan)
        return kernels

    def _linked(self) -> LinkedComputation:
        """Returns the calls, bound to the computer's present arena."""
        if self._lease is None:
            self._lease = Lease(pool_of(self.device), self.plan.num_bytes, self)
        if not self._kernels.are_the_same():
            self._kernels, self._constants = self._look_up_kernels(self.plan), Constants(self.device)
        links = self._lease.arena.links
        found: LinkedComputation | None = links.get(self)
        if found is not None and found.kernels is not self._kernels:
            found = None
        if found is not None and found.plan is self.plan:
            return found
        links.pop(self, None)  # what is interrupted while it moves is gone
        if found is None or not found.move(self.plan, self._constants):
            if found is not None:  # views of one tensor have parted, and others would in further plans
                self.plan = self.plan.changed(are_views_apart=True)
            found = link(
                *(self.plan, self._kernels, self._lease.arena, self._state, self._constants),
                outside=self.outside,
                fill_undefined=self.debug,
                prove=self.debug or self.computation.prove,
            )
        links[self] = found
        return found

    def _release(self) -> None:
        if self._lease is not None:
            self._lease.release()
            self._lease = None

    # ---- running ----

    def reset(self) -> None:
        """Begin again with the first run, after any runs; accepted inputs and outputs are dropped."""
        with self._alone():
            self._reset()

    def _reset(self) -> None:
        self._release()
        self._state.clear()
        self._next_segment = 0

    @property
    def _segment(self) -> SegmentPlan | None:
        """The segment that the next run goes through; None after the last."""
        segments = self.plan.segments
        return segments[self._next_segment] if self._next_segment < len(segments) else None

    def wanted(self) -> list[Port]:
        """Returns what the next run takes from `accept_input`."""
        return list(self._ports().values())

    def _ports(self) -> dict[str, Port]:
        """Returns the same by name."""
        found = self._wanted.get(self._next_segment)
        if found is None:
            segment = self._segment
            accepts = () if segment is None else segment.accepts
            found = {port.name: port for port in accepts if port.bound_name not in self.outside}
            self._wanted[self._next_segment] = found
        return found

    def accept_input(self, name: str, matrix: Tensor | np.ndarray) -> None:
        """Give a matrix of floats or integers to the next run: an input's value, or later the derivative of an output.

        The matrix is copied. Raises ExecutionError for a name unknown to the next run (naming the known names), for a
        wrong size, and for anything but a matrix of numbers.
        """
        check_kind(name, str, "the name of an input", "a str")
        with self._alone():
            if self._segment is None:
                self._reset()
            port = self._ports().get(name)
            if port is None:
                raise ExecutionError(self._unwanted_input(name))
            self._state.accepted[name] = accepted_matrix(matrix, port.shape, self._what(port, "input"), self.device)

    def run(self) -> None:
        """Run up to the next segment marker, or to the end.

        Raises ExecutionError if an input is missing, if the end was reached before, or if the network has changed so
        that the computation does not hold for it any more; NumericalError if an output is not finite. After an error
        in the middle of a run the computer is reset.
        """
        with self._alone():
            self._run()

    def _run(self) -> None:
        segment = self._segment
        if segment is None:
            raise ExecutionError("the computation has ended: accept the next inputs or call reset() to begin again")
        if not self._ports().keys() <= self._state.accepted.keys():
            missing = _quoted(name for name in self._ports() if name not in self._state.accepted)
            raise ExecutionError(f"missing before run(): {missing}; give them with accept_input()")
        if segment.start == 0:
            self._begin_first_run()
        try:
            with unrecorded():
                linked = self._linked()
                if self._observer is None:
                    linked.run_segment(self._next_segment)
                else:
                    self._observer.run(linked, segment)
        except BaseException as error:
            self._reset()
            if isinstance(error, RuntimeError):
                check_one_dtype(self._nnets[0], self.dtype)
            raise
        self._state.accepted.clear()
        if self._next_segment not in self._bound:
            self._bound[self._next_segment] = results_in(self.outside, segment)
        self._state.provided.update(self._bound[self._next_segment])
        self._next_segment += 1
        if self._segment is None:
            self._release()
        if self.check_finite:
            self._check_outputs(segment)

    def _begin_first_run(self) -> None:
        check_fingerprint(self.computation.fingerprint, self._nnets[0])
        if self._given_dtype is not None:
            check_tensors(self._nnets[0], self._given_dtype)
        self._kernels.check_frozen(self.plan)
        self._state.provided.clear()
        if self._given_dtype is None:
            dtype = common_dtype([*self._state.accepted.values(), *self.outside.values()])
            if dtype != self.dtype:
                self._release()
                self._prepare(dtype)

    @contextmanager
    def observed(self, observer: Observer) -> Iterator[None]:
        """Let an observer do the running, for instance `nnet3.engine.runtime.profile.Profiler`."""
        before, self._observer = self._observer, observer
        try:
            yield
        finally:
            self._observer = before

    def compute(self, inputs: Mapping[str, Tensor], *, anew: bool = False) -> dict[str, Tensor]:
        """Returns all outputs of the next run, or with `anew` of the first run, for all its inputs.

        Outputs are tensors on the device, and inputs are not copied before. Raises as `accept_input` and `run` do.
        """
        with self._alone():
            if anew or self._segment is None:
                self._reset()
            ports = self._ports()
            for name, given in inputs.items():
                port = ports.get(name)
                if port is None:
                    raise ExecutionError(self._unwanted_input(name))
                if given.shape != port.shape:
                    what, got = self._what(port, "input"), tuple(given.shape)
                    raise ExecutionError(f"{what}: expected a matrix of (rows, columns) {port.shape}, got {got}")
            self._state.accepted.update(inputs)
            self._run()
            outputs = dict(self._state.provided)
            self._state.provided.clear()
        return outputs

    def get_output(self, name: str) -> Tensor:
        """Returns an output's value after the forward run, an input's derivative after the backward run."""
        check_kind(name, str, "the name of an output", "a str")
        with self._alone():
            provided = self._state.provided
            if name in provided:
                return provided[name]
            names = [port.name for segment in self.plan.segments for port in segment.provides]
            if name in names:
                raise ExecutionError(f"'{name}' has not been computed yet: call run() first")
            if name in {io.name for io in self.computation.inputs}:
                raise ExecutionError(f"no derivative of input '{name}' was requested when the computation was compiled")
            raise ExecutionError(f"there is no output '{name}'; {_choice(name, names)}")

    def take_output(self, name: str) -> Tensor:
        """Returns the result of `get_output`, and forgets it: nobody else holds it."""
        output = self.get_output(name)
        with self._alone():
            del self._state.provided[name]
        return output

    # ---- messages ----

    @staticmethod
    def _what(port: Port, kind: str) -> str:
        return (
            f"derivative of {'output' if kind == 'input' else 'input'} '{port.name}'"
            if port.is_deriv
            else f"{kind} '{port.name}'"
        )

    def _unwanted_input(self, name: str) -> str:
        accepts = self._ports()
        ports = [port for segment in self.plan.segments for port in segment.accepts if port.name == name]
        if ports and all(port.bound_name in self.outside for port in ports):
            return f"'{name}' is bound to outside memory: write it there"
        if ports:
            return f"'{name}' is not for the next run, which takes {_quoted(accepts)}; call run() or reset() first"
        if name in {io.name for io in self.computation.outputs}:
            return f"no derivative of output '{name}' was declared when the computation was compiled"
        return f"there is no input '{name}'; {_choice(name, accepts)}"

    def _check_outputs(self, segment: SegmentPlan) -> None:
        provided = self._state.provided
        # Sums are a cheap first look (a NaN or infinity makes the sum one), and the device is waited for only once.
        sums = [provided[port.name].sum().isfinite() for port in segment.provides]
        if not sums or bool(torch.stack(sums).all()):
            return
        for port in segment.provides:
            rows = bad_rows(provided[port.name])
            if len(rows):
                where = describe_rows(self.computation, port.submatrix, rows[:1])
                raise NumericalError(
                    f"the {self._what(port, 'output')} is not finite in {len(rows)} of {port.num_rows} rows, the first "
                    f"is {where}; run with debug=True to see which command began it, or check_finite=False to accept it"
                )


def _quoted(names: Iterable[str]) -> str:
    return ", ".join(f"'{name}'" for name in names) or "nothing"


def _choice(name: str, names: Iterable[str]) -> str:
    return did_you_mean(name, names) or f"there is: {_quoted(names)}"
