"""Networks described as xconfigs that expand to them."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pytest

import nnet3
from nnet3.edits.collapse import prepare_for_test
from nnet3.edits.edits import apply_edits
from tests.random_networks import random_network
from tests.shared_data import GOLDEN, golden_cases
from tests.xconfig.layer_examples import ALL, xconfig_of
from tests.xconfig.round_trip import described

CASES = [*golden_cases("xconfig"), *golden_cases("bench")]
#: Types whose layers are those of another type too, or are told from it by numbers that are not looked for.
ALIKE = {"affine-layer": "affine-component", "idct-layer": "fixed-affine-layer"}


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.parent.name}-{case.name}")
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
def test_models(path: Path) -> None:
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


def test_the_matrix_of_an_idct_is_known() -> None:
    text = "input name=input dim=13\nidct-layer name=idct dim=13 affine-transform-file=idct.mat\noutput name=output\n"
    assert nnet3.Nnet.from_xconfig(text).to_xconfig() == text


def test_further_settings_of_components() -> None:
    text = (
        "input name=input dim=13\n"
        'relu-layer name=a dim=13 ng-affine-options="rank-in=3 update-period=2"\n'
        'lstm-layer name=b cell-dim=6 delay=2 ng-affine-options="max-change=0.5"\n'
        "output-layer name=output dim=3 max-change=0.5\n"
    )
    assert described(nnet3.Nnet.from_xconfig(text)).lines == text.splitlines()


def test_inputs_that_are_constants() -> None:
    text = (
        "input name=input dim=3\n"
        "relu-layer name=a input=Const(1.0, 12) dim=8\n"
        "fast-lstm-layer name=b input=Const(1.0, 2) cell-dim=4\n"
        "output-layer name=output input=Append(a, b, input) dim=3\n"
    )
    found = described(nnet3.Nnet.from_xconfig(text))
    assert [layer.type.name for layer in found.layers] == ["input", "relu-layer", "fast-lstm-layer", "output-layer"]


def test_parts_that_others_read() -> None:
    """A layer is not one if something else reads what it does not give."""
    nnet = nnet3.Nnet.from_xconfig("input name=input dim=3\nrelu-batchnorm-layer name=a dim=4\noutput name=output\n")
    nnet.apply_config("output-node name=output-1 input=a.affine")
    found = described(nnet)
    assert [layer.type.name for layer in found.layers] == [
        *("input", "affine-component", "batchnorm-component", "output", "output")
    ]
    assert found.unrecognised[-1] == "component-node name=a.relu component=a.relu input=a.affine"


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


@pytest.mark.parametrize("seed", range(25))
def test_networks_that_are_no_layers(seed: int) -> None:
    described(nnet3.Nnet.from_config(random_network(seed).config))


def test_a_long_sum() -> None:
    terms = ", ".join(f"Offset(input, {time})" for time in range(40))
    config = "input-node name=input dim=2\ncomponent name=a type=NoOpComponent dim=2\n"
    config += f"component-node name=a component=a input=Sum({terms})\noutput-node name=output input=a\n"
    assert [layer.type.name for layer in described(nnet3.Nnet.from_config(config)).layers] == [
        *("input", "no-op-component", "output")
    ]
