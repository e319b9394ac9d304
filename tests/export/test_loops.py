"""Recurrences as loops: export_onnx compares each file with the executor, for several lengths and batches."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest
import torch

from nnet3.export.blocks import Rectangle
from nnet3.export.loops import _left_by_the_last_iterations, _Matrix, _tiles
from nnet3.model.nnet import Nnet
from tests.export.exported import Exported

RECURRENT = """
    input-node name=input dim=3
    component name=in type=NaturalGradientAffineComponent input-dim=3 output-dim=4
    component name=back type=NaturalGradientAffineComponent input-dim=4 output-dim=4
    component name=tanh type=TanhComponent dim=4
    component-node name=in component=in input=input
    component-node name=back component=back input=IfDefined(Offset(tanh, {}))
    component-node name=tanh component=tanh input=Sum(in, back)
    output-node name=output input=tanh
"""
TWO_BACK = RECURRENT.replace("IfDefined(Offset(tanh, {}))", "Sum(IfDefined(Offset(tanh, -1)), Offset(in, 2))")
SIZES = "cell-dim=4 recurrent-projection-dim=2 non-recurrent-projection-dim=2"
LSTM = f"fast-lstmp-layer name={{}} input=input {SIZES} delay={{}}"
LAYERS = {
    "LSTM": LSTM.format("l", -3),
    "OPGRU": f"fast-norm-opgru-layer name=l {SIZES} delay=-2",
}
FEATURES = np.random.default_rng(0).standard_normal((2, 40, 3)).astype(np.float32)


def _has_loop(exported: Exported) -> bool:
    return "Loop" in {node.op_type for node in onnx.load(exported.path).graph.node}


def _moved(nnet: Nnet) -> Nnet:
    """Returns the network with parameters that are not zero: those of output layers begin so."""
    for parameters in nnet.flat_parameters():
        parameters.add_(torch.randn(parameters.shape, generator=torch.Generator().manual_seed(1)), alpha=0.3)
    return nnet


@pytest.mark.parametrize(
    ("config", "factor"),
    [(RECURRENT.format(-1), 3), (RECURRENT.format(-3), 1), (RECURRENT.format(4), 1), (TWO_BACK, 1)],
    ids=["one back", "three back", "four ahead", "two distances"],
)
def test_simple_recurrences(config: str, factor: int, tmp_path: Path) -> None:
    exported = Exported(Nnet.from_config(config, seed=1), tmp_path, frame_subsampling_factor=factor)
    graph = ir.load(exported.path).graph
    assert "Loop" in {node.op_type for node in graph}
    assert all(value.uses() for value in graph.initializers.values())  # none is left over
    assert exported.about.any_length == ("Offset(tanh, -" in config)


@pytest.mark.parametrize("layer", LAYERS.values(), ids=LAYERS)
@pytest.mark.filterwarnings("ignore:a batch-norm component in test mode has no statistics")
def test_layers(layer: str, tmp_path: Path) -> None:
    nnet = _moved(Nnet.from_xconfig(f"input name=input dim=3\n{layer}\noutput-layer name=output dim=2", seed=1))
    exported = Exported(nnet, tmp_path)
    assert _has_loop(exported)
    frames = exported.about.least_rows + 2 * exported.about.rows_step
    found = exported.run(FEATURES[:, :frames])["output"]
    for sequence in range(2):
        expected = nnet.compute(FEATURES[sequence, :frames]).numpy()
        np.testing.assert_allclose(found[sequence], expected, rtol=1e-4, atol=1e-5)


def test_both_directions_in_one_file(tmp_path: Path) -> None:
    layers = "\n".join([LSTM.format("f", -1), LSTM.format("b", 1)])
    lines = f"input name=input dim=3\n{layers}\noutput-layer name=output input=Append(f, b) dim=2"
    exported = Exported(_moved(Nnet.from_xconfig(lines, seed=1)), tmp_path)
    assert _has_loop(exported)
    assert not exported.about.any_length


@pytest.mark.parametrize(
    ("step", "written", "tiles", "left"),
    [
        (1, [(0, 1)], [(0, 1)], []),
        (1, [(0, 1), (2, 3)], [(0, 1)], [(1, 2), (0, 1)]),
        (2, [(3, 4), (4, 5), (5, 6)], [(3, 5)], [(3, 4)]),
        (-1, [(0, 1), (2, 3)], [(2, 3)], [(1, 2), (2, 3)]),
    ],
)
def test_rows_that_a_later_iteration_writes_again(step: int, written: list, tiles: list, left: list) -> None:
    """Iteration i writes rows `written` + i * step; `left` is seen from the iteration after the last one."""
    matrix = _Matrix(step, [Rectangle(top, bottom, 0, 4) for top, bottom in written])
    assert [(place.top, place.bottom) for place in _tiles(matrix)] == tiles
    assert [(place.top, place.bottom) for place in _left_by_the_last_iterations(matrix)] == left
