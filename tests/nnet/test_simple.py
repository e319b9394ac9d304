"""Messages that refuse networks which are not simple: each says how to make the network simple."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nnet3
from nnet3.errors import Nnet3Error
from nnet3.model.edits import apply_edits
from nnet3.model.nnet.simple import what_is_simple

CONFIG = """
    input-node name={} dim=3
    component name=tanh type=TanhComponent dim=3
    component-node name=tanh component=tanh input={}
    output-node name={} input=tanh
    output-node name=other input=tanh
"""


def network(given: str = "input", output: str = "output-0") -> nnet3.Nnet:
    return nnet3.Nnet.from_config(CONFIG.format(given, given, output))


USES: dict[str, Callable[[nnet3.Nnet, Path], Any]] = {
    "context": lambda nnet, path: nnet.left_context,
    "compute": lambda nnet, path: nnet.compute(np.ones((4, 3), np.float32)),
    "batches": lambda nnet, path: nnet3.BatchComputer(nnet),
    "streams": lambda nnet, path: nnet3.StreamComputer(nnet),
    "module": lambda nnet, path: nnet3.TorchModule(nnet),
    "ONNX": lambda nnet, path: nnet3.export_onnx(nnet, path / "model.onnx"),
}


@pytest.mark.parametrize("given", ["input", "feats"])
@pytest.mark.parametrize("use", USES)
def test_what_a_message_says_makes_the_network_simple(use: str, given: str, tmp_path: Path) -> None:
    nnet = network(given)
    with pytest.raises(Nnet3Error, match=r"has inputs \['(input|feats)'\] and outputs \['output-0', 'other'\]") as info:
        USES[use](nnet, tmp_path)
    edits = re.search(r"--edits='(.*)' renames", str(info.value))
    assert edits is not None
    apply_edits(nnet, edits[1].replace("; ", "\n"))
    USES[use](nnet, tmp_path)


def test_no_advice_where_none_helps() -> None:
    two = nnet3.Nnet.from_config("input-node name=a dim=1\ninput-node name=b dim=1\noutput-node name=output input=a")
    assert "rename-node" not in what_is_simple(two.parts)
