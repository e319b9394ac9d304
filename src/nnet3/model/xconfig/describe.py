"""Describes a network as an xconfig: its layers, and comments on all else (docs/xconfig.md)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from nnet3.errors import ConfigError, Span
from nnet3.model.components.base import Component
from nnet3.model.structure.nodes import ComponentNode, DescriptorNode
from nnet3.model.structure.parts import NetworkParts
from nnet3.model.xconfig.expand import DEFAULT_INPUT
from nnet3.model.xconfig.expansion import Expansion, Output
from nnet3.model.xconfig.found import SearchedNetwork, normal_text, shown, subterms
from nnet3.model.xconfig.input_descriptor import Known, Scope, resolve_input
from nnet3.model.xconfig.line import read_xconfig_lines
from nnet3.model.xconfig.recognise import Recognised, recognise
from nnet3.model.xconfig.term import Term, name, offset
from nnet3.model.xconfig.trained_settings import carried_settings, is_config_key


@dataclass
class Outputs:
    """The layers so far by output: nodes, and expressions of nodes. `previous` is the last layer's name."""

    of_term: dict[str, str] = field(default_factory=dict)
    expressions: dict[str, Term] = field(default_factory=dict)
    previous: str = ""

    def add(self, layer_name: str, expansion: Expansion) -> None:
        """Lets later layers refer to a layer."""
        outputs = {layer_name: expansion.output}
        outputs |= {f"{layer_name}.{suffix}": output for suffix, output in expansion.auxiliary.items()}
        for known, output in outputs.items():
            if output is not None and output.term.is_name:
                self.of_term.setdefault(output.term.name, known)
            elif output is not None:
                self.expressions[known] = output.term
        self.previous = layer_name

    def written(self, nodes: Term) -> str:
        """Returns the value of `input` for a descriptor of nodes; "" if it is the layer before."""
        layers = self._layers(nodes)
        if layers == name(self.previous):
            return ""
        has_offset = any(_time_of(part, self.previous) for part in subterms(layers))
        is_spliced = has_offset and set(_plain_names(layers)) == {self.previous}
        return written_term(layers, self.previous if is_spliced else "")

    def _layers(self, term: Term) -> Term:
        """Returns the descriptor with layers in the place of nodes; nodes that no layer gives stay."""
        if term.is_name:
            return name(self.of_term.get(term.name, term.name))
        if self.expressions and (found := self._expression(term)) is not None:
            return found
        arguments = tuple(self._layers(part) if isinstance(part, Term) else part for part in term.arguments)
        return Term(term.operator, arguments)

    def _expression(self, term: Term) -> Term | None:
        """Returns the layer with an expression, at some offset, as its output."""
        times = {int(str(part.arguments[1])) for part in subterms(term) if part.operator == "Offset"}
        text = str(term)
        for layer_name, output in self.expressions.items():
            if set(output.names()) != set(term.names()):
                continue
            for time in sorted({0, *times}, key=abs):
                shifted = offset(output, time) if time else output
                if _is_same(str(shifted), text):
                    return offset(name(layer_name), time) if time else name(layer_name)
        return None


def _is_same(descriptor: str, other: str) -> bool:
    try:
        return normal_text(descriptor) == normal_text(other)
    except ConfigError:
        return False


def _time_of(term: Term, layer: str) -> int:
    """Returns the offset of a plain reference to a layer at another time, else 0."""
    if term.operator != "Offset" or len(term.arguments) != 2 or term.arguments[0] != name(layer):
        return 0
    return int(str(term.arguments[1]))


def _plain_names(term: Term) -> Iterator[str]:
    """Yields the layers in a descriptor, except layers at a fixed index, such as ivectors."""
    if term.is_name:
        yield term.name
    elif term.operator != "ReplaceIndex":
        for part in term.arguments:
            yield from _plain_names(part) if isinstance(part, Term) else ()


def written_term(term: Term, previous: str = "") -> str:
    """Formats a descriptor with `layer@time`, and with the time alone for the layer `previous`."""
    if term.is_name:
        return "0" if term.name == previous else term.name
    if term.operator == "Offset" and len(term.arguments) == 2:
        source, time = term.arguments
        if isinstance(source, Term) and source.is_name:
            return str(time) if source.name == previous else f"{source.name}@{time}"
    shown = (written_term(part, previous) if isinstance(part, Term) else str(part) for part in term.arguments)
    return f"{term.operator}({', '.join(shown)})"


def quoted(values: Mapping[str, str]) -> list[str]:
    """Keys with values as in an xconfig: values with an `=` in double quotes."""
    return [f'{key}="{value}"' if "=" in value or not value else f"{key}={value}" for key, value in values.items()]


NOT_RECOGNISED = "# not recognised: "


