"""Fingerprints of networks: short digests of the aspects on which compiled programs depend."""

from __future__ import annotations

import hashlib
import operator
from collections.abc import Iterable, Mapping
from itertools import chain, compress
from typing import Any, NamedTuple

from nnet3.model.components.base import Component
from nnet3.model.structure.nodes import NnetNode

_PLAIN = (bool, int, str, tuple)
_SHAPE = operator.attrgetter("shape")
_NOT_PROGRAM = frozenset({"is_gradient", "is_native", "by_amx"})  # settings that no program depends on


def nodes_digest(nodes: tuple[NnetNode, ...]) -> str:
    """Returns a digest of the nodes and their descriptors."""
    return _digest("\n".join(map(str, nodes)))


class _State(NamedTuple):
    """All on which the digests of some components depend, and more."""

    names: list[str]
    kinds: list[type]
    keys: list[str]
    values: list[object]
    parameters: list[Any]  # those of the values that have a shape, which may change in place
    shapes: list[tuple[int, ...]]

    @classmethod
    def of(cls, components: Mapping[str, Component]) -> _State:
        """Returns the attributes of components and their parts."""
        flat = with_parts(components.values())
        held = [*map(vars, flat)]
        values = [*chain.from_iterable(map(dict.values, held))]
        named = [getattr(each, name) for each in flat for name in each.parameter_names]
        parameters = [each for each in named if hasattr(each, "shape")]
        shapes = [*map(_SHAPE, parameters)]
        return cls(list(components), [*map(type, flat)], [*chain.from_iterable(held)], values, parameters, shapes)

    def is_of(self, components: Mapping[str, Component]) -> bool:
        """Returns true if all values are the same objects, floats not counted, and the rest is equal."""
        flat = with_parts(components.values())
        if list(components) != self.names or [*map(type, flat)] != self.kinds:
            return False
        held = [*map(vars, flat)]
        if [*chain.from_iterable(held)] != self.keys:
            return False
        values = [*chain.from_iterable(map(dict.values, held))]
        changed = compress(zip(values, self.values, strict=True), map(operator.is_not, values, self.values))
        if not all(type(one) is type(another) is float for one, another in changed):
            return False
        return [*map(_SHAPE, self.parameters)] == self.shapes


class ComponentDigests:
    """The digests of a network's components, kept until a component changes."""

    def __init__(self) -> None:
        self._known: tuple[_State, dict[str, str]] | None = None

    def of(self, components: Mapping[str, Component]) -> dict[str, str]:
        """Returns aspect -> digest: "component NAME" for each component."""
        if self._known is not None and self._known[0].is_of(components):
            return self._known[1]
        digests = {f"component {name}": component_digest(component) for name, component in components.items()}
        are_components = all(issubclass(kind, Component) for kind in {*map(type, components.values())})
        self._known = (_State.of(components), digests) if are_components else None
        return digests


def with_parts(components: Iterable[Component]) -> list[Component]:
    """Returns components, followed by the parts of components."""
    flat = list(components)
    for component in flat:
        flat += getattr(component, "parts", ())
    return flat


def component_digest(component: Component) -> str:
    """Returns a digest of all on which programs depend: type, sizes, promises (changed by test mode), settings such as
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
    sizes = [(key, tuple(getattr(tensor, "shape", ()))) for key, tensor in component.parameters().items()]
    flags = int(component.properties), component.identity_indexes, component.needs_indexes
    return component.type_name, *flags, sizes, sorted(plain)


def _digest(text: str) -> str:
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()
