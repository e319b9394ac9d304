"""Tables of a network's nodes and components for a terminal."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

from nnet3.components import Component
from nnet3.nnet import Nnet
from nnet3.nnet.nodes import ComponentNode, DescriptorNode, DimRangeNode, InputNode, Node

_WIDE = 100


class ReadConsole(Console):
    """One whose reader may stop reading: rich itself would end the process with status 1."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


def print_network(nnet: Nnet, console: Console | None = None) -> None:
    """Summary, nodes and components, as wide as the terminal (wide enough for everything when it is not one).

    The summary is in Kaldi's lines, which scripts look for: `nnet3 info final.raw | grep left-context:`.
    """
    console = console or ReadConsole()
    if not console.is_terminal:
        console = ReadConsole(width=160)
    summary = {"nodes": len(nnet.nodes), "components": len(nnet.components)}
    if nnet.is_simple:
        summary |= {"left-context": nnet.left_context, "right-context": nnet.right_context}
    summary |= {"num-parameters": nnet.num_parameters, "modulus": nnet.modulus}
    for name, value in summary.items():
        console.print(f"{name}: {value}", highlight=False)
    wide = console.width >= _WIDE
    console.print(_node_table(nnet, wide))
    console.print(_component_table(nnet, wide))


def _table(title: str, wide: bool, *columns: tuple[str, str]) -> Table:
    """On a wide terminal only the last column is folded, so that names stay whole."""
    table = Table(title=title, title_justify="left", title_style="bold", box=None, pad_edge=False)
    for number, (name, justify) in enumerate(columns, start=1):
        whole = wide and number < len(columns)
        table.add_column(name, justify=justify, overflow="fold", no_wrap=whole)  # type: ignore[arg-type]
    return table


def _node_table(nnet: Nnet, wide: bool) -> Table:
    table = _table("\nNodes", wide, ("node", "left"), ("kind", "left"), ("dim", "right"), ("from", "left"))
    for number, node in enumerate(nnet.nodes):
        if isinstance(node, DescriptorNode) and not node.is_output:
            continue
        kind, source = _kind_and_source(nnet, number, node)
        table.add_row(node.name, kind, str(nnet.node_dim(node.name)), source)
    return table


def _kind_and_source(nnet: Nnet, number: int, node: Node) -> tuple[str, str]:
    if isinstance(node, InputNode):
        return "input", ""
    if isinstance(node, DimRangeNode):
        return "dim-range", f"{node.source}, columns {node.dim_offset} to {node.dim_offset + node.dim - 1}"
    if isinstance(node, ComponentNode):
        hidden = nnet.nodes[number - 1]
        assert isinstance(hidden, DescriptorNode)
        return node.component if node.component != node.name else "component", str(hidden.descriptor)
    assert isinstance(node, DescriptorNode)
    return f"output, {node.objective}", str(node.descriptor)


def _component_table(nnet: Nnet, wide: bool) -> Table:
    columns = (
        ("component", "left"),
        ("type", "left"),
        ("in", "right"),
        ("out", "right"),
        ("parameters", "right"),
        ("learning\nrate", "right"),
        ("how it is trained", "left"),
    )
    table = _table("\nComponents", wide, *columns)
    for name, component in nnet.components.items():
        rate = "" if component.updatable is None else f"{component.updatable.learning_rate:g}"
        table.add_row(
            name,
            component.type_name.removesuffix("Component"),
            str(component.input_dim),
            str(component.output_dim),
            f"{component.num_parameters:,}" if component.num_parameters else "",
            rate,
            _training(component),
        )
    return table


def _training(component: Component) -> str:
    """What besides the learning rate decides how a component changes."""
    updatable = component.updatable
    if updatable is None:
        return "test mode" if component.test_mode else ""
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
    return ", ".join(notes)


def learning_rates(nnet: Nnet) -> str:
    """The actual rates of the updatable components, as `copy --learning-rates` takes them."""
    updatable = [component.updatable for component in nnet.components.values()]
    return ":".join(f"{component.learning_rate:g}" for component in updatable if component is not None)
