"""Tables of a network's nodes and components for a terminal."""

from __future__ import annotations

from rich.console import Console

from nnet3.cli.text_table import Column, format_table
from nnet3.errors import NetworkError
from nnet3.model.components.base import Component
from nnet3.model.nnet import Nnet
from nnet3.model.nnet.model_file import num_not_finite
from nnet3.model.structure.component_notes import component_notes
from nnet3.model.structure.nodes import ComponentNode, DescriptorNode, DimRangeNode, NnetNode

_UNLIMITED = 1_000_000  # columns: what is not a terminal, such as grep, wants whole lines


class ReadConsole(Console):
    """One whose reader may stop reading: rich itself would end the process with status 1."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


def print_network(nnet: Nnet, console: Console | None = None) -> None:
    """Prints summary, nodes and components, as wide as the terminal (one line each elsewhere).

    The summary is in Kaldi's lines, which scripts look for: `nnet3 info final.raw | grep left-context:`.
    """
    console = console or ReadConsole()
    width = console.width if console.is_terminal else _UNLIMITED
    summary = {"nodes": len(nnet.nodes), "components": len(nnet.components)}
    if nnet.is_simple:
        summary |= _context(nnet)
    summary |= {"num-parameters": nnet.num_parameters, "modulus": nnet.modulus}
    for name, value in summary.items():
        console.print(f"{name}: {value}", highlight=False)
    for title, table in (("Nodes", _node_table(nnet)), ("Components", _component_table(nnet))):
        console.print(f"\n[bold]{title}[/bold]")
        console.file.write("\n".join([*format_table(table, width), ""]))
    console.file.flush()


def _context(nnet: Nnet) -> dict[str, int]:
    """Returns left and right context; nothing for a network, warned of before, that can compute nothing."""
    try:
        return {"left-context": nnet.left_context, "right-context": nnet.right_context}
    except NetworkError:
        return {}


def _node_table(nnet: Nnet) -> list[Column]:
    rows = [_node_row(nnet, n, node) for n, node in enumerate(nnet.nodes) if not node.is_hidden]
    names, kinds, components, dims, sources = zip(*rows, strict=True)
    columns = [Column("node", names), Column("kind", kinds), Column("dim", dims, right=True)]
    if any(components):
        columns.append(Column("component", components))
    return [*columns, Column("from", sources)]


def _node_row(nnet: Nnet, number: int, node: NnetNode) -> tuple[str, str, str, str, str]:
    """Returns name, kind, component (if called otherwise), dimension and source."""
    kind, component, source = "input", "", ""
    if isinstance(node, DimRangeNode):
        kind, source = "dim-range", f"{node.source}, {node.columns}"
    elif isinstance(node, ComponentNode):
        kind, component = "component", node.component if node.component != node.name else ""
        source = str(nnet.parts.descriptor(number))
    elif isinstance(node, DescriptorNode):
        kind, source = "output" if node.objective == "linear" else f"output, {node.objective}", str(node.descriptor)
    return node.name, kind, component, str(nnet.node_dim(node.name)), source


def _component_table(nnet: Nnet) -> list[Column]:
    components = nnet.components.values()
    updatable = [component.updatable for component in components]
    return [
        Column("component", list(nnet.components)),
        Column("type", [component.type_name.removesuffix("Component") for component in components]),
        Column("in", [str(component.input_dim) for component in components], right=True),
        Column("out", [str(component.output_dim) for component in components], right=True),
        Column("parameters", [f"{c.num_parameters:,}" if c.num_parameters else "" for c in components], right=True),
        Column("rate", [f"{c.learning_rate:g}" if c is not None else "" for c in updatable], right=True),
        Column("what it does and how it is trained", [_details(component) for component in components]),
    ]


def _details(component: Component) -> str:
    """Returns times read, windows, sizes; settings of training besides the learning rate; NaNs."""
    notes = [*component_notes(component), *_training(component)]
    count = num_not_finite(component)
    if count:
        notes.insert(0, f"{count} NaN OR INFINITE")
    return "; ".join(notes)


def _training(component: Component) -> list[str]:
    updatable = component.updatable
    if updatable is None:
        return []
    notes = []
    if updatable.learning_rate_factor != 1.0:
        notes.append(f"rate factor {updatable.learning_rate_factor:g}")
    if updatable.max_change:
        notes.append(f"max-change {updatable.max_change:g}")
    if updatable.l2_regularize:
        notes.append(f"l2 {updatable.l2_regularize:g}")
    if updatable.orthonormal_constraint:
        notes.append("orthonormal")
    if updatable.learning_rate == 0.0:
        notes.append("frozen")
    if updatable.is_gradient:
        notes.append("holds a gradient")
    return notes


def learning_rates(nnet: Nnet) -> str:
    """Returns the actual rates of the updatable components, as `copy --learning-rates` takes them."""
    updatable = [component.updatable for component in nnet.components.values()]
    return ":".join(f"{component.learning_rate:g}" for component in updatable if component is not None)
