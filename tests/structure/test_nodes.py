"""Nodes of networks: how each prints and is written, and what follows when others change their names."""

from __future__ import annotations

import pytest

from nnet3.model.structure.nodes import ComponentNode, DescriptorNode, DimRangeNode, InputNode, NnetNode
from nnet3.model.structure.normalize import parse_descriptor

READS = parse_descriptor("Append(a, Round(b, 3))")
NODES = {
    "input": InputNode("a", 4),
    "component": ComponentNode("c", "affine"),
    "columns": DimRangeNode("d", "c", 2, 3),
    "output": DescriptorNode("output", READS, "linear"),
    "hidden": DescriptorNode("c_input", READS),
}


@pytest.mark.parametrize(
    ("kind", "text", "line"),
    [
        ("input", "a: input, dim 4", "input-node name=a dim=4"),
        (
            "component",
            "c: component affine applied to c_input",
            "component-node name=c component=affine input=Append(a, Round(b, 3))",
        ),
        ("columns", "d: columns 2 to 4 of c", "dim-range-node name=d input-node=c dim-offset=2 dim=3"),
        (
            "output",
            "output: output Append(a, Round(b, 3))",
            "output-node name=output input=Append(a, Round(b, 3)) objective=linear",
        ),
    ],
)
def test_each_kind_prints_and_is_written(kind: str, text: str, line: str) -> None:
    assert str(NODES[kind]) == text
    assert NODES[kind].config_line(READS) == line


@pytest.mark.parametrize(("kind", "says"), [(kind, kind) for kind in NODES])
def test_what_outputs_and_hidden_inputs_are(kind: str, says: str) -> None:
    assert (NODES[kind].is_output, NODES[kind].is_hidden) == (says == "output", says == "hidden")
    assert NODES[kind].modulus == (3 if says in ("output", "hidden") else 1)


def test_dimensions_stand_where_info_shows_them() -> None:
    line = NODES["output"].config_line(READS, " input-dim=7")
    assert line == "output-node name=output input=Append(a, Round(b, 3)) input-dim=7 objective=linear"
    assert str(NODES["hidden"]) == "c_input: descriptor Append(a, Round(b, 3))"
    assert ComponentNode("c", "affine").input_name == "c_input"


@pytest.mark.parametrize(
    ("node", "renamed"),
    [
        (NODES["columns"], DimRangeNode("d", "z", 2, 3)),
        (NODES["output"], DescriptorNode("output", parse_descriptor("Append(y, Round(b, 3))"), "linear")),
        (NODES["component"], NODES["component"]),
        (NODES["input"], NODES["input"]),
    ],
)
def test_names_of_sources_change(node: NnetNode, renamed: NnetNode) -> None:
    assert node.with_sources({"c": "z", "a": "y"}) == renamed
