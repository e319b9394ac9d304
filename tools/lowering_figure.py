"""Draw the figure of lowering in docs/architecture.md: python -m tools.lowering_figure [folder]."""

from __future__ import annotations

import sys
from pathlib import Path

from nnet3.base.drawing import Arc, Box, Graph, to_svg
from nnet3.engine.lowering.generate import generate
from tests.lowering.examples import Example, loop

FIGURES = Path(__file__).resolve().parents[1] / "docs" / "figures"


def figure() -> str:
    """The stages of lowering, with what each makes of the example of their docstrings."""
    each = loop()
    boxes = [
        Box("source", ("GraphSource: nodes and what they use", *_nodes(each)), "input"),
        Box(
            "request",
            ("LoweringRequest", "given: x at t = 0..3", "wanted: output at t = 0..3", "and to learn from it"),
            "input",
        ),
        Box("structure", ("structure, slot_shapes", *_epochs(each)), "glue"),
        Box("sweeps", ("domain, computable, needed: two sweeps", *_rows(each)), "function"),
        Box("graph", ("build_graph: ComputationGraph", *str(each.graph).splitlines()), "memory"),
        Box("schedule", ("levels, scheduler: Schedule", *_steps(each)), "memory"),
        Box("reading", ("1. reading: where rows come from", *str(each.reading).splitlines()), "function"),
        Box("needs", ("2. needs: what learns", *str(each.needs).splitlines()), "function"),
        Box("writers", ("3. first_writers: who overwrites", *_writers(each)), "function"),
        Box("layout", ("4. places: Layout", *_matrices(each)), "memory"),
        Box("program", ("gather, kernel_code, updates: NnetComputation", *_program(each)), "output"),
    ]
    arcs = [
        *(Arc("source", "structure"), Arc("structure", "sweeps"), Arc("request", "sweeps")),
        *(Arc("sweeps", "graph", "build_graph"), Arc("graph", "schedule", "schedule")),
        *(Arc("schedule", "reading"), Arc("reading", "needs")),
        *(Arc("reading", "writers"), Arc("needs", "writers"), Arc("reading", "layout"), Arc("needs", "layout")),
        *(Arc("writers", "layout"), Arc("layout", "program", "generate")),
    ]
    return to_svg(Graph(boxes, arcs, "h(t) = W (x(t) + h(t-1)) + b, four rows"), use_graphviz=False)


def _nodes(each: Example) -> list[str]:
    formulas = ("", " = x(t) + h(t-1)", " = affine(h_input)", " = h")
    nodes = enumerate(zip(each.source.nodes, formulas, strict=True))
    return [f"{number}: {node.name}{formula} ({node.kind.value})" for number, (node, formula) in nodes]


def _epochs(each: Example) -> list[str]:
    structure = each.sweeps.structure
    epochs = [" ".join(structure.names[node] for node in nodes) for nodes in structure.components]
    return [
        f"epochs: {', then '.join(f'[{names}]' for names in epochs)}",
        "slot 1 of h_input looks at h a frame back",
    ]


def _rows(each: Example) -> list[str]:
    known, need = each.sweeps.known(2).sum(), each.sweeps.need[2]
    assert need is not None
    return ["up from the inputs, down from the outputs", f"h: {known} rows computable, {need.sum()} of them needed"]


def _steps(each: Example) -> list[str]:
    lines = str(each.schedule).splitlines()
    return [*lines[:5], "...", lines[-1]]


def _writers(each: Example) -> list[str]:
    slots = {slot: rows.all() for slot, rows in each.writers.slots[1].items()}
    return [f"h_input by slot {slot}: {'overwrites' if first else 'adds'}" for slot, first in slots.items()]


def _matrices(each: Example) -> list[str]:
    names = each.sweeps.structure.names
    lines = []
    for what, storage in (("value", each.layout.values), ("derivative", each.layout.derivs)):
        for root, number in sorted(storage.matrix.items()):
            block = each.computation.submatrices[number]
            lines.append(f"m{block.matrix}({block.num_rows}, {block.num_cols}): {what} of {names[root]}")
    return lines


def _program(each: Example) -> list[str]:
    """The commands of one time step forward and backward, and the update."""
    lines = str(generate(each.source, each.request, each.schedule)).splitlines()
    commands = [line for line in lines if line.startswith("c")]
    forward = [line for line in commands if "Propagate" in line]
    backward = [line for line in commands if "Backprop" in line]
    first, back = commands.index(forward[1]), commands.index(backward[0])
    return [*commands[first - 2 : first + 1], "...", *commands[back : back + 3], "...", backward[-1]]


def main() -> None:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else FIGURES
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "lowering.svg").write_text(figure())


if __name__ == "__main__":
    main()
