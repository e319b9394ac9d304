"""ComputationRequest: what is given and what is wanted (seeds: nnet3_data_types)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from nnet3.errors import ArgumentError, RequestError, check_kind
from nnet3.index import as_index_table, find_rows, format_indexes, has_duplicates
from nnet3.nnet.network import Nnet
from nnet3.structure.nodes import ComponentNode, InputNode
from nnet3.text import did_you_mean


@dataclass(frozen=True, eq=False)
class IoSpecification:
    """A named input or output: its indexes (rows, 3) n, t, x in the order of the rows of its matrix.

    `has_deriv`: for an input, that its derivative is wanted; for an output, that its derivative will be given.
    """

    name: str
    indexes: np.ndarray
    has_deriv: bool = False

    def __init__(self, name: str, indexes: Any, has_deriv: bool = False):
        check_kind(name, str, "the name of an input or output", "a str")
        check_kind(has_deriv, (bool, np.bool_), f"has_deriv of '{name}'", "True or False")
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "indexes", as_index_table(indexes, f"indexes of '{name}'"))
        object.__setattr__(self, "has_deriv", bool(has_deriv))

    def key(self) -> tuple[str, bytes, bool]:
        """Equal for equal specifications."""
        return self.name, self.indexes.tobytes(), self.has_deriv

    def __str__(self) -> str:
        return f"{self.name} {format_indexes(self.indexes)}{' with derivative' if self.has_deriv else ''}"


@dataclass(frozen=True, eq=False)
class ComputationRequest:
    """Inputs provided (for input nodes, or ready-made values of component nodes) and outputs wanted."""

    inputs: Sequence[IoSpecification]
    outputs: Sequence[IoSpecification]
    need_model_derivative: bool = False
    store_component_stats: bool = False

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

    @property
    def needs_backward(self) -> bool:
        return any(io.has_deriv for io in (*self.inputs, *self.outputs)) or self.need_model_derivative

    def key(self) -> tuple[object, ...]:
        """Equal for equal requests: what a cache of computations looks up."""
        ios = tuple(io.key() for io in self.inputs), tuple(io.key() for io in self.outputs)
        return (*ios, self.need_model_derivative, self.store_component_stats)

    def check(self, nnet: Nnet) -> None:
        """Raise RequestError unless names, indexes and flags fit each other and the network."""
        if not isinstance(nnet, Nnet):
            hint = ": give its .nnet" if hasattr(nnet, "nnet") else ""
            raise RequestError(f"expected a network to compile, got {type(nnet).__name__}{hint}")
        if not self.outputs:
            raise RequestError("the request asks for no output")
        for kind, ios, names in (
            ("input", self.inputs, [n.name for n in nnet.nodes if isinstance(n, InputNode | ComponentNode)]),
            ("output", self.outputs, nnet.output_names),
        ):
            seen: set[str] = set()
            for io in ios:
                _check_io(kind, io, names, seen)
        if self.needs_backward and not any(io.has_deriv for io in self.outputs):
            raise RequestError("derivatives are asked for, but no output has has_deriv=True: nothing to start from")

    def __str__(self) -> str:
        lines = [f"input {io}" for io in self.inputs] + [f"output {io}" for io in self.outputs]
        flags = [name for name in ("need_model_derivative", "store_component_stats") if getattr(self, name)]
        return "\n".join(lines + flags)


def check_request(nnet: Nnet, request: ComputationRequest) -> None:
    """Raise ArgumentError for something that is no request, RequestError for one that does not fit the network."""
    check_kind(request, ComputationRequest, "the request", "a ComputationRequest")
    request.check(nnet)


def _check_io(kind: str, io: IoSpecification, names: list[str], seen: set[str]) -> None:
    if io.name not in names:
        hint = did_you_mean(io.name, names) or f"it has {', '.join(names)}"
        raise RequestError(f"the network has no {kind} '{io.name}'; {hint}")
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
