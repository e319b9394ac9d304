"""Layers in a network: proposed by names and settings of nodes and components, believed if expansion agrees."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from nnet3.errors import ConfigError
from nnet3.model.components.base import Component
from nnet3.model.structure.nodes import ComponentNode, DescriptorNode, DimRangeNode, InputNode
from nnet3.model.xconfig.expand import example_of
from nnet3.model.xconfig.expansion import REF, Expansion
from nnet3.model.xconfig.found import Found, SearchedNetwork, normal_text, shown
from nnet3.model.xconfig.layer import Layer, LayerType, Pairs, expand_layer, make_layer
from nnet3.model.xconfig.layer_types import LAYER_TYPES
from nnet3.model.xconfig.statements import (
    ComponentNodeStatement,
    ComponentStatement,
    DimRangeStatement,
    InputNodeStatement,
    OutputNodeStatement,
    Statement,
    show,
)
from nnet3.model.xconfig.term import Term
from nnet3.model.xconfig.trained_settings import differences, is_config_key, settings_of

_NUMBERS = re.compile(r"-\d+")
_PROBE = "max-change=0.123"


@dataclass(frozen=True)
class Recognised:
    """A layer found in a network: the keys to be given, as text, its input in terms of nodes, and its expansion."""

    type: LayerType
    name: str
    values: Mapping[str, str]
    input: Term | None
    expansion: Expansion

    @property
    def nodes(self) -> set[str]:
        return {s.name for s in self.expansion.config(REF) if not isinstance(s, ComponentStatement)}

    @property
    def components(self) -> set[str]:
        return {s.name for s in self.expansion.config(REF) if isinstance(s, ComponentStatement)}


def recognise(network: SearchedNetwork) -> list[Recognised]:
    """Returns the layers of a network, without common nodes, in the order of their first nodes.

    Larger layers come before smaller layers inside; of types for the same nodes, first a type that knows its
    matrix (idct-layer), then the type with the fewest keys needed.
    """
    candidates = [layer for name in network.layer_names() for layer in _candidates(network, name)]
    candidates.sort(key=lambda layer: (-len(layer.nodes), not layer.expansion.matrix_files, len(layer.values)))
    taken: set[str] = set()
    names: set[str] = set()
    chosen = []
    for layer in candidates:
        if layer.name not in names and not taken & layer.nodes:
            chosen.append(layer)
            taken |= layer.nodes
            names.add(layer.name)
    return sorted(chosen, key=lambda layer: min(network.position[node] for node in layer.nodes))


def _candidates(network: SearchedNetwork, name: str) -> Iterator[Recognised]:
    """Yields the layers possible under a name."""
    found = Found(network, name)
    present = {(_joined(c.removeprefix(name)), network.settings(c)["type"]) for c in found.components}
    for layer_type in LAYER_TYPES.values():
        wanted = _signature(layer_type.name)
        if 2 * len(wanted & present) < len(wanted):
            continue
        layer = _Proposal(found, layer_type).recognised()
        if layer is not None and _is_closed(network, layer):
            yield layer


@cache
def _signature(layer_type: str) -> frozenset[tuple[str, str]]:
    """Returns the components of a layer: what follows the layer's name, numbers left out, and the types."""
    layer = example_of(layer_type).expanded
    statements = (s for s in layer.expansion.config(REF) if isinstance(s, ComponentStatement))
    pairs = ((s.name, s.type) for s in statements if s.name.startswith(layer.layer.name))
    return frozenset((_joined(full_name.removeprefix(layer.layer.name)), kind) for full_name, kind in pairs)


def _joined(suffix: str) -> str:
    return _NUMBERS.sub("", suffix)


def _is_closed(network: SearchedNetwork, layer: Recognised) -> bool:
    """Returns True if other nodes read only the layer's outputs."""
    outputs = [layer.expansion.output, *layer.expansion.auxiliary.values()]
    given = {name for output in outputs if output is not None for name in output.term.names()}
    own = layer.nodes
    return all(node in given or network.readers.get(node, set()) <= own for node in own)


