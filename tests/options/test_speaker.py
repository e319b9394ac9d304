"""Options of speaker recognition: Kaldi's names and defaults, and values that mean nothing."""

from __future__ import annotations

import pytest

from nnet3.base.options.declaring import Options, declared
from nnet3.errors import ArgumentError
from nnet3.options import (
    ClusteringOptions,
    DiarizationOptions,
    PldaAdaptationOptions,
    PldaScoringOptions,
    SlidingCmvnOptions,
    SpeakerLdaOptions,
    VadOptions,
)

KALDIS: dict[type[Options], dict[str, float | bool]] = {
    VadOptions: {
        "vad-energy-threshold": 5.0,
        "vad-energy-mean-scale": 0.5,
        "vad-frames-context": 0,
        "vad-proportion-threshold": 0.6,
    },
    SlidingCmvnOptions: {"cmn-window": 600, "min-cmn-window": 100, "center": False, "norm-vars": False},
    PldaScoringOptions: {"normalize-length": True, "simple-length-normalization": False},
    PldaAdaptationOptions: {"mean-diff-scale": 1.0, "within-covar-scale": 0.3, "between-covar-scale": 0.7},
    SpeakerLdaOptions: {"dim": 100, "total-covariance-factor": 0.0, "covariance-floor": 1e-6},
    ClusteringOptions: {"threshold": 0.0, "first-pass-max-utterances": 32767, "max-spk-fraction": 1.0},
}


@pytest.mark.parametrize("options", KALDIS)
def test_names_and_defaults_are_kaldis(options: type[Options]) -> None:
    assert {item.flag: item.program_default for item in declared(options)} == KALDIS[options]


@pytest.mark.parametrize(
    ("options", "name", "value"),
    [
        (VadOptions, "vad_proportion_threshold", 1.0),
        (VadOptions, "vad_frames_context", -1),
        (SlidingCmvnOptions, "cmn_window", 0),
        (PldaAdaptationOptions, "within_covar_scale", -0.1),
        (SpeakerLdaOptions, "dim", 0),
        (ClusteringOptions, "first_pass_max_utterances", 0),
        (DiarizationOptions, "window", 0.0),
        (DiarizationOptions, "target_energy", 1.5),
    ],
)
def test_values_that_mean_nothing_are_refused(options: type[Options], name: str, value: float) -> None:
    with pytest.raises(ArgumentError, match=name):
        options(**{name: value})