@dataclass
class Description:
    """A network as lines of an xconfig: `layers` are its layers, `lines` the layers among comments on all else.

    `unrecognised` are the config lines of nodes and components in no layer. If not empty, inputs may name
    such nodes, and the xconfig stands for layers to be put on the network's other part.
    """

    layers: list[Recognised] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    unrecognised: list[str] = field(default_factory=list)

    @property
    def is_complete(self) -> bool:
        """True if the xconfig expands to the whole network."""
        return not self.unrecognised

    @property
    def xconfig(self) -> str:
        """The text, with a comment for each config line outside layers."""
        return "".join(f"{line}\n" for line in self.lines)


def describe(parts: NetworkParts) -> Description:
    """Returns the layers of a network as an xconfig that expands to the network.

    Keys are given only where the network differs from the defaults. Settings of initial parameters alone are not
    to be seen in a network; the matrix of a fixed-affine-layer has the name of the layer.
    """
    network = SearchedNetwork(parts)
    layers = {min(layer.nodes, key=network.position.__getitem__): layer for layer in recognise(network)}
    writer = _DescriptionWriter(network, {node for layer in layers.values() for node in layer.nodes})
    for node_name in network.nodes:
        if node_name in layers:
            writer.add_layer(layers[node_name])
        elif node_name not in writer.claimed:
            writer.add_node(node_name)
    writer.add_components()
    return writer.result


class _DescriptionWriter:
    """Writes layers and nodes in the network's order."""

    def __init__(self, network: SearchedNetwork, claimed: set[str]):
        self.network, self.claimed = network, claimed
        self.result = Description()
        self.outputs = Outputs()
        self.written_components: set[str] = set()
        others = (node for node in network.nodes if node not in claimed)
        self.scope = Scope([known for node in others for known in self._known(node)])

    def _known(self, node_name: str) -> Iterator[Known]:
        if not isinstance(self.network.nodes[node_name], DescriptorNode):
            yield Known(node_name, Output(name(node_name), self.network.parts.dim(node_name)))

    def add_layer(self, layer: Recognised) -> None:
        """Writes a layer, or the layer's nodes if layers cannot express the input."""
        words = [f"{layer.type.name} name={layer.name}"]
        if layer.input is not None:
            written = self.outputs.written(layer.input)
            words += [f"input={written}"] if written else []
        line = " ".join([*words, *quoted(layer.values)])
        if not self._is_read_back(line, layer):
            self.scope.existing += [known for node in layer.nodes for known in self._known(node)]
            for node_name in sorted(layer.nodes, key=self.network.position.__getitem__):
                self.add_node(node_name)
            return
        self.result.layers.append(layer)
        self.result.lines.append(line)
        self.written_components |= layer.components
        self.scope.add(layer.name, layer.expansion)
        self.outputs.add(layer.name, layer.expansion)

    def _is_read_back(self, line: str, layer: Recognised) -> bool:
        """Returns True if reading the line gives the layer's input."""
        try:
            read = read_xconfig_lines(line, "<layer>")[0]
            if layer.input is None:
                return True
            span = Span("<layer>", 1, 1, len(line), line)
            resolved = resolve_input(read.values.get("input"), DEFAULT_INPUT, self.scope, span)
            return normal_text(str(resolved.nodes)) == normal_text(str(layer.input))
        except (ConfigError, IndexError):
            return False

    def add_node(self, node_name: str) -> None:
        """Writes a node, behind its component, as config lines."""
        parts, node = self.network.parts, self.network.nodes[node_name]
        if isinstance(node, ComponentNode):
            self._add_component(node.component)
        self._add(node.config_line(parts.descriptor(parts.node_number[node_name])))

    def add_components(self) -> None:
        """Writes the components without a node."""
        for component in self.network.parts.components:
            self._add_component(component)

    def _add_component(self, component: str) -> None:
        if component not in self.written_components:
            self.written_components.add(component)
            self._add(component_line(component, self.network.parts.components[component]))

    def _add(self, line: str) -> None:
        self.result.unrecognised.append(line)
        self.result.lines.append(NOT_RECOGNISED + line)


def component_line(component_name: str, component: Component) -> str:
    """Returns the type, dimensions and settings of a component, as far as they are not the default."""
    settings = carried_settings(component)
    fields = (*component.header_fields, *component.fields)
    defaults = {f.label: settings.get("dim") if f.name == "block_dim" else f.default for f in fields}
    has_dim = "dim" in settings
    words = [f"component name={component_name} type={component.type_name}"]
    for key, value in settings.items():
        follows = (has_dim and key in ("input-dim", "output-dim")) or key.startswith("rank")
        if is_config_key(key) and not follows and defaults.get(key) != value:
            words.append(f"{key}={shown(value)}")
    return " ".join(words)
