"""Files with smaller weights: their size, their error, recurrences."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

import nnet3
from nnet3.model.nnet import Nnet
from tests.export.exported import Exported

XCONFIG = """
    input name=input dim=20
    relu-layer name=a input=Append(-1,0,1) dim=200
    {} name=b dim=200
    output-layer name=output dim=100 include-log-softmax=false param-stddev=0.1
"""
FEATURES = np.random.default_rng(0).standard_normal((1, 40, 20)).astype(np.float32)


@pytest.mark.parametrize(("quantize", "size", "error"), [("fp16", 0.53, 2e-3), ("int8", 0.3, 0.1)])
def test_size_and_error(quantize: str, size: float, error: float, tmp_path: Path) -> None:
    nnet = Nnet.from_xconfig(XCONFIG.format("relu-layer"), seed=1)
    plain = Exported(nnet, tmp_path, frames_per_chunk=38)
    before, expected = plain.path.stat().st_size, plain.run(FEATURES)["output"]
    exported = Exported(nnet, tmp_path, frames_per_chunk=38, quantize=quantize)
    assert exported.path.stat().st_size < size * before
    assert {node.domain for node in onnx.load(exported.path).graph.node} == {""}
    assert (exported.about.quantize, plain.about.quantize, plain.about.error) == (quantize, "none", 0.0)
    assert 0 < exported.about.error < error
    assert nnet3.load_onnx_metadata(exported.path) == exported.about
    difference = np.abs(exported.run(FEATURES)["output"] - expected).max() / max(1.0, np.abs(expected).max())
    assert difference < error


def test_products_in_loops_are_of_eight_bits_too(tmp_path: Path) -> None:
    recurrent = """
        input-node name=input dim=20
        component name=in type=AffineComponent input-dim=20 output-dim=50 bias-stddev=0
        component name=back type=LinearComponent input-dim=50 output-dim=50
        component name=tanh type=TanhComponent dim=50
        component-node name=in component=in input=input
        component-node name=back component=back input=IfDefined(Offset(tanh, -1))
        component-node name=tanh component=tanh input=Sum(in, back)
        output-node name=output input=tanh
    """
    exported = Exported(Nnet.from_config(recurrent, seed=1), tmp_path, quantize="int8")
    assert exported.about.error < 0.1
    loop = next(node for node in onnx.load(exported.path).graph.node if node.op_type == "Loop")
    assert "MatMul" not in {node.op_type for node in loop.attribute[0].g.node}
    assert exported.run(FEATURES)["output"].shape == (1, 40, 50)
