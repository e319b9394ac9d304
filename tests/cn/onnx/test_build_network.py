"""The models of networks: what they hold, and what engines refuse to be given."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.cn.onnx.exported_network import ExportedNetwork
from tests.cn.small_networks import recurrence


def test_inputs_that_do_not_fit_each_other_are_errors_of_the_engine(tmp_path: Path) -> None:
    exported = ExportedNetwork(recurrence(), tmp_path, ["J"])
    sizes = {"x": (2, 5, 3), "y": (2, 5, 2)}
    assert exported.session.run(None, {name: np.ones(size, np.float32) for name, size in sizes.items()})
    for name, size in (("y", (2, 6, 2)), ("y", (1, 5, 2)), ("x", (3, 5, 3))):
        given = {each: np.ones(s, np.float32) for each, s in {**sizes, name: size}.items()}
        with pytest.raises(Exception, match="Reshape"):
            exported.session.run(None, given)
