"""Reads config lines into nodes and components and checks every rule of docs/config_language.md in place."""

from __future__ import annotations

import os
from dataclasses import dataclass, field

from nnet3.base.kaldi_io.files import check_is_path, map_file
from nnet3.base.text import ConfigLine, decode_config, did_you_mean, is_valid_name, read_config_lines
from nnet3.engine.ir.objects import many_objects
from nnet3.errors import ConfigError, ModelFormatError
from nnet3.model.components.base import Component
from nnet3.model.components.component_types import create_from_line
from nnet3.model.components.random_source import RandomSource
from nnet3.model.structure.cycles import check_cycles_move, startless_warnings
from nnet3.model.structure.nodes import ComponentNode, DescriptorNode, DimRangeNode, InputNode, NnetNode
from nnet3.model.structure.normalize import parse_descriptor
from nnet3.model.structure.parts import NetworkParts, orphan_warnings

LINE_TYPES = ("component", "component-node", "input-node", "output-node", "dim-range-node")
OBJECTIVES = ("linear", "quadratic")
_MODEL_STARTS = (b"\0B", b"<Nnet3>", b"<TransitionModel>")
_MOST_BYTES = 1 << 28


def read_config_file(path: str | os.PathLike[str]) -> str:
    """Returns the text of a config file. Raises ConfigError if it cannot be read or is a model, not a config."""
    check_is_path(path, "a config file")
    name = os.fspath(path)
    try:
        contents = map_file(path)
    except ModelFormatError as error:
        raise ConfigError(str(error)) from None
    if contents[:64].lstrip().startswith(_MODEL_STARTS):
        raise ConfigError(f"{name}: this is a model file, not a config: nnet3.load reads it")
    if len(contents) > _MOST_BYTES:
        raise ConfigError(f"{name}: this file of {len(contents):,} bytes is too large to be a config")
    return decode_config(bytes(contents), name)


def apply_config(
    old: NetworkParts, text: str, source: str, rng: RandomSource, *, allow_components: bool = True
) -> tuple[NetworkParts, list[str]]:
    """Adds the lines of a config text to `old`, or replaces them; returns the new parts and the warnings.

    The warnings tell of keys given twice, recurrences that cannot start and orphans.

    With `allow_components=False` (the config part of a model file) only node lines are accepted.
    """
    with many_objects():
        return _apply(old, read_config_lines(text, source), rng, allow_components)


def _apply(
    old: NetworkParts, lines: list[ConfigLine], rng: RandomSource, allow_components: bool
) -> tuple[NetworkParts, list[str]]:
    draft = _Draft(dict(old.components))
    for line in lines:
        _check_line_type(line, allow_components)
        line.subject = f"{line.first_token} '{_name(line)}'"
        if line.first_token == "component":
            draft.add_component(line, rng)
        else:
            draft.new_lines.append(line)
            draft.claim_name(line)
    replaced = {_name(line) for line in draft.new_lines}  # with a component node goes its hidden input
    kept = [node for number, node in enumerate(old.nodes) if old.visible_name(number) not in replaced]
    for node in kept:
        if node.name in draft.taken:
            owner = draft.taken[node.name]
            what = "the hidden input of an existing node" if node.is_hidden else "an existing node"
            raise owner.error(f"the name '{node.name}' is taken by {what}", "name")
    parts = NetworkParts((*kept, *(node for line in draft.new_lines for node in _make_nodes(line))), draft.components)
    _check(parts)
    repeated = [warning for line in lines for warning in line.repeated_warnings()]
    return parts, [*repeated, *startless_warnings(parts), *orphan_warnings(parts)]


@dataclass
class _Draft:
    """Components, node lines and names that the first pass over the lines collects."""

    components: dict[str, Component]
    new_lines: list[ConfigLine] = field(default_factory=list)
    taken: dict[str, ConfigLine] = field(default_factory=dict)  # node names of the new text, hidden ones included
    new_components: dict[str, ConfigLine] = field(default_factory=dict)

    def add_component(self, line: ConfigLine, rng: RandomSource) -> None:
        name = _name(line)
        if name in self.new_components:
            raise line.error(_defined_before("component", name, self.new_components[name]), "name")
        self.new_components[name] = line
        self.components[name] = create_from_line(line, rng)

    def claim_name(self, line: ConfigLine) -> None:
        name = _name(line)
        names = [name, f"{name}_input"] if line.first_token == "component-node" else [name]
        for claimed in names:
            if claimed in self.taken:
                raise line.error(_defined_before("node", claimed, self.taken[claimed]), "name")
            self.taken[claimed] = line


def _defined_before(what: str, name: str, line: ConfigLine) -> str:
    return f"the {what} name '{name}' is already taken in line {line.span.line} of this text"


def _check_line_type(line: ConfigLine, allow_components: bool) -> None:
    if line.first_token not in LINE_TYPES:
        got = f"'{line.first_token}'" if line.first_token else "a line that begins with key=value"
        hint = did_you_mean(line.first_token, LINE_TYPES) or "known: " + ", ".join(LINE_TYPES)
        raise ConfigError(f"unknown line type, got {got}", line.span, hint)
    if line.first_token == "component" and not allow_components:
        raise ConfigError("a model file's config part may hold nodes only, not components", line.span)


