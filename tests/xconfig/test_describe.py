"""Networks described as xconfigs that expand to them."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pytest

import nnet3
from nnet3.model.edits.collapse import prepare_for_test
from nnet3.model.edits.edits import apply_edits
from tests.effort import EFFORT
from tests.shared_data import GOLDEN, golden_cases
from tests.xconfig.layer_examples import ALL, xconfig_of
from tests.xconfig.round_trip import described

CASES = [*golden_cases("xconfig"), *golden_cases("bench")]
#: Types whose layers are those of another type too, or are told from it by numbers that are not looked for.
ALIKE = {"affine-layer": "affine-component", "idct-layer": "fixed-affine-layer"}


@pytest.mark.parametrize("case", CASES[:: 4 if EFFORT == 1 else 1], ids=lambda case: f"{case.parent.name}-{case.name}")
@pytest.mark.usefixtures("undrawn")
def test_xconfigs_of_recipes(case: Path) -> None:
    text = (case / "network.xconfig").read_text()
    found = described(nnet3.Nnet.from_xconfig(text))
    assert found.is_complete
    layers = [line.split() for line in text.splitlines() if line.split("#")[0].strip()]
    types = {word.split("=")[1]: words[0] for words in layers for word in words if word.startswith("name=")}
    assert {layer.name: layer.type.name for layer in found.layers} == types


@pytest.mark.parametrize(("layer_type", "values"), ALL, ids=lambda value: value[:60] or "-")
def test_layers_of_all_types(layer_type: str, values: str) -> None:
    found = described(nnet3.Nnet.from_xconfig(xconfig_of(layer_type, values)))
    assert found.is_complete
    assert {layer_type, ALIKE.get(layer_type)} & {layer.type.name for layer in found.layers}


@pytest.mark.parametrize("path", sorted(GOLDEN.glob("*/*/*.mdl")) + sorted(GOLDEN.glob("*/*/model.raw")), ids=str)
def test_layers_of_golden_models_are_recognised(path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of what is odd in the models
        model = nnet3.load(path)
    found = described(model.nnet if isinstance(model, nnet3.AcousticModel) else model)
    assert found.is_complete or path.parent.parent.name != "recipe"


def lines(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if line.strip()]


XCONFIG = """
    input name=ivector dim=10
    input name=input dim=40
    fixed-affine-layer name=lda input=Append(0, 1, ReplaceIndex(ivector, t, 0)) dim=90 affine-transform-file=lda.mat
    relu-batchnorm-layer name=tdnn1 dim=64 l2-regularize=0.01
    tdnnf-layer name=tdnnf2 dim=64 bottleneck-dim=8 time-stride=3 l2-regularize=0.01
    stats-layer name=stats config=mean+stddev(-9:3:9:9)
    relu-batchnorm-layer name=tdnn3 input=Append(tdnnf2, stats, stats@-9) dim=32
    fast-lstmp-layer name=lstm4 cell-dim=16 recurrent-projection-dim=4 non-recurrent-projection-dim=4 delay=-3
    output-layer name=output dim=5 include-log-softmax=false output-delay=5
    output-layer name=output-xent input=lstm4 dim=5 learning-rate-factor=5.0
"""


def test_what_is_printed() -> None:
    """Keys that have their defaults are left out, and so is the layer before as the input."""
    nnet = nnet3.Nnet.from_xconfig(XCONFIG, lda=np.eye(90))
    assert described(nnet).lines == lines(XCONFIG)


def test_after_training_and_in_files(tmp_path: Path) -> None:
    """Rates and statistics are not looked at; float32 numbers are printed in their few digits."""
    nnet = nnet3.Nnet.from_xconfig(XCONFIG, lda=np.eye(90))
    nnet.set_learning_rate(0.01)
    nnet.set_test_mode()
    nnet.save(tmp_path / "1.raw")
    nnet.save(tmp_path / "2.raw", binary=False)
    for name in ("1.raw", "2.raw"):
        assert nnet3.load(tmp_path / name).to_xconfig().splitlines() == lines(XCONFIG)


def test_a_network_that_is_edited() -> None:
    nnet = nnet3.Nnet.from_xconfig(XCONFIG, lda=np.eye(90))
    apply_edits(
        nnet, "rename-node old-name=tdnn1.relu new-name=x\nremove-output-nodes name=output-xent\nremove-orphans"
    )
    found = described(nnet)
    assert "component-node name=x component=tdnn1.relu input=tdnn1.affine" in found.unrecognised
    assert "# not recognised: component-node name=x component=tdnn1.relu input=tdnn1.affine" in found.lines
    assert {"lda", "tdnnf2", "stats", "lstm4", "output"} <= {layer.name for layer in found.layers}


def test_a_network_that_is_prepared_for_test() -> None:
    nnet = nnet3.Nnet.from_xconfig(XCONFIG, lda=np.eye(90))
    nnet.set_test_mode()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # batch-norm without statistics
        prepare_for_test(nnet)
    assert {"input", "ivector", "lstm4", "output"} <= {layer.name for layer in described(nnet).layers}
