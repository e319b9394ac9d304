"""ConstantFunctionComponent and ConstantComponent."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from nnet3 import components
from nnet3.components import Properties
from nnet3.errors import ComponentError
from nnet3.model.components.constant import ConstantComponent
from nnet3.model.components.natural_gradient import OnlineNaturalGradient
from tests.components.component_text import from_text, to_text
from tests.components.contract import component_contract

FUNCTION, CONSTANT = "ConstantFunctionComponent", "ConstantComponent"
TEXT = (
    f"<{FUNCTION}> <LearningRate> 0.5 <InputDim> 3 <Output>  [ 1 2 ]\n"
    f"<IsUpdatable> T <UseNaturalGradient> F </{FUNCTION}> "
)


def test_every_row_is_the_constant() -> None:
    torch.manual_seed(0)
    component = from_text(TEXT)
    assert component.propagate(torch.randn(2, 3))[0].tolist() == [[1, 2], [1, 2]]
    assert to_text(component) == TEXT
    assert component.info() == (
        f"{FUNCTION}, input-dim=3, output-dim=2, learning-rate=0.5, {FUNCTION}, input-dim=3, output-dim=2, "
        "is-updatable=true, use-natural-gradient=false, output-{mean,stddev}=1.5,0.5"
    )


def test_constant_needs_no_input() -> None:
    component = components.create(CONSTANT, "output-dim=4 is-updatable=false output-mean=3")
    assert component.input_dim == 4
    assert component.properties == Properties.NONE
    outputs = np.array([[0, 5, 0], [1, 7, 0]], dtype=np.int32)
    wanted = component.wanted_inputs(outputs)
    assert wanted.shape == (2, 0, 3)
    computable, used = component.computable(outputs, np.empty((2, 0), dtype=bool))
    assert computable.all()
    assert used.shape == (2, 0)
    y = torch.empty(2, 4)
    component.forward(torch.empty(0, 4), y)
    assert y.tolist() == [[3] * 4] * 2
    with pytest.raises(ComponentError, match="run it inside a network"):
        component.propagate(torch.empty(0, 4))
    assert component.info() == (
        f"{CONSTANT}, input-dim=4, output-dim=4, learning-rate=0.001, {CONSTANT}, output-dim=4, is-updatable=false, "
        "use-natural-gradient=true, output-{mean,stddev}=3,0"
    )


def test_without_parameters_nothing_moves() -> None:
    torch.manual_seed(0)
    component = components.create(FUNCTION, "input-dim=3 output-dim=2 is-updatable=false output-mean=1")
    assert component.parameters() == {}
    assert not component.properties & Properties.UPDATABLE
    component.backprop(torch.randn(5, 3), torch.randn(5, 2), torch.randn(5, 2), None, component)
    component.scale_(0.0)
    assert component.propagate(torch.zeros(1, 3))[0].tolist() == [[1, 1]]


@pytest.mark.parametrize("use", ["true", "false"])
def test_updates_are_natural_if_asked(use: str) -> None:
    torch.manual_seed(0)
    component = components.create(FUNCTION, f"input-dim=1 output-dim=50 use-natural-gradient={use} learning-rate=0.1")
    g = torch.randn(30, 50)
    component.backprop(torch.zeros(30, 1), g, g, None, component)
    directions, scale = OnlineNaturalGradient().precondition(g)
    expected = 0.1 * scale * directions.sum(0) if use == "true" else 0.1 * g.sum(0)
    torch.testing.assert_close(component.parameters()["output"], expected.float(), rtol=1e-4, atol=1e-4)


def test_full_header_is_accepted() -> None:
    """Kaldi writes <MaxChange> and <L2Regularize> here, but cannot read them back."""
    header = "<LearningRateFactor> 2 <MaxChange> 0.5 <L2Regularize> 0.1 <LearningRate> 0.25"
    component = from_text(TEXT.replace("<LearningRate> 0.5", header))
    assert "l2-regularize=0.1, learning-rate-factor=2, max-change=0.5" in component.info()
    without = from_text(f"<{CONSTANT}> <Output> [ 1 2 ]\n<IsUpdatable> T <UseNaturalGradient> T </{CONSTANT}> ")
    assert isinstance(without, ConstantComponent)
    assert without.learning_rate == 0.001


TestConstantFunction = component_contract(
    "ConstantFunctionComponent",
    good=[
        "input-dim=3 output-dim=4 output-mean=1 output-stddev=2",
        "input-dim=4 output-dim=4 is-updatable=false output-mean=1 output-stddev=2",
    ],
    rows=6,
    bad_configs=[
        ("output-dim=4", "'input-dim=' is missing", ""),
        ("input-dim=4", "'output-dim=' is missing", ""),
        ("input-dim=0 output-dim=4", "'input-dim' must be >= 1", "0"),
    ],
)
TestConstant = component_contract(
    "ConstantComponent",
    good=["output-dim=4 output-mean=1 output-stddev=2 max-change=1 l2-regularize=0.1"],
    rows=(0, 6),
    file=TEXT,
    bad_configs=[
        ("output-dim=4 input-dim=4", "unknown key 'input-dim'", "input-dim"),
        ("output-dim=4 output-stddev=-1", "'output-stddev' must be >= 0", "-1"),
        ("output-dim=4 is-updatable=1", "'is-updatable' must be true or false", "1"),
    ],
    bad_files=[
        ("<InputDim> 3", "<InputDim> 0", "<InputDim> must be >= 1, got 0"),
        ("[ 1 2 ]", "[ ]", "<Output> must have at least one element"),
        ("<IsUpdatable> T", "<IsUpdatable> 1", "expected T or F, got '1'"),
    ],
)
