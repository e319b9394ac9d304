"""Help and documentation of a layer type, from declaration and example."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from nnet3.model.structure.component_notes import format_offsets
from nnet3.model.xconfig.describe import written_term
from nnet3.model.xconfig.expand import example_of
from nnet3.model.xconfig.expansion import REF, Expansion
from nnet3.model.xconfig.layer import Key, LayerType
from nnet3.model.xconfig.statements import (
    ComponentNodeStatement,
    ComponentStatement,
    DimRangeStatement,
    InputNodeStatement,
    OutputNodeStatement,
    show,
)
from nnet3.model.xconfig.term import Term, name
from nnet3.model.xconfig.trained_settings import settings_of

INPUT_KEY = Key.of(
    "input", "[-1]", "The layers that it takes its input from, as a descriptor.", absent="the layer above"
)


class KeyRow(NamedTuple):
    """The description of a key in words."""

    name: str
    kind: str
    default: str
    values: str
    meaning: str


def key_rows(layer_type: LayerType) -> list[KeyRow]:
    """Returns all keys but the name."""
    keys = ([INPUT_KEY] if layer_type.has_input else []) + list(layer_type.keys)
    return [KeyRow(key.name, key.kind.kind, _default(key), key.kind.rule.words, key.help) for key in keys]


def _default(key: Key) -> str:
    if key.required:
        return "must be given"
    if key.absent:
        return f"{show(key.default)} ({key.absent})".strip()
    return show(key.default) or "not given"


def example_lines(layer_type: LayerType) -> list[str]:
    """Lines of an xconfig, the last of which is a layer of the type."""
    return list(example_of(layer_type.name).lines)


def expansion_lines(layer_type: LayerType) -> list[str]:
    """Returns the config lines of the layer of the example."""
    return example_of(layer_type.name).expanded.expansion.lines()


def drawing(layer_type: LayerType) -> list[str]:
    """Returns the layer of the example as a column of boxes: nodes, with inputs, components and dimensions.

    A bar alone means that a node reads the node above; `.x` is the layer's node `x`, `=>` the layer's output.
    """
    layer = example_of(layer_type.name).expanded
    return list(_draw(layer.expansion, layer.layer.name))


def _draw(expansion: Expansion, layer_name: str) -> Iterator[str]:
    statements = expansion.config(REF)
    components = {s.name: s for s in statements if isinstance(s, ComponentStatement)}
    nodes = [s for s in statements if not isinstance(s, ComponentStatement)]
    wide = max(len(_short(node.name, layer_name)) for node in nodes)
    above = ""
    for node in nodes:
        label = _short(node.name, layer_name).ljust(wide)
        if isinstance(node, DimRangeStatement):
            last = node.dim_offset + node.dim - 1
            yield f"{label}  columns {node.dim_offset} to {last} of {_short(node.source, layer_name)}"
            continue
        if isinstance(node, InputNodeStatement):
            yield f"{label}  input of {node.dim} columns"
            continue
        yield from _bar(node.input, above, layer_name)
        above = node.name
        what = f"output, objective {node.objective or 'linear'}" if isinstance(node, OutputNodeStatement) else ""
        if isinstance(node, ComponentNodeStatement):
            what = _component(components[node.component])
        yield f"{label}  {what}"
    if expansion.output is not None:
        shown = written_term(_shorten(expansion.output.term, layer_name))
        yield f"  => {shown}, {expansion.output.dim} columns"


def _bar(term: Term, above: str, layer_name: str) -> Iterator[str]:
    source = written_term(_shorten(term, layer_name))
    if not above:
        yield source
        yield "  |"
    elif term == name(above):
        yield "  |"
    else:
        yield f"  | {source}"


def _component(statement: ComponentStatement) -> str:
    settings = settings_of(statement) if "matrix" not in statement.values else {}
    kind = statement.type.removesuffix("Component")
    if not settings:
        return f"{kind} {statement.values['matrix']}"
    dims = settings["input-dim"], settings["output-dim"]
    size = f"{dims[0]}" if dims[0] == dims[1] else f"{dims[0]} -> {dims[1]}"
    times = f", {format_offsets(settings['time-offsets'])}" if "time-offsets" in settings else ""
    return f"{kind} {size}{times}"


def _short(node: str, layer_name: str) -> str:
    """Returns `.affine` for the layer's node `NAME.affine`."""
    return node[len(layer_name) :] if node.startswith(f"{layer_name}.") else node


def _shorten(term: Term, layer_name: str) -> Term:
    return term.substitute({node: name(_short(node, layer_name)) for node in term.names()})