class _Proposal:
    """A type and a name, in search of values that make the layer in the network."""

    def __init__(self, found: Found, layer_type: LayerType):
        self.found, self.type = found, layer_type
        self.input: Term | None = None
        self.input_dim = 0

    def recognised(self) -> Recognised | None:
        """Returns the layer with as few keys as can be, None if the network has no such layer."""
        if self.type.has_input:
            read = self.type.reads.get("input")
            self.input = read(self.found) if read else self.found.input
            dim = None if self.input is None else self.found.network.dim(self.input)
            if dim is None:
                return None
            self.input_dim = dim
        values = self._read_values()
        expansion = self._expand(self._without_passed(values)) or self._expand(values)
        if expansion is None or not _has_names(self.found.network, expansion):
            return None
        values = self._without_explained(values)
        values |= self._options(values)
        layer = self._recognised(values)
        if layer is None:
            return None
        for key in [key for key in values if not self._is_shown_always(key)]:
            fewer = self._recognised({other: value for other, value in layer.values.items() if other != key})
            if fewer is not None and fewer.nodes == layer.nodes:
                layer = fewer
        return layer

    def _read_values(self) -> dict[str, str]:
        """Reads the values of keys from the network, without those of options."""
        values = {}
        for key in self.type.keys:
            if isinstance(key.kind, Pairs):
                continue
            read = self.type.reads.get(key.name)
            value = read(self.found) if read else self.found.first(key.name)
            if value is not None and shown(value) != show(key.default):
                values[key.name] = shown(value)
        return values

    def _without_passed(self, values: dict[str, str]) -> dict[str, str]:
        """Returns the values, without values passed to components alone."""
        passed = {key.name for key in self.type.keys if key.default == "" and not isinstance(key.kind, Pairs)}
        return {key: value for key, value in values.items() if key not in passed}

    def _without_explained(self, values: dict[str, str]) -> dict[str, str]:
        """Returns the values, without passed values that the components have anyway."""
        own = self._without_passed(values)
        plain = self._components(own)
        if not plain:
            return values
        missing = {key for statement in plain.values() for key in self._unexplained(statement)}
        return {key: value for key, value in values.items() if key in own or key in missing}

    def _is_shown_always(self, key: str) -> bool:
        """Dimensions are told even where derivable from other keys."""
        return key in self.type.reads and key.endswith("dim")

    def _options(self, values: dict[str, str]) -> dict[str, str]:
        """Texts of further settings: settings of components, explained by no other key."""
        options = [key for key in self.type.keys if isinstance(key.kind, Pairs)]
        empty = {**values, **{key.name: "" for key in options}}
        plain = self._components(empty)
        result = {}
        for key in options:
            probed = self._components({**empty, key.name: _PROBE})
            concerned = [name for name, statement in plain.items() if probed.get(name) != statement]
            further = next(filter(None, (self._unexplained(plain[name]) for name in concerned)), {})
            text = " ".join(f"{setting}={value}" for setting, value in further.items())
            if text != key.default:
                result[key.name] = text
        return result

    def _unexplained(self, statement: ComponentStatement) -> dict[str, str]:
        """Returns the settings of a component in the network without counterpart in a statement."""
        carried = self.found.network.settings(statement.name)
        try:
            made = settings_of(statement)
        except ConfigError:
            return {}
        keys = [key for key in differences(carried, made) if key in carried and is_config_key(key)]
        return {key: shown(carried[key]) for key in keys}

    def _components(self, values: dict[str, str]) -> dict[str, ComponentStatement]:
        expansion = self._expand(values)
        statements = expansion.config(REF) if expansion is not None else ()
        return {statement.name: statement for statement in statements if isinstance(statement, ComponentStatement)}

    def _expand(self, values: Mapping[str, str]) -> Expansion | None:
        layer = self._layer(values)
        return expand_layer(layer) if layer is not None else None

    def _layer(self, values: Mapping[str, str]) -> Layer | None:
        try:
            return make_layer(self.type, self.found.name, values, self.input or Term("", ("",)), self.input_dim)
        except ConfigError:
            return None

    def _recognised(self, values: Mapping[str, str]) -> Recognised | None:
        """Returns the layer with the given values, if the network has its nodes and components."""
        expansion, network = self._expand(values), self.found.network
        if expansion is None or not all(_has(network, statement, expansion) for statement in expansion.config(REF)):
            return None
        return Recognised(self.type, self.found.name, values, self.input, expansion)


def _has_names(network: SearchedNetwork, expansion: Expansion) -> bool:
    """Returns True if a network has the nodes of an expansion, and the expansion's components with equal types."""
    return all(
        network.settings(statement.name).get("type") == statement.type
        if isinstance(statement, ComponentStatement)
        else statement.name in network.nodes
        for statement in expansion.config(REF)
    )


def _has(network: SearchedNetwork, statement: Statement, expansion: Expansion) -> bool:
    """Returns True if a network has what a statement says."""
    if isinstance(statement, ComponentStatement):
        return _has_component(network, statement, expansion)
    node = network.nodes.get(statement.name)
    if isinstance(statement, InputNodeStatement):
        return isinstance(node, InputNode) and node.dim == statement.dim
    if isinstance(statement, DimRangeStatement):
        wanted = DimRangeNode(statement.name, statement.source, statement.dim_offset, statement.dim)
        return isinstance(node, DimRangeNode) and replace(node, name=wanted.name) == wanted
    if isinstance(statement, OutputNodeStatement):
        is_alike = isinstance(node, DescriptorNode) and node.objective == (statement.objective or "linear")
    else:
        assert isinstance(statement, ComponentNodeStatement)
        is_alike = isinstance(node, ComponentNode) and node.component == statement.component
    return is_alike and _reads(network, statement.name, statement.input)


def _reads(network: SearchedNetwork, node: str, term: Term) -> bool:
    try:
        return normal_text(str(term)) == str(network.descriptors[node])
    except ConfigError:
        return False


def _has_component(network: SearchedNetwork, statement: ComponentStatement, expansion: Expansion) -> bool:
    carried = network.settings(statement.name)
    if carried.get("type") != statement.type:
        return False
    if path := statement.values.get("matrix"):
        component = network.parts.components[statement.name]
        matrices = [matrix.values for matrix in expansion.matrix_files if matrix.path == path]
        return bool(matrices) and _is_matrix(component, matrices[0])
    try:
        return not differences(carried, settings_of(statement))
    except ConfigError:
        return False


def _is_matrix(component: Component, wanted: np.ndarray) -> bool:
    """Compares the parameters of a fixed affine component with a matrix whose last column is the bias."""
    linear, bias = (getattr(component, name).detach().cpu().numpy() for name in component.constant_names)
    return linear.shape == (wanted.shape[0], wanted.shape[1] - 1) and bool(
        np.allclose(linear, wanted[:, :-1], atol=1e-5) and np.allclose(bias, wanted[:, -1], atol=1e-5)
    )
