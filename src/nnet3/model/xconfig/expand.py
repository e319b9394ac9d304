"""Expands the text of an xconfig to layers with their nodes and components."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache

from nnet3.base.text import did_you_mean
from nnet3.errors import ConfigError, Span
from nnet3.model.xconfig.expansion import FINAL, Expansion
from nnet3.model.xconfig.input_descriptor import Known, Scope, resolve_input
from nnet3.model.xconfig.layer import Layer, LayerType, expand_layer, make_layer
from nnet3.model.xconfig.layer_types import LAYER_TYPES
from nnet3.model.xconfig.line import XconfigLine, first_words, read_xconfig_lines
from nnet3.model.xconfig.statements import Statement
from nnet3.model.xconfig.term import Term

DEFAULT_INPUT = "[-1]"
_CONFIG_WORDS = ("component", "component-node", "input-node", "output-node", "dim-range-node")
_INPUT_DIMS = (40, 200, 2560, 1536)  # features, images, images with filters, hidden layers
_NAMES = {"input": "input", "output": "output", "output-layer": "output"}


@dataclass(frozen=True)
class ExpandedLayer:
    """A layer of an xconfig, with line and expansion."""

    layer: Layer
    expansion: Expansion


@dataclass(frozen=True)
class ExpandedXconfig:
    """All layers of an xconfig in order."""

    layers: tuple[ExpandedLayer, ...] = field(default_factory=tuple)

    def statements(self, which: str = FINAL) -> list[tuple[ExpandedLayer, Statement]]:
        """Returns the statements of one of the configs, with layers."""
        return [(layer, statement) for layer in self.layers for statement in layer.expansion.config(which)]

    def config(self, which: str = FINAL) -> str:
        """Returns the text of one of the configs: "init", "ref" or "final"."""
        return "".join(f"{statement}\n" for _, statement in self.statements(which))

    def layer_lines(self, *, normal: bool = False) -> list[str]:
        """Returns a line for each layer with the values of all keys, sorted; inputs as typed or in normal form."""
        return [_full_line(expanded.layer, normal) for expanded in self.layers]


def is_xconfig(text: str) -> bool:
    """Returns True for a text of layers, False for a text of nodes and components, by the first words of lines."""
    words = first_words(text)
    return not any(word in _CONFIG_WORDS for word in words) and any(word in LAYER_TYPES for word in words)


def expand_xconfig(text: str, source: str = "<xconfig>", existing: Iterable[Known] = ()) -> ExpandedXconfig:
    """Returns the layers of an xconfig; `existing` are nodes of a model to which inputs may refer.

    Raises ConfigError, with the place in the text, for every break of a rule of docs/xconfig.md.
    """
    lines = read_xconfig_lines(text, source)
    if not lines:
        raise ConfigError(f"{source}: an xconfig without any layer")
    _check_names(lines)
    scope = Scope(list(existing), below={line.name: line.span.line for line in lines})
    layers = []
    for line in lines:
        expanded = _expand_line(line, scope)
        scope.below.pop(line.name)
        scope.add(line.name, expanded.expansion)
        layers.append(expanded)
    return ExpandedXconfig(tuple(layers))


def layer_type(word: str, span: Span | None = None) -> LayerType:
    """Returns the layer type of a name. Raises ConfigError for an unknown name."""
    if word not in LAYER_TYPES:
        near = did_you_mean(word, LAYER_TYPES) or did_you_mean(f"{word}-layer", LAYER_TYPES, similarity=0.9)
        hint = near or "`nnet3 xconfig-help` lists the types"
        if word in _CONFIG_WORDS:
            hint = "this is a line of a config; an xconfig has layers only"
        raise ConfigError(f"unknown layer type '{word}'", span, hint)
    return LAYER_TYPES[word]


def _check_names(lines: list[XconfigLine]) -> None:
    seen: dict[str, int] = {}
    for line in lines:
        if line.name in seen:
            message = f"the layer name '{line.name}' is already taken in line {seen[line.name]}"
            raise ConfigError(message, line.values["name"].span)
        seen[line.name] = line.span.line


def _expand_line(line: XconfigLine, scope: Scope) -> ExpandedLayer:
    kind = layer_type(line.type, line.span)
    keys = {key: value.text for key, value in line.values.items() if key != "name"}
    if not kind.has_input:
        layer = make_layer(kind, line.name, keys, Term("", (line.name,)), 0, line)
        return ExpandedLayer(layer, expand_layer(layer))
    written = keys.pop("input", DEFAULT_INPUT)
    resolved = resolve_input(line.values.get("input"), DEFAULT_INPUT, scope, line.span)
    layer = make_layer(kind, line.name, keys, resolved.nodes, resolved.dim, line)
    layer.written_input, layer.normal_input = written, str(resolved.normal)
    return ExpandedLayer(layer, expand_layer(layer))


def _full_line(layer: Layer, normal: bool) -> str:
    values = dict(layer.values)
    if layer.type.has_input:
        values["input"] = layer.normal_input if normal else layer.written_input
    pairs = (f'{key}="{value}"' if "=" in str(value) else f"{key}={value}" for key, value in sorted(values.items()))
    return " ".join([f"{layer.type.name} name={layer.name}", *pairs])


@dataclass(frozen=True)
class LayerExample:
    """Lines of an xconfig, the example layer last, and the layer."""

    lines: tuple[str, ...]
    expanded: ExpandedLayer


@cache
def example_of(layer_type: str) -> LayerExample:
    """Returns the example of a layer type. An assertion fails for a broken example, which the tests exclude."""
    kind = LAYER_TYPES[layer_type]
    line = f"{layer_type} name={_NAMES.get(layer_type, 'layer1')} {kind.example}".strip()
    before = ["input name=ivector dim=100"] if "ivector" in line else []
    for dim in _INPUT_DIMS:
        lines = (*before, f"input name=input dim={dim}", line) if kind.has_input else (line,)
        try:
            return LayerExample(lines, expand_xconfig("\n".join(lines)).layers[-1])
        except ConfigError:
            continue
    raise AssertionError(f"the example of {layer_type} is wrong")
