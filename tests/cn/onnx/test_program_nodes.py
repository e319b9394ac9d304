"""Programs as ONNX nodes: loops stay loops, and each length that no family serves has a branch."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import onnx_ir as ir

from tests.cn.onnx.exported_network import ExportedNetwork
from tests.cn.small_networks import batch, recurrence


def operators(path: Path) -> Counter[str]:
    return Counter(node.op_type for node in ir.traversal.RecursiveGraphIterator(ir.load(path).graph))


def test_a_recurrence_is_one_loop_and_parameters_are_held_once(tmp_path: Path) -> None:
    exported = ExportedNetwork(recurrence(), tmp_path, "h")
    assert operators(exported.path)["Loop"] == 1
    assert operators(exported.path)["If"] == 0
    sizes = {name: value.shape for name, value in ir.load(exported.path).graph.initializers.items()}
    assert sizes["W"] == (3, 4)
    assert sizes["R"] == (4, 4)


def test_what_looks_at_the_end_has_a_program_for_each_short_length(tmp_path: Path) -> None:
    exported = ExportedNetwork(recurrence(lag=-2), tmp_path, "h")
    found = operators(exported.path)
    assert found["Loop"] == 2  # for even and odd numbers of frames
    assert found["If"] >= 2
    for length in range(1, 12):
        exported.check({"x": batch(3, (length,))})
