"""BlockAffineComponent."""

from __future__ import annotations

import torch

from nnet3 import components
from nnet3.model.components.block_affine import BlockAffineComponent
from tests.components.component_text import from_text
from tests.components.contract import component_contract

TEXT = (
    "<BlockAffineComponent> <LearningRate> 0.5 <NumBlocks> 2 <LinearParams> [\n 1 2\n 3 4 ]\n<BiasParams> [ 10 20 ]\n"
    "<IsGradient> T </BlockAffineComponent> "
)


def test_is_an_affine_map_with_a_block_diagonal_matrix() -> None:
    torch.manual_seed(0)
    component = components.create("BlockAffineComponent", "input-dim=12 output-dim=6 num-blocks=3")
    assert isinstance(component, BlockAffineComponent)
    whole = torch.block_diag(*component.linear_params.view(3, 2, 4))
    x = torch.randn(5, 12)
    torch.testing.assert_close(component.propagate(x)[0], x @ whole.t() + component.bias_params)


def test_an_old_file_is_read() -> None:
    component = from_text(TEXT)
    assert isinstance(component, BlockAffineComponent)
    assert component.is_gradient
    assert component.propagate(torch.tensor([[1.0, 2.0, 3.0, 4.0]]))[0].tolist() == [[15, 45]]
    assert "input-dim=4, output-dim=2, learning-rate=0.5, is-gradient=true, num-blocks=2" in component.info()


TestBlockAffine = component_contract(
    "BlockAffineComponent",
    good=[
        f"{sizes} bias-mean=0.5 learning-rate-factor=0.5"
        for sizes in ("input-dim=12 output-dim=6 num-blocks=3", "input-dim=4 output-dim=3 num-blocks=1")
    ],
    file=TEXT,
    bad_configs=[
        ("input-dim=4 output-dim=4", "'num-blocks=' is missing", ""),
        ("input-dim=5 output-dim=4 num-blocks=2", "must divide 'input-dim', but 5 is no multiple of 2", "2"),
        ("input-dim=4 output-dim=5 num-blocks=2", "must divide 'output-dim', but 5 is no multiple of 2", "2"),
        ("input-dim=4 output-dim=4 num-blocks=0", "'num-blocks' must be >= 1", "0"),
        ("input-dim=4 output-dim=4 num-blocks=2 orthonormal-constraint=1", "unknown key", "orthonormal-constraint"),
    ],
    bad_files=[
        ("<NumBlocks> 2", "<NumBlocks> 3", "<LinearParams> has 2 rows, which 3 blocks do not divide"),
        ("<NumBlocks> 2", "<NumBlocks> 0", "<NumBlocks> must be >= 1, got 0"),
        ("[ 10 20 ]", "[ 10 ]", "<BiasParams> must have 2 elements, got 1"),
    ],
)