def _name(line: ConfigLine) -> str:
    name = line.string("name")
    if not is_valid_name(name):
        hint = "a letter or '_', then letters, digits, '_', '-', '.'"
        raise line.error(f"'{name}' is not a valid name", "name", hint)
    return name


def _make_nodes(line: ConfigLine) -> list[NnetNode]:
    """Makes the node of a line; a component node comes after its hidden input."""
    name, span = _name(line), line.span
    nodes: list[NnetNode]
    if line.first_token == "input-node":
        nodes = [InputNode(name, line.integer("dim", minimum=1), span=span)]
    elif line.first_token == "dim-range-node":
        source = line.string("input-node")
        dim, offset = line.integer("dim", minimum=1), line.integer("dim-offset", minimum=0)
        nodes = [DimRangeNode(name, source, offset, dim, span=line.values["input-node"].span)]
    else:
        line.string("input")
        descriptor = parse_descriptor(line.values["input"].span)
        input_span = line.values["input"].span
        if line.first_token == "component-node":
            component = line.string("component")
            hidden = DescriptorNode(f"{name}_input", descriptor, span=input_span)
            nodes = [hidden, ComponentNode(name, component, span=line.values["component"].span)]
        else:
            objective = line.string("objective", "linear")
            if objective not in OBJECTIVES:
                raise line.error(f"objective must be linear or quadratic, got '{objective}'", "objective")
            nodes = [DescriptorNode(name, descriptor, objective, span=input_span)]
    line.finish()
    return nodes


def _check(parts: NetworkParts) -> None:
    """Checks references, dimensions and cycles of the whole network. Raises ConfigError."""
    if not parts.nodes:
        raise ConfigError("the config defines no nodes")
    for kind, present in (
        ("input-node", any(isinstance(node, InputNode) for node in parts.nodes)),
        ("output-node", any(node.is_output for node in parts.nodes)),
    ):
        if not present:
            raise ConfigError(f"the network has no {kind}")
    for number, node in enumerate(parts.nodes):
        if isinstance(node, DescriptorNode):
            _check_references(parts, node)
        elif isinstance(node, DimRangeNode):
            _check_dim_range_source(parts, node)
        elif isinstance(node, ComponentNode) and node.component not in parts.components:
            hint = did_you_mean(node.component, parts.components)
            raise ConfigError(f"component-node '{node.name}': unknown component '{node.component}'", node.span, hint)
        assert number == parts.node_number[node.name], "node names are unique"
    for number, node in enumerate(parts.nodes):
        if isinstance(node, DimRangeNode):
            _check_dim_range(parts, node)
        elif isinstance(node, DescriptorNode):
            _check_dims(parts, number, node)
    check_cycles_move(parts)


def _check_references(parts: NetworkParts, node: DescriptorNode) -> None:
    for reference in node.descriptor.node_references():
        if reference.node not in parts.node_number:
            referable = [n.name for n in parts.nodes if not isinstance(n, DescriptorNode)]
            raise ConfigError(
                f"unknown node '{reference.node}'", reference.span, did_you_mean(reference.node, referable)
            )
        target = parts.nodes[parts.node_number[reference.node]]
        if isinstance(target, DescriptorNode):
            what = "an output node" if target.is_output else "the hidden input of a component node"
            hint = "refer to an input, component or dim-range node"
            raise ConfigError(f"'{reference.node}' is {what} and cannot be an input", reference.span, hint)


def _check_dim_range_source(parts: NetworkParts, node: DimRangeNode) -> None:
    if node.source not in parts.node_number:
        usable = [n.name for n in parts.nodes if isinstance(n, InputNode | ComponentNode)]
        hint = did_you_mean(node.source, usable)
        raise ConfigError(f"dim-range-node '{node.name}': unknown node '{node.source}'", node.span, hint)
    if not isinstance(parts.nodes[parts.node_number[node.source]], InputNode | ComponentNode):
        message = f"dim-range-node '{node.name}': '{node.source}' must be an input or component node"
        raise ConfigError(message, node.span)


def _check_dim_range(parts: NetworkParts, node: DimRangeNode) -> None:
    available = parts.dim(node.source)
    if node.dim_offset + node.dim > available:
        raise ConfigError(
            f"dim-range-node '{node.name}': {node.columns} of '{node.source}', which has only {available}",
            node.span,
        )


def _check_dims(parts: NetworkParts, number: int, node: DescriptorNode) -> None:
    """Checks all terms of a descriptor against the input dimension of the component."""
    dim = node.descriptor.dim(parts.dim)
    for part in node.descriptor.parts:
        for forward in part.forwards():
            references = list(forward.nodes())
            first = parts.dim(references[0].node)
            for other in references[1:]:
                if parts.dim(other.node) != first:
                    raise ConfigError(
                        f"the arguments of Switch have different dimensions: '{references[0].node}' has {first}, "
                        f"'{other.node}' has {parts.dim(other.node)}",
                        other.span,
                    )
    if node.is_output:
        return
    consumer = parts.nodes[number + 1]
    assert isinstance(consumer, ComponentNode)
    component = parts.component(consumer)
    if dim != component.input_dim:
        raise ConfigError(
            f"component-node '{consumer.name}': its input has dimension {dim}, but component "
            f"'{consumer.component}' ({component.type_name}) takes {component.input_dim}",
            node.span,
        )
