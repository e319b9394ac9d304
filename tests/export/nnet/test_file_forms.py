"""Files for utterances of any length give what `nnet.compute` gives."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import nnet3
from nnet3.errors import ExportError
from nnet3.model.nnet import Nnet
from tests.cli.run_command import IVECTOR_CONFIG
from tests.export.exported import Exported
from tests.shared_data import golden_cases

TDNN = """
    input-node name=input dim=4
    component name=a type=TdnnComponent input-dim=4 output-dim=5 time-offsets=-2,0,1
    component name=b type=NaturalGradientAffineComponent input-dim=10 output-dim=3
    component-node name=a component=a input=input
    component-node name=b component=b input=Append(Offset(a, -3), a)
    output-node name=output input=b
"""
CONVOLUTION = """
    input-node name=input dim=4
    component name=a type=TimeHeightConvolutionComponent num-filters-in=1 num-filters-out=2 height-in=4 height-out=4 \
height-offsets=-1,0 time-offsets=-1,0,1 required-time-offsets=0
    component-node name=a component=a input=input
    output-node name=output input=a
"""
ATTENTION = """
    input-node name=input dim=4
    component name=affine type=AffineComponent input-dim=4 output-dim=14
    component name=a type=RestrictedAttentionComponent num-heads=2 key-dim=1 value-dim=2 num-left-inputs=1 \
num-right-inputs=1 time-stride=2 num-right-inputs-required=0
    component-node name=affine component=affine input=input
    component-node name=a component=a input=affine
    output-node name=output input=a
"""
STATISTICS = """
    input-node name=input dim=4
    component name=extract type=StatisticsExtractionComponent input-dim=4 input-period=1 output-period=2
    component name=pool type=StatisticsPoolingComponent input-dim=9 input-period=2 left-context=6 right-context=4
    component-node name=extract component=extract input=input
    component-node name=pool component=pool input=extract
    output-node name=output input=Round(pool, 2)
"""
RECURRENCE = """
    input-node name=input dim=4
    component name=a type=AffineComponent input-dim=8 output-dim=4
    component-node name=a component=a input=Append(input, IfDefined(Offset(a, {ahead})))
    output-node name=output input=a
"""
FEATURES = np.random.default_rng(0).standard_normal((2, 61, 4)).astype(np.float32)


@pytest.mark.parametrize("factor", [1, 3])
def test_an_utterance_may_have_any_length(factor: int, tmp_path: Path) -> None:
    nnet = Nnet.from_config(TDNN, seed=1)
    exported = Exported(nnet, tmp_path, frame_subsampling_factor=factor)
    assert (exported.about.form, exported.about.any_length, exported.about.note) == ("utterance", True, "")
    for frames in (1, 17, 61):
        found = exported.run(FEATURES[:, :frames])["output"]
        for sequence in range(2):
            expected = nnet.compute(FEATURES[sequence, :frames], frame_subsampling_factor=factor).numpy()
            np.testing.assert_allclose(found[sequence], expected, rtol=1e-4, atol=1e-5)


def test_ivectors_and_extra_context(tmp_path: Path) -> None:
    nnet = Nnet.from_config(IVECTOR_CONFIG, seed=1)
    exported = Exported(nnet, tmp_path, extra_left_context=3, extra_right_context=2)
    ivectors = np.array([[1, 2], [3, 4]], np.float32)
    found = exported.run(FEATURES[:, :30, :3], ivectors)["output"]
    for sequence in range(2):
        expected = nnet.compute(FEATURES[sequence, :30, :3], ivectors[sequence]).numpy()
        np.testing.assert_allclose(found[sequence], expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("config", [CONVOLUTION, ATTENTION, STATISTICS], ids=["convolution", "attention", "statistics"])
def test_what_depends_on_the_end_is_right_for_the_lengths_of_the_family(config: str, tmp_path: Path) -> None:
    nnet = Nnet.from_config(config, seed=1)
    exported = Exported(nnet, tmp_path)
    about = exported.about
    assert not about.any_length
    assert about.note.startswith(f"Own lengths: outputs are those of nnet3 for {about.least_rows}, ")
    assert exported.session.get_modelmeta().description == about.note
    frames = about.least_rows + 2 * about.rows_step
    found = exported.run(FEATURES[:1, :frames])["output"][0]
    np.testing.assert_allclose(found, nnet.compute(FEATURES[0, :frames]).numpy(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("folder", golden_cases("xvector", "model.raw"), ids=lambda path: path.name)
@pytest.mark.parametrize("frames_per_chunk", [None, 120])
def test_a_vector_of_all_frames(folder: Path, frames_per_chunk: int | None, tmp_path: Path) -> None:
    nnet = nnet3.load_nnet(folder / "model.raw")
    exported = Exported(nnet, tmp_path, vector=True, frames_per_chunk=frames_per_chunk)
    features = np.random.default_rng(0).standard_normal((2, 120, exported.about.input_dim)).astype(np.float32)
    found = exported.run(features)["output"]
    assert found.shape == (2, exported.about.output_dims["output"])
    for sequence in range(2):
        expected = nnet3.xvectors(nnet, features[sequence]).numpy()
        np.testing.assert_allclose(found[sequence], expected, rtol=1e-4, atol=1e-5)


def test_a_constant_network_that_looks_ahead_has_own_lengths(tmp_path: Path) -> None:
    """Structure tells it, not the values of parameters that may be trained."""
    for ahead, any_length in ((1, False), (-1, True)):
        nnet = Nnet.from_config(RECURRENCE.format(ahead=ahead)).in_test_mode()
        nnet.scale_(0.0)
        assert Exported(nnet, tmp_path).about.any_length == any_length


def test_a_network_whose_programs_do_not_go_on_alike_is_refused(tmp_path: Path) -> None:
    nnet = Nnet.from_config(STATISTICS.replace("left-context=6 right-context=4", "left-context=600 right-context=400"))
    with pytest.raises(ExportError, match=r"; for ONNX, a fixed number of frames_per_chunk may do$"):
        nnet3.export_onnx(nnet, tmp_path / "model.onnx")
    assert list(tmp_path.iterdir()) == []
