"""Exported networks, run in onnxruntime on what `evaluate` takes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from nnet3 import cn
from nnet3.export.agreement import session_of


class ExportedNetwork:
    """A network and its file."""

    def __init__(self, network: cn.Network, folder: Path, nodes: list[Any] | None = None, **options: Any) -> None:
        self.network, self.path = network, folder / "network.onnx"
        self.about = network.export_onnx(self.path, nodes or (), **options)
        self.session = session_of(self.path)

    def run(self, inputs: Mapping[str, Any]) -> dict[str, np.ndarray]:
        """Returns the outputs; sequences, all of one length, are (batch, frames, rows)."""
        wanted = {each.name for each in self.session.get_inputs()}
        given = {
            name: np.stack([part.T for part in value]) if isinstance(value, cn.Sequences) else value
            for name, value in inputs.items()
            if name in wanted
        }
        names = [each.name for each in self.session.get_outputs()]
        found = self.session.run(names, {name: array.astype(np.float32) for name, array in given.items()})
        return dict(zip(names, found, strict=True))

    def check(self, inputs: Mapping[str, Any], rtol: float = 1e-4) -> None:
        """Assert that the file gives what the network gives."""
        for name, found in self.run(inputs).items():
            expected = self.network.evaluate(name, inputs)
            if isinstance(expected, list):
                expected = np.stack([part.T for part in expected])
            scale = max(1.0, float(np.abs(expected).max()))
            np.testing.assert_allclose(found, np.atleast_2d(expected), rtol=rtol, atol=rtol * scale, err_msg=name)
