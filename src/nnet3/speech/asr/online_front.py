"""Builds everything between audio and scores from the options of Kaldi's online2 programs (rescoring.md 10)."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np

from nnet3.base.options.pitch import PitchFeatureOptions, PitchOptions
from nnet3.base.options.recognizer import (
    DecodingOptions,
    ExtractorFileOptions,
    FeatureOptions,
    OnlineCmvnOptions,
    OnlineFeatureOptions,
    SilenceWeightingOptions,
)
from nnet3.errors import ArgumentError
from nnet3.model.nnet import AcousticModel
from nnet3.speech.arrays.aliases import Doubles, Rows, Singles
from nnet3.speech.asr.model_folder import FrontModel
from nnet3.speech.asr.model_settings import read_extractor_settings
from nnet3.speech.asr.pitch_settings import PitchSettings, read_pitch_settings
from nnet3.speech.features.audio import Samples, pieces, samples_at_once
from nnet3.speech.features.conf_file import read_conf
from nnet3.speech.features.features import FEATURE_KINDS, FeatureStream, OnlineCmvn, read_feature_options
from nnet3.speech.features.ivector_files import load_cmvn_stats
from nnet3.speech.features.ivectors import IvectorFiles, IvectorModel, OnlineIvectors, SpeakerState
from nnet3.speech.features.pitch_features import Noise

_LOG = logging.getLogger("nnet3")
_RATES: dict[str, Any] = {"allow_downsample": False, "allow_upsample": False}  # Kaldi's defaults
_NEEDED = ("ivector_extractor", "diag_ubm", "lda_matrix", "global_cmvn_stats")


class OnlineFeatures(NamedTuple):
    """The features of a network's input; the extractor of ivectors, the normalisation of the input (options and
    statistics of everybody) and the pitch behind the features, or None."""

    features: FeatureOptions
    ivectors: IvectorModel | None
    cmvn: tuple[OnlineCmvnOptions, Doubles] | None
    pitch: PitchSettings | None

    def rows(
        self,
        rate: float,
        samples: Samples,
        chunk_seconds: float,
        speaker: SpeakerState | None = None,
        noise: Noise | None = None,
    ) -> tuple[Rows, SpeakerState | None]:
        """Returns frames with ivectors of an utterance, (frames, dim), and what is known of the speaker afterwards.

        The input of a network's frame is asked for as soon as the frame and its ivector can be had, which matters if
        ivectors are greedy. `noise` is that of pitch.
        """
        stream, parts, vectors, taken = FeatureStream(self.features, rate), list[Rows](), list[Singles](), 0
        pitch = None if self.pitch is None else self.pitch.columns(self.features.dim, rate, noise)
        cmvn = None if self.cmvn is None else OnlineCmvn(*self.cmvn)
        ivectors = None if self.ivectors is None else OnlineIvectors(self.ivectors, speaker)
        for piece, is_last in pieces(samples, samples_at_once(rate, chunk_seconds)):
            plain = stream.accept(piece, is_last)
            rows = plain if pitch is None else pitch.accept(plain, piece, is_last)
            parts.append(rows if cmvn is None else cmvn.next_rows(rows))
            taken += len(rows)
            if ivectors is not None:
                ivectors.accept(plain, is_last)
                vectors += [ivectors.at(frame) for frame in range(len(vectors), min(ivectors.ready, taken))]
        frames = np.concatenate(parts)
        if ivectors is None:
            return frames, None
        known = ivectors.speaker_state()
        return np.concatenate([frames, np.array(vectors, np.float32).reshape(-1, ivectors.model.dim)], axis=1), known


def load_online_features(said: OnlineFeatureOptions, greedy: bool = False) -> OnlineFeatures:
    """Loads all files named by options. `greedy`: ivectors count all frames so far (`--online=false`).

    Raises ConfigError or ModelFormatError for a file, ArgumentError for an extractor's file without a name.
    """
    kind = said.feature_type
    for other in FEATURE_KINDS.keys() - {kind}:
        if getattr(said, f"{other}_config"):
            _LOG.warning("--%s-config has no effect with --feature-type=%s", other, kind)
    conf = getattr(said, f"{kind}_config")
    features = read_feature_options(conf, kind, **_RATES) if conf else FEATURE_KINDS[kind](**_RATES)
    ivectors = _load_ivectors(said.ivector_extraction_config, greedy) if said.ivector_extraction_config else None
    return OnlineFeatures(features, ivectors, _load_cmvn(said), _load_pitch(said))


def online_front(
    model: AcousticModel,
    source: str,
    features: OnlineFeatures,
    decoding: DecodingOptions,
    weighting: SilenceWeightingOptions,
) -> FrontModel:
    """Returns a front with the acoustic model of the file `source`. Raises ModelFormatError if they do not fit."""
    takes = "ivector" in model.nnet.input_names
    if takes != (features.ivectors is not None):
        what = "has an input 'ivector': give" if takes else "takes no ivectors: leave out"
        raise ArgumentError(f"{source}: this network {what} --ivector-extraction-config")
    front = FrontModel(model.pack(), features.features, decoding, weighting, *features[1:])
    front.check_dims(source)
    return front


def _load_ivectors(conf: str, greedy: bool) -> IvectorModel:
    options, files = read_extractor_settings(Path(conf))
    missing = [f"--{name.replace('_', '-')}" for name in _NEEDED if not getattr(files, name)]
    if missing:
        raise ArgumentError(f"{conf}: {', '.join(missing)} must be given")
    if greedy:
        options = replace(options, use_most_recent_ivector=True, greedy_ivector_extractor=True)
    return _files(files).load(options)


def _files(said: ExtractorFileOptions) -> IvectorFiles:
    return IvectorFiles._make((*(getattr(said, name) for name in _NEEDED), said.splice_config, said.cmvn_config))


def _load_cmvn(said: OnlineFeatureOptions) -> tuple[OnlineCmvnOptions, Doubles] | None:
    if not said.cmvn_config:
        if said.global_cmvn_stats:
            _LOG.warning("--global-cmvn-stats has no effect without --cmvn-config")
        return None
    options = read_conf(said.cmvn_config, {"": OnlineCmvnOptions()})[""]
    return cast(OnlineCmvnOptions, options), load_cmvn_stats(said.global_cmvn_stats)


def _load_pitch(said: OnlineFeatureOptions) -> PitchSettings | None:
    if not said.add_pitch:
        if said.online_pitch_config:
            _LOG.warning("--online-pitch-config has no effect without --add-pitch")
        return None
    conf = said.online_pitch_config
    return read_pitch_settings(Path(conf)) if conf else PitchSettings(PitchOptions(), PitchFeatureOptions())
