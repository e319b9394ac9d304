"""The models of networks: what they hold, and what engines refuse to be given."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest

from tests.cn.onnx.exported_network import ExportedNetwork
from tests.cn.small_networks import batch, recurrence


def test_inputs_that_do_not_fit_each_other_are_errors_of_the_engine(tmp_path: Path) -> None:
    exported = ExportedNetwork(recurrence(), tmp_path, ["J"])
    sizes = {"x": (2, 5, 3), "y": (2, 5, 2)}
    assert exported.session.run(None, {name: np.ones(size, np.float32) for name, size in sizes.items()})
    for name, size in (("y", (2, 6, 2)), ("y", (1, 5, 2)), ("x", (3, 5, 3))):
        given = {each: np.ones(s, np.float32) for each, s in {**sizes, name: size}.items()}
        with pytest.raises(Exception, match="Reshape"):
            exported.session.run(None, given)


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
