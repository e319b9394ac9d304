"""ComputationRequest: the given inputs and the wanted outputs, and the task of compiling for them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import chain
from typing import ClassVar

import numpy as np

from nnet3.base.index import T, find_rows, has_duplicates
from nnet3.base.options.compiling import CompileOptions
from nnet3.base.text import did_you_mean
from nnet3.engine.driver import CompileTask
from nnet3.engine.lowering.source import LoweringRequest, RequestedRows
from nnet3.errors import ArgumentError, RequestError, check_kind
from nnet3.model.nnet.network import Nnet
from nnet3.model.requests.io_specification import IoSpecification
from nnet3.model.requests.nnet_source import nnet_source
from nnet3.model.requests.request_series import RequestSeries
from nnet3.model.structure.nodes import ComponentNode, InputNode, NnetNode

_INT32 = np.iinfo(np.int32)
_DEFAULT_OPTIONS = CompileOptions()


@dataclass(frozen=True, eq=False)
class ComputationRequest:
    """Inputs provided (for input nodes, or ready-made values of component nodes) and outputs wanted.

    `need_model_derivative` asks for the gradients of all components but the `frozen`, for whose sake nothing goes
    backward. `nnet.frozen` are those with learning rate 0, which an update leaves as they are anyway.
    """

    inputs: Sequence[IoSpecification]
    outputs: Sequence[IoSpecification]
    need_model_derivative: bool = False
    store_component_stats: bool = False
    frozen: Collection[str] = frozenset()

    length_is_free: ClassVar[bool] = True  # programs for it may be continued to other lengths

    def __post_init__(self) -> None:
        for kind in ("inputs", "outputs"):
            ios = getattr(self, kind)
            if not isinstance(ios, Sequence) or not all(isinstance(io, IoSpecification) for io in ios):
                alone = ": put it in a list" if isinstance(ios, IoSpecification) else ""
                shown = f"a {type(ios).__name__}{alone}" if not isinstance(ios, list | tuple) else repr(ios)[:80]
                raise ArgumentError(f"{kind} of a request must be a list of IoSpecification, got {shown}")
            object.__setattr__(self, kind, tuple(ios))
        for flag in ("need_model_derivative", "store_component_stats"):
            check_kind(getattr(self, flag), (bool, np.bool_), flag, "True or False")
            object.__setattr__(self, flag, bool(getattr(self, flag)))
        are_names = isinstance(self.frozen, Collection) and all(isinstance(name, str) for name in self.frozen)
        if isinstance(self.frozen, str) or not are_names:
            raise ArgumentError(f"frozen must be names of components, as nnet.frozen is, got {self.frozen!r}"[:150])
        object.__setattr__(self, "frozen", frozenset(self.frozen))

    @property
    def needs_backward(self) -> bool:
        return any(io.has_deriv for io in (*self.inputs, *self.outputs)) or self.need_model_derivative

    @property
    def rows(self) -> list[np.ndarray]:
        """The indexes of all inputs and outputs."""
        return [io.indexes for io in (*self.inputs, *self.outputs)]

    def with_rows(self, inputs: Sequence[IoSpecification], outputs: Sequence[IoSpecification]) -> ComputationRequest:
        """Returns the request with other indexes (rows, 3) of each input and output, flags unchanged."""
        return replace(self, inputs=inputs, outputs=outputs)

    def key(self) -> tuple[object, ...]:
        """Returns the key in a cache of computations: equal for equal requests."""
        ios = tuple(io.key() for io in self.inputs), tuple(io.key() for io in self.outputs)
        return (*ios, *self._flags)

    @property
    def _flags(self) -> tuple[object, ...]:
        """All but inputs and outputs."""
        return self.need_model_derivative, self.store_component_stats, self.frozen

    def check(self, nnet: Nnet) -> None:
        """Raises RequestError unless names, indexes and flags fit together and fit the network `nnet`."""
        if not isinstance(nnet, Nnet):
            hint = ": give its .nnet" if hasattr(nnet, "nnet") else ""
            raise RequestError(f"expected a network to compile, got {type(nnet).__name__}{hint}")
        if not self.outputs:
            raise RequestError("the request asks for no output")
        for kind, ios, may_be in (("input", self.inputs, _may_be_given), ("output", self.outputs, self._may_be_wanted)):
            seen: set[str] = set()
            for io in ios:
                node = nnet.nodes[nnet.node_number[io.name]] if io.name in nnet.node_number else None
                if node is None or not may_be(node):
                    names = [node.name for node in nnet.nodes if may_be(node)]
                    hint = did_you_mean(io.name, names) or f"it has {', '.join(names)}"
                    raise RequestError(f"the network has no {kind} '{io.name}'; {hint}")
                _check_io(kind, io, seen)
        if self.needs_backward and not any(io.has_deriv for io in self.outputs):
            raise RequestError("derivatives are asked for, but no output has has_deriv=True: nothing to start from")
        for name in sorted(self.frozen):
            if name not in nnet.components:
                hint = did_you_mean(name, nnet.components)
                raise RequestError(f"the network has no component '{name}' to be frozen{'; ' + hint if hint else ''}")
        for name, component in nnet.components.items() if self.needs_backward else ():
            if component.inference_only:
                raise RequestError(
                    f"derivatives are asked for, but component '{name}' has none: {component.inference_only}"
                )

    def _may_be_wanted(self, node: NnetNode) -> bool:
        """Returns true for nodes that outputs may name."""
        return node.is_output

    def task(self, network: Nnet, options: CompileOptions | None = None) -> CompileTask:
        """The task of compiling the request for the present network. Raises RequestError for a request that does not
        fit.
        """
        self.check(network)
        options, fingerprint = checked_options(options), network.fingerprint()
        name, times = "\n".join(chain(*fingerprint.items())), self.deriv_times(options)
        series = RequestSeries(self, network, name, options)
        ios = tuple(tuple((io.name, io.has_deriv) for io in given) for given in (self.inputs, self.outputs))
        signature = type(self), name, ios, *self._flags
        return CompileTask(
            {"nnet": name, "request": self.key()},
            cache(lambda: (nnet_source(network), lowering_request(network, self, times))),
            options,
            fingerprint,
            cache(series.by_length),
            series.ragged,
            series.is_ragged,
            signature,
            lambda: self.rows,
        )

    def deriv_times(self, options: CompileOptions) -> tuple[int, int] | None:
        """Returns the first and last t with derivatives; None for no limits. Raises RequestError for an empty range."""
        first, last = options.min_deriv_time, options.max_deriv_time
        if options.max_deriv_time_relative is not None:
            times = [io.indexes[:, T].max() for io in self.outputs if len(io.indexes)]
            last = int(max(times, default=0)) + options.max_deriv_time_relative
        if first is None and last is None:
            return None
        first = int(_INT32.min) if first is None else first
        last = int(_INT32.max) if last is None else last
        if first > last:
            raise RequestError(
                f"min_deriv_time is {first}, but max_deriv_time_relative = {options.max_deriv_time_relative} ends "
                f"derivatives at t = {last}: give a larger one, or an earlier min_deriv_time"
            )
        return first, last

    def __str__(self) -> str:
        lines = [f"input {io}" for io in self.inputs] + [f"output {io}" for io in self.outputs]
        flags = [name for name in ("need_model_derivative", "store_component_stats") if getattr(self, name)]
        return "\n".join([*lines, *flags, *([f"frozen {', '.join(sorted(self.frozen))}"] if self.frozen else [])])


class StateRequest(ComputationRequest):
    """A request of a stream: outputs may also name component nodes, whose rows the next request is given."""

    length_is_free: ClassVar[bool] = False

    def _may_be_wanted(self, node: NnetNode) -> bool:
        return node.is_output or isinstance(node, ComponentNode)


def _may_be_given(node: NnetNode) -> bool:
    return isinstance(node, InputNode | ComponentNode)


def check_request(nnet: Nnet, request: ComputationRequest) -> None:
    """Raises ArgumentError for an object that is no request, RequestError for one that does not fit the network."""
    check_kind(request, ComputationRequest, "the request", "a ComputationRequest")
    request.check(nnet)


def checked_options(options: CompileOptions | None) -> CompileOptions:
    """Returns the options, or the default ones. Raises ArgumentError for something else."""
    check_kind(options, (CompileOptions, type(None)), "the options of compile", "CompileOptions")
    return _DEFAULT_OPTIONS if options is None else options


def lowering_request(
    nnet: Nnet, request: ComputationRequest, deriv_times: tuple[int, int] | None = None
) -> LoweringRequest:
    """Returns the request in terms of node numbers; derivatives only for t from deriv_times[0] to deriv_times[1]."""

    def rows(io: IoSpecification) -> RequestedRows:
        return RequestedRows(nnet.node_number[io.name], io.name, io.indexes, io.has_deriv)

    return LoweringRequest(
        [rows(io) for io in request.inputs],
        [rows(io) for io in request.outputs],
        request.need_model_derivative,
        request.store_component_stats,
        deriv_times=deriv_times,
        frozen=request.frozen if request.need_model_derivative else (),
    )


def _check_io(kind: str, io: IoSpecification, seen: set[str]) -> None:
    if io.name in seen:
        raise RequestError(f"{kind} '{io.name}' occurs twice in the request")
    seen.add(io.name)
    if len(io.indexes) == 0:
        raise RequestError(f"{kind} '{io.name}' has no indexes")
    if has_duplicates(io.indexes):
        first = find_rows(io.indexes, io.indexes)
        row = int(np.flatnonzero(first != np.arange(len(first)))[0])
        index = tuple(int(v) for v in io.indexes[row])
        raise RequestError(f"{kind} '{io.name}' has index (n, t, x) = {index} twice (again in row {row})")
