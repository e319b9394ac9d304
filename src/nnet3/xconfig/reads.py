"""Reads: functions by which layer types read the values of their keys from a network that has the layer.

A read looks at what the network has under the layer's name and gives a value, or None if there is nothing to see.
Keys without a read have the value of the first component setting of the same name, or their default. A read need not
be careful: what is read is believed only if the layer that it makes is the one in the network.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from nnet3.xconfig.found import Found
from nnet3.xconfig.statements import show
from nnet3.xconfig.term import Term

Read = Callable[["Found"], Any]
Reads = Mapping[str, Read]


def shown(value: Any) -> str:
    """A setting as a config line has it: numbers in the fewest digits that give the same float32."""
    if isinstance(value, tuple):
        return ",".join(map(shown, value))
    return str(np.float32(value)) if isinstance(value, float) else show(value)


def setting(key: str, *suffixes: str) -> Read:
    """A setting of the first of some components that is there."""

    def read(found: Found) -> Any:
        return next((found.get(suffix, key) for suffix in suffixes if found.settings(suffix)), None)

    return read


def output_dim(*suffixes: str) -> Read:
    """The output dimension of the first of some components that is there."""
    return setting("output-dim", *suffixes)


def has(suffix: str) -> Read:
    """Reads True if there is such a component."""
    return lambda found: bool(found.settings(suffix))


def objective(found: Found) -> str | None:
    """The objective of the output of the layer's name."""
    return getattr(found.node(), "objective", None)


def output_delay(found: Found) -> int | None:
    """The offset that the output of the layer's name takes all its parts at."""
    term = found.term()
    offsets = {_offset(part) for part in _parts(term)} if term is not None else set()
    return offsets.pop() if len(offsets) == 1 else None


def _parts(term: Term) -> list[Term]:
    return [part for part in term.arguments if isinstance(part, Term)] if term.operator == "Append" else [term]


def _offset(term: Term) -> int:
    return int(str(term.arguments[1])) if term.operator == "Offset" else 0


def delay(found: Found) -> int | None:
    """The offset at which the layer reads itself."""
    own = set(found.members)
    for term in found.terms():
        for part in subterms(term):
            if part.operator == "IfDefined" and own.intersection(part.names()):
                return _offset(_parts(part.arguments[0])[0]) if isinstance(part.arguments[0], Term) else None
    return None


def scale_in(suffix: str, of_layer: bool | None = None) -> Read:
    """The scale in what a node reads; 1 if there is none. `of_layer`: of the layer's own nodes (True), of others."""

    def read(found: Found) -> float | None:
        term = found.term(suffix)
        if term is None:
            return None
        for part in subterms(term):
            own = set(found.members).intersection(part.names())
            if part.operator == "Scale" and of_layer in (None, bool(own)):
                return float(str(part.arguments[0]))
        return 1.0

    return read


def subterms(term: Term) -> Iterator[Term]:
    """A term and all terms in it, the outer ones first."""
    yield term
    for argument in term.arguments:
        if isinstance(argument, Term):
            yield from subterms(argument)
