"""Finds the part of a network under the name of one layer; functions by which layer types read keys from the part.

A read looks at the part under the layer's name and gives a value, or None without a trace of the key.
Keys without a read have the value of the first component setting of the key's name, or the default. A read need not
be careful: values read are believed only if they make the layer in the network.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from nnet3.errors import ConfigError
from nnet3.model.structure.descriptor import Descriptor, Simple, SumDescriptor
from nnet3.model.structure.forwarding import ForwardingDescriptor, NodeReference
from nnet3.model.structure.nodes import ComponentNode, DimRangeNode, InputNode, NnetNode
from nnet3.model.structure.normalize import parse_descriptor
from nnet3.model.structure.parts import NetworkParts
from nnet3.model.xconfig.statements import show
from nnet3.model.xconfig.term import Term, name
from nnet3.model.xconfig.trained_settings import CarriedSettings, carried_settings

_JOINT = re.compile(r"\.|-extraction-|-pooling-")


def descriptor_term(descriptor: Descriptor) -> Term:
    """Returns a descriptor as a term."""
    parts = tuple(_term(part) for part in descriptor.parts)
    return parts[0] if len(parts) == 1 else Term("Append", parts)


def _term(descriptor: SumDescriptor | ForwardingDescriptor) -> Term:
    if isinstance(descriptor, Simple):
        return _term(descriptor.source)
    if isinstance(descriptor, NodeReference):
        node, scale = name(descriptor.node), descriptor.scale
        return node if scale == 1.0 else Term("Scale", (scale, node))
    return Term(
        type(descriptor).__name__,
        tuple(_term(a) if isinstance(a, SumDescriptor | ForwardingDescriptor) else a for a in descriptor.arguments),
    )


@lru_cache(maxsize=4096)
def normal_text(descriptor: str) -> str:
    """Returns a descriptor in normal form: equal descriptors have equal texts. Raises ConfigError."""
    return str(parse_descriptor(descriptor))


@dataclass
class SearchedNetwork:
    """The visible nodes of a network by name, with their inputs, and the settings of the components."""

    parts: NetworkParts
    nodes: dict[str, NnetNode] = field(default_factory=dict)
    descriptors: dict[str, Descriptor] = field(default_factory=dict)  # of component-nodes and outputs
    readers: dict[str, set[str]] = field(default_factory=dict)
    position: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._settings: dict[str, CarriedSettings] = {}
        self._dims: dict[str, int | None] = {}
        self._members: dict[str, list[str]] = {}
        for number, node in enumerate(self.parts.nodes):
            if node.is_hidden:
                continue
            self.nodes[node.name] = node
            self.position[node.name] = number
            descriptor = self.parts.descriptor(number)
            if descriptor is not None:
                self.descriptors[node.name] = descriptor
            for source in self.sources(node.name):
                self.readers.setdefault(source, set()).add(node.name)
            for stem in _stems(node.name):
                self._members.setdefault(stem, []).append(node.name)

    def sources(self, node_name: str) -> set[str]:
        """Returns the nodes read by a node."""
        node = self.nodes[node_name]
        if isinstance(node, DimRangeNode):
            return {node.source}
        return self.descriptors[node_name].node_names() if node_name in self.descriptors else set()

    def layer_names(self) -> list[str]:
        """Returns all names that a layer may have, judging by the names of nodes."""
        return list(self._members)

    def members(self, layer_name: str) -> list[str]:
        """Returns the nodes whose names begin with the layer's name, in order."""
        return self._members.get(layer_name, [])

    def settings(self, component: str) -> CarriedSettings:
        """Returns the settings carried by a component; empty without the component."""
        if component not in self.parts.components:
            return {}
        if component not in self._settings:
            self._settings[component] = carried_settings(self.parts.components[component])
        return self._settings[component]

    def dim(self, term: Term) -> int | None:
        """Returns the dimension of a descriptor; None for a descriptor foreign to the network."""
        text = str(term)
        if text not in self._dims:
            try:
                self._dims[text] = parse_descriptor(text).dim(self.parts.dim)
            except (ConfigError, KeyError):
                self._dims[text] = None
        return self._dims[text]


def _stems(node_name: str) -> Iterator[str]:
    """Yields the parts of a name before each joint, then the whole name."""
    for match in _JOINT.finditer(node_name):
        if match.start():
            yield node_name[: match.start()]
    yield node_name


