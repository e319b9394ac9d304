"""Fingerprints of networks: a short digest of each aspect on which compiled programs depend."""

from __future__ import annotations

import hashlib
import operator
from typing import NamedTuple

from nnet3.components import Component
from nnet3.structure.nodes import NnetNode

_PLAIN = (bool, int, str, tuple)
_NOT_PROGRAM = frozenset({"is_gradient"})  # settings of updates, which no program depends on


def nodes_digest(nodes: tuple[NnetNode, ...]) -> str:
    """Returns a digest of the nodes and their descriptors."""
    return _digest("\n".join(map(str, nodes)))


class _Known(NamedTuple):
    """The digest of a component, and the state for which it holds."""

    kind: type
    names: list[str]
    values: list[object]
    shapes: list[tuple[int, ...]]
    digest: str

    def holds_for(self, component: Component) -> bool:
        """True if the component has the very attributes that it had, but for floats, and parameters of equal sizes."""
        if type(component) is not self.kind or list(vars(component)) != self.names:
            return False
        values = vars(component).values()
        pairs = zip(values, self.values, strict=True)
        same = all(map(operator.is_, values, self.values)) or all(
            a is b or type(a) is type(b) is float for a, b in pairs
        )
        return same and _shapes(component) == self.shapes


class ComponentDigests:
    """The digests of a network's components, each kept until its component changes."""

    def __init__(self) -> None:
        self._known: dict[str, _Known] = {}

    def of(self, name: str, component: Component) -> str:
        """Returns `component_digest(component)` of the component of this name."""
        known = self._known.get(name)
        if known is not None and known.holds_for(component):
            return known.digest
        digest = component_digest(component)
        if isinstance(component, Component):
            names, values = list(vars(component)), list(vars(component).values())
            if not any(isinstance(value, list) for value in values):  # its parts would change by themselves
                self._known[name] = _Known(type(component), names, values, _shapes(component), digest)
        return digest


def component_digest(component: Component) -> str:
    """Returns a digest of what programs depend on: type, sizes, promises (which test mode changes), settings such as
    time offsets. Values of parameters and statistics do not count.
    """
    return _digest(repr(_settings(component)))


def _settings(component: Component) -> tuple[object, ...]:
    """Returns type, promises, sizes of parameters, and all plain settings by name."""
    if not isinstance(component, Component):
        return (f"not a component, but {component!r}",)
    changing = _NOT_PROGRAM.union(component.statistic_names)
    plain = [
        (key, value)
        for key, value in vars(component).items()
        if isinstance(value, _PLAIN) and not key.startswith("_") and key not in changing
    ]
    sizes = list(zip(component.parameters(), map(tuple, _shapes(component)), strict=True))
    flags = int(component.properties), component.identity_indexes, component.needs_indexes
    return component.type_name, *flags, sizes, sorted(plain)


def _shapes(component: Component) -> list[tuple[int, ...]]:
    return [getattr(tensor, "shape", ()) for tensor in component.parameters().values()]


def _digest(text: str) -> str:
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()
