"""Inputs and outputs of files: shapes that must fit each other, nodes given or stored, values that are no numbers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from nnet3 import cn
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


def test_an_output_may_be_an_input_or_a_parameter(tmp_path: Path) -> None:
    x, W = cn.input("x", 2), cn.parameter("W", (3, 2))
    exported = ExportedNetwork(cn.Network(outputs={"same": x, "weights": W, "norm": cn.l2_norm(W)}), tmp_path)
    for length in (1, 2, 9, 40):
        exported.check({"x": batch(2, (length,))})
    ExportedNetwork(cn.Network(outputs={"weights": W}), tmp_path).check({})


def test_logarithms_of_what_may_be_negative(tmp_path: Path) -> None:
    exported = ExportedNetwork(cn.Network(outputs={"log": cn.log(cn.input("x", 2))}), tmp_path)
    found = exported.run({"x": cn.sequences([np.array([[1.0, -1.0, 0.0]] * 2)])})["log"][0, :, 0]
    np.testing.assert_array_equal(found, [0.0, np.nan, -np.inf])