class Found:
    """The part of a network under the name of a layer, the object of reads of keys."""

    def __init__(self, network: SearchedNetwork, layer_name: str):
        self.network, self.name = network, layer_name
        self.members = network.members(layer_name)

    def full_name(self, suffix: str) -> str:
        return f"{self.name}.{suffix}" if suffix else self.name

    def settings(self, suffix: str) -> CarriedSettings:
        """Returns the settings of the component with a suffix; empty without the component."""
        return self.network.settings(self.full_name(suffix))

    def get(self, suffix: str, key: str) -> Any:
        """Returns a setting of that component, or None."""
        return self.settings(suffix).get(key)

    @cached_property
    def components(self) -> list[str]:
        """The names of the components of the part's nodes, in order."""
        nodes = (self.network.nodes[member] for member in self.members)
        return list(dict.fromkeys(node.component for node in nodes if isinstance(node, ComponentNode)))

    def first(self, key: str) -> Any:
        """Returns the first setting of a name among the components, or None."""
        found = (self.network.settings(component).get(key) for component in self.components)
        return next((value for value in found if value is not None), None)

    def node(self, suffix: str = "") -> NnetNode | None:
        return self.network.nodes.get(self.full_name(suffix))

    def term(self, suffix: str = "") -> Term | None:
        """Returns the descriptor read by a component-node or output, or None."""
        descriptor = self.network.descriptors.get(self.full_name(suffix))
        return None if descriptor is None else descriptor_term(descriptor)

    def terms(self) -> Iterator[Term]:
        """Yields the descriptors of the layer's nodes, in order."""
        for member in self.members:
            if member in self.network.descriptors:
                yield descriptor_term(self.network.descriptors[member])

    def is_read_outside(self, suffix: str) -> bool:
        return bool(self.network.readers.get(self.full_name(suffix), set()) - set(self.members))

    @cached_property
    def input(self) -> Term | None:
        """The layer's input: the outside parts of its first reading node's descriptor."""
        own = set(self.members)
        for member in self.members:
            node = self.network.nodes[member]
            if isinstance(node, DimRangeNode) and node.source not in own:
                return name(node.source)
            if isinstance(node, InputNode) or member not in self.network.descriptors:
                continue
            kept = _without(descriptor_term(self.network.descriptors[member]), own)
            if kept is not None:
                return kept
        return None


def _without(term: Term, own: set[str]) -> Term | None:
    parts = term.arguments if term.operator == "Append" else (term,)
    kept = tuple(part for part in parts if isinstance(part, Term) and not own.intersection(part.names()))
    if len(kept) > 1:
        return Term("Append", kept)
    return kept[0] if kept else None


Read = Callable[["Found"], Any]
Reads = Mapping[str, Read]


def shown(value: Any) -> str:
    """Returns a setting as in a config line: numbers in the fewest digits with an unchanged float32."""
    if isinstance(value, tuple):
        return ",".join(map(shown, value))
    return str(np.float32(value)) if isinstance(value, float) else show(value)


def setting(key: str, *suffixes: str) -> Read:
    """Returns a setting of the first existing component of some."""

    def read(found: Found) -> Any:
        return next((found.get(suffix, key) for suffix in suffixes if found.settings(suffix)), None)

    return read


def output_dim(*suffixes: str) -> Read:
    """Returns the output dimension of the first existing component of some."""
    return setting("output-dim", *suffixes)


def has(suffix: str) -> Read:
    """Reads True if the component exists."""
    return lambda found: bool(found.settings(suffix))


def objective(found: Found) -> str | None:
    """Returns the objective of the output of the layer's name."""
    return getattr(found.node(), "objective", None)


def output_delay(found: Found) -> int | None:
    """Returns the common offset of all parts of the layer's output; None without a common offset."""
    term = found.term()
    offsets = {_offset(part) for part in _parts(term)} if term is not None else set()
    return offsets.pop() if len(offsets) == 1 else None


def _parts(term: Term) -> list[Term]:
    return [part for part in term.arguments if isinstance(part, Term)] if term.operator == "Append" else [term]


def _offset(term: Term) -> int:
    return int(str(term.arguments[1])) if term.operator == "Offset" else 0


def delay(found: Found) -> int | None:
    """Returns the offset at which the layer reads itself."""
    own = set(found.members)
    for term in found.terms():
        for part in subterms(term):
            if part.operator == "IfDefined" and own.intersection(part.names()):
                return _offset(_parts(part.arguments[0])[0]) if isinstance(part.arguments[0], Term) else None
    return None


def scale_in(suffix: str, of_layer: bool | None = None) -> Read:
    """Returns the scale in a node's input, else 1. `of_layer`: the scale of the layer's own nodes (True), of others."""

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
    """Yields a term and all terms inside, outer terms first."""
    yield term
    for argument in term.arguments:
        if isinstance(argument, Term):
            yield from subterms(argument)
