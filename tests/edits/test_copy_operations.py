"""What the copy tools do, in Kaldi's order."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from nnet3 import Nnet
from nnet3.errors import ConfigError, NetworkError
from nnet3.model.edits.copy_operations import ConfigText, CopyOptions, convert_repeated_to_block, copy_model, copy_raw
from nnet3.model.nnet.acoustic_model import AcousticModel
from nnet3.model.nnet.load import load
from nnet3.options import CollapseOptions
from tests.nnet.run_network import frames, relative_error, run_network, simple_output
from tests.nnet.short_network import short_network
from tests.shared_data import GOLDEN, golden_cases

LAYERS = (
    "bn BatchNorm dim=4 < input\na Affine 4->4 learning-rate-factor=0.5 < bn\n"
    "d Dropout dim=4 dropout-proportion=0.25 < a"
)
REPEATED = "r RepeatedAffine 4->6 num-repeats=2 learning-rate-factor=0.5 max-change=0.75 bias-stddev=1.0 < input"


def _edits(*texts: str) -> tuple[ConfigText, ...]:
    return tuple(ConfigText(text, f"edits {number}") for number, text in enumerate(texts, start=1))


# ---- raw networks ----


def test_nothing_asked_for_changes_nothing_but_test_mode() -> None:
    nnet = short_network(LAYERS)
    before = nnet.info()
    nnet.components["bn"].set_test_mode(True)
    nnet.components["d"].set_test_mode(True)
    assert copy_raw(nnet, CopyOptions()) == []
    assert nnet.info() == before
    assert nnet.components["d"].test_mode


def test_batchnorm_test_mode() -> None:
    nnet = short_network(LAYERS)
    copy_raw(nnet, CopyOptions(batchnorm_test_mode=True))
    assert nnet.components["bn"].test_mode
    assert not nnet.components["d"].test_mode


def test_prepare_for_test_collapses() -> None:
    nnet = short_network(LAYERS)
    copy_raw(nnet, CopyOptions(prepare_for_test=True))
    assert list(nnet.components) == ["d", "bn.a"]
    assert nnet.components["d"].test_mode


def test_prepare_for_test_as_in_kaldi() -> None:
    nnet = short_network(LAYERS)
    copy_raw(nnet, CopyOptions(prepare_for_test=True, collapse=CollapseOptions(batchnorm=False)))
    assert list(nnet.components) == ["bn", "a", "d"]
    assert nnet.components["bn"].test_mode


def test_learning_rate_comes_after_the_config_and_before_the_edits() -> None:
    nnet = short_network(LAYERS)
    options = CopyOptions(
        nnet_config=ConfigText("component name=a type=AffineComponent input-dim=4 output-dim=4", "my.config"),
        learning_rate=0.1,
        edits=_edits("set-learning-rate-factor learning-rate-factor=3"),
    )
    copy_raw(nnet, options)
    assert nnet.components["a"].learning_rate == pytest.approx(0.1)
    assert nnet.components["a"].learning_rate_factor == 3.0


def test_actual_rates_of_the_updatable_components_in_their_order() -> None:
    nnet = short_network(LAYERS + "\nl Linear 4->2 < d")
    copy_raw(nnet, CopyOptions(learning_rate=0.5, learning_rates=[0.1, 0.2]))
    rates = {name: c.updatable.learning_rate for name, c in nnet.components.items() if c.updatable is not None}
    assert rates == {"a": 0.1, "l": 0.2}
    with pytest.raises(NetworkError, match=r"^3 learning rates for 2 updatable components: a, l$"):
        copy_raw(nnet, CopyOptions(learning_rates=[0.1, 0.2, 0.3]))


def test_edits_are_applied_in_order_with_their_warnings() -> None:
    nnet = short_network(LAYERS)
    texts = _edits("rename-node old-name=a new-name=b", "rename-node old-name=b new-name=c\nreduce-rank name=x* rank=1")
    assert copy_raw(nnet, CopyOptions(edits=texts)) == ["edits 2:2: reduce-rank: no component matches 'x*'"]
    assert "c" in nnet.node_number


def test_config_warnings_are_returned() -> None:
    config = ConfigText("input-node name=extra dim=3", "my.config")
    assert copy_raw(short_network(LAYERS), CopyOptions(nnet_config=config)) == [
        "node 'extra' is never used to compute any output"
    ]


def test_new_parameters_follow_the_seed() -> None:
    config = ConfigText("component name=a type=AffineComponent input-dim=4 output-dim=4", "my.config")

    def made(seed: int) -> torch.Tensor:
        nnet = short_network(LAYERS)
        copy_raw(nnet, CopyOptions(nnet_config=config, seed=seed))
        return nnet.components["a"].parameters()["linear_params"]

    assert torch.equal(made(5), made(5))
    assert not torch.equal(made(5), made(6))


def test_an_error_names_its_text() -> None:
    with pytest.raises(ConfigError, match=r"^my\.config:1:"):
        copy_raw(short_network(LAYERS), CopyOptions(nnet_config=ConfigText("nonsense", "my.config")))
    with pytest.raises(ConfigError, match=r"^edits 1:1:"):
        copy_raw(short_network(LAYERS), CopyOptions(edits=_edits("nonsense")))


def test_scale_multiplies_parameters_and_statistics() -> None:
    nnet = short_network(LAYERS)
    linear = nnet.components["a"].linear_params.clone()
    copy_raw(nnet, CopyOptions(scale=0.5))
    assert torch.equal(nnet.components["a"].linear_params, 0.5 * linear)
    assert nnet.components["bn"].count == 5.0


SVD = _edits("apply-svd name=a energy-threshold=0.9999999 shrinkage-threshold=9")


def test_raw_scales_before_the_edits() -> None:
    """Two factors made of a scaled matrix have the scale once; scaled themselves, they would have it twice."""
    nnet = short_network("a Affine 4->4 < input")
    want = short_network("a Affine 4->4 < input")
    want.scale_(0.5)
    copy_raw(nnet, CopyOptions(scale=0.5, edits=SVD))
    assert list(nnet.components) == ["a_a", "a_b"]
    assert relative_error(simple_output(nnet), simple_output(want)) < 1e-9


# ---- acoustic models ----


def _model(nnet: Nnet, num_priors: int = 0) -> AcousticModel:
    transition_model = load(GOLDEN / "mdl" / "1" / "final.mdl").transition_model
    return AcousticModel(transition_model, nnet, torch.full((num_priors,), 0.25))


def test_model_scales_after_the_edits() -> None:
    nnet = short_network("a Affine 4->4 < input")
    factored = short_network("a Affine 4->4 < input")
    copy_raw(factored, CopyOptions(edits=SVD))
    factored.scale_(0.5)
    copy_model(_model(nnet), CopyOptions(scale=0.5, edits=SVD))
    assert relative_error(simple_output(nnet), simple_output(factored)) < 1e-12


def test_model_batchnorm_is_left_in_its_mode() -> None:
    nnet = short_network(LAYERS)
    nnet.components["bn"].set_test_mode(True)
    copy_model(_model(nnet), CopyOptions())
    assert nnet.components["bn"].test_mode


def test_set_raw_nnet_drops_priors_that_do_not_fit() -> None:
    model = _model(short_network(LAYERS), num_priors=4)
    same_dim, other_dim = short_network("x Affine 4->4 < Offset(input, 2)"), short_network("x Affine 4->7 < input")
    (warning,) = copy_model(model, CopyOptions(set_raw_nnet=same_dim))
    assert "has dimension 4, but the transition model has 152 pdfs" in warning
    assert model.nnet is same_dim
    assert model.right_context == 2
    assert len(model.priors) == 4
    assert sorted(copy_model(model, CopyOptions(set_raw_nnet=other_dim, prepare_for_test=True))) == [
        "the 4 priors are dropped: the output has dimension 7 now",
        "the network's output has dimension 7, but the transition model has 152 pdfs",
    ]
    assert len(model.priors) == 0


def test_model_must_stay_simple() -> None:
    model = _model(short_network(LAYERS))
    with pytest.raises(NetworkError, match="an acoustic model needs a simple network: an output 'output'"):
        copy_model(model, CopyOptions(edits=_edits("rename-node old-name=input new-name=features")))


def test_model_operations_come_in_order() -> None:
    model = _model(short_network(LAYERS))
    options = CopyOptions(
        nnet_config=ConfigText(
            "component name=r type=RepeatedAffineComponent input-dim=4 output-dim=4 num-repeats=2 "
            "learning-rate-factor=2\n"
            "component-node name=r component=r input=d\noutput-node name=output input=r",
            "my.config",
        ),
        convert_repeated_to_block=True,
        learning_rate=0.1,
        edits=_edits("set-dropout-proportion proportion=0.5"),
        prepare_for_test=True,
    )
    assert copy_model(model, options) == ["the network's output has dimension 4, but the transition model has 152 pdfs"]
    assert list(model.nnet.components) == ["d", "r", "bn.a"]
    assert model.nnet.components["d"].dropout_proportion == 0.5
    block = model.nnet.components["r"]
    assert (block.type_name, block.learning_rate) == ("BlockAffineComponent", pytest.approx(0.2))


@pytest.mark.parametrize("folder", golden_cases("mdl"), ids=lambda folder: folder.name)
def test_a_prepared_golden_model_gives_the_same_output(folder: Path, tmp_path: Path) -> None:
    """A real model, prepared for test and written, gives the same output when it is read again."""
    model = load(folder / "final.mdl")
    nnet = model.nnet
    nnet.set_test_mode(True)
    given = frames(-nnet.left_context, nnet.right_context + 4)
    inputs, outputs = dict.fromkeys(nnet.input_names, given), {"output": frames(0, 4)}
    before = run_network(nnet, inputs, outputs)["output"]
    copy_model(model, CopyOptions(prepare_for_test=True))
    model.save(tmp_path / "test.mdl")
    again = load(tmp_path / "test.mdl")
    assert relative_error(run_network(again.nnet, inputs, outputs)["output"], before) < 1e-5
    assert again.info() == model.info()


# ---- repeated to block ----


@pytest.mark.parametrize("kind", ["RepeatedAffine", "NaturalGradientRepeatedAffine"])
def test_repeated_affine_becomes_block_affine(kind: str) -> None:
    nnet = short_network(REPEATED.replace("RepeatedAffine", kind) + "\na Affine 6->3 < r")
    before, other = simple_output(nnet), nnet.components["a"]
    convert_repeated_to_block(nnet)
    block = nnet.components["r"]
    assert block.type_name == "BlockAffineComponent"
    assert (block.num_blocks, block.learning_rate_factor, block.max_change) == (2, 0.5, 0.75)
    assert nnet.components["a"] is other
    assert relative_error(simple_output(nnet), before) < 1e-12
