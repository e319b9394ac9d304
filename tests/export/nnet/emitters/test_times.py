"""TDNNs and convolutions whose rows are in all kinds of orders; export_onnx compares each file with the executor."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest

import nnet3
from tests.export.exported import Exported

TDNN = "TdnnComponent input-dim=6 output-dim=6 time-offsets={}"
CONVOLUTION = "TimeHeightConvolutionComponent num-filters-in=2 height-in=3 num-filters-out=2 height-out=3 {}"
IRREGULAR = CONVOLUTION.format("offsets=-3,0;-1,-1;-1,1;0,0;2,1 required-time-offsets=-1,0")
COMPONENTS = {
    "one offset": TDNN.format("2"),
    "equal distances": TDNN.format("-3,0,3"),
    "others": TDNN.format("-4,0,1"),
    "no bias": TDNN.format("-1,0") + " use-bias=false",
    "3 x 3": CONVOLUTION.format("height-offsets=-1,0,1 time-offsets=-1,0,1"),
    "dilated": CONVOLUTION.format("height-offsets=0,1 time-offsets=-3,0,3"),
    "zeros at the ends": CONVOLUTION.format("height-offsets=-1,0,1 time-offsets=-1,0,1 required-time-offsets=0"),
    "irregular": IRREGULAR,
    "cropped": CONVOLUTION.replace("height-out=3", "height-out=1").format("height-offsets=1,2 time-offsets=0,1"),
    "subsampled heights": CONVOLUTION.replace("height-out=3", "height-out=2 height-subsample-out=2").format(
        "height-offsets=0 time-offsets=0,1"
    ),
}


@pytest.mark.parametrize("factor", [1, 3])
@pytest.mark.parametrize("component", COMPONENTS.values(), ids=COMPONENTS)
def test_orders_of_rows(component: str, factor: int, tmp_path: Path) -> None:
    first = "component name=first type=NaturalGradientAffineComponent input-dim=6 output-dim=6"
    nnet = nnet3.Nnet.from_config(
        f"""input-node name=input dim=6
        {first}
        component name=second type={component}
        component-node name=first component=first input=Sum(input, Offset(input, 1))
        component-node name=second component=second input=first
        output-node name=output input=second""",
        seed=1,
    )
    exported = Exported(nnet, tmp_path, frames_per_chunk=12, frame_subsampling_factor=factor)
    assert exported.about.output_rows == 12 // factor


def test_a_convolution_is_one_node_where_rows_move_alike(tmp_path: Path) -> None:
    lines = "input-node name=input dim=6\ncomponent name=c type={}\ncomponent-node name=c component=c input=input\n"
    for component, count in ((COMPONENTS["dilated"], 1), (IRREGULAR, 4)):
        nnet = nnet3.Nnet.from_config(lines.format(component) + "output-node name=output input=c", seed=1)
        nodes = onnx.load(Exported(nnet, tmp_path, frames_per_chunk=9).path).graph.node
        assert sum(node.op_type == "Conv" for node in nodes) == count


@pytest.mark.parametrize(("output_dim", "products", "joins"), [(5, 3, 0), (6, 1, 1)])
def test_wide_rows_are_multiplied_before_they_are_put_side_by_side(
    output_dim: int, products: int, joins: int, tmp_path: Path
) -> None:
    config = f"""
        input-node name=input dim=6
        component name=tdnn type=TdnnComponent input-dim=6 output-dim={output_dim} time-offsets=-1,0,2
        component name=affine type=AffineComponent input-dim={2 * output_dim} output-dim={output_dim - 1}
        component-node name=tdnn component=tdnn input=input
        component-node name=affine component=affine input=Append(tdnn, Offset(tdnn, 2))
        output-node name=output input=affine
    """
    exported = Exported(nnet3.Nnet.from_config(config, seed=1), tmp_path, frames_per_chunk=9)
    found = [node.op_type for node in onnx.load(exported.path).graph.node]
    assert (found.count("MatMul"), found.count("Concat")) == (products + 2, joins)
