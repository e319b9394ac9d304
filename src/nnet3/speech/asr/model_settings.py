"""Settings of a recognizer's model directory: model.conf of Vosk, online.conf and ivector_extractor.conf of Kaldi."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import NamedTuple, cast

from nnet3.base.options.declaring import Options
from nnet3.base.options.recognizer import (
    DecodingOptions,
    EndpointRule,
    ExtractorFileOptions,
    IvectorOptions,
    OnlineFeatureOptions,
    SilenceOptions,
    SilenceWeightingOptions,
)
from nnet3.base.text import whole_number
from nnet3.errors import ModelFormatError
from nnet3.speech.features.conf_file import read_conf
from nnet3.speech.features.features import FEATURE_KINDS
from nnet3.speech.search.endpoints import RULES

_LOG = logging.getLogger("nnet3")
_CHAIN_FACTOR = 3
_CHAIN = DecodingOptions(
    beam=13, max_active=7000, lattice_beam=6, acoustic_scale=1.0, frame_subsampling_factor=_CHAIN_FACTOR
)  # where no file says what Vosk says for it
_TEN_PHONES = tuple(range(1, 11))
_VOSK_SILENCE_WEIGHT = 0.001
_VOSK_IVECTORS = IvectorOptions(max_count=100.0)

# Options of Kaldi's that have no effect here: of memory, compilation, determinization and logging; of its programs.
_OF_DECODERS = (
    r"hash-ratio|memory-pool-(tokens|links)-block-size|debug-computation|(optimization|computation|compiler)\.[^.]+|"
    r"determinize-lattice|(phone|word)-determinize|minimize|delta|print-args|verbose|help|config"
)
_OF_PROGRAMS = (
    r"chunk-length|online|do-endpointing|word-symbol-table|num-threads-startup|samp-freq|output-period|read-timeout|"
    r"port-num|produce-time"
)


class Settings(NamedTuple):
    """The settings in the config files of a directory; `features` are Kaldi's."""

    decoding: DecodingOptions
    silence_phones: tuple[int, ...]
    endpoint_rules: dict[str, EndpointRule]
    silence_weighting: SilenceWeightingOptions
    features: OnlineFeatureOptions = OnlineFeatureOptions()


class IvectorSettings(NamedTuple):
    """Options of ivectors, and the files that Kaldi's ivector_extractor.conf names."""

    options: IvectorOptions = _VOSK_IVECTORS
    files: ExtractorFileOptions = ExtractorFileOptions()


def read_vosk_settings(path: Path | None) -> Settings:
    """Returns the settings of model.conf; for None, of directories without a file. Raises as `read_conf` does."""
    if path is None:
        return _vosk(_CHAIN, _TEN_PHONES, dict(RULES))
    sections = read_conf(path, {"": DecodingOptions(), **_endpoint_sections()}, _OF_DECODERS)
    return _vosk(cast(DecodingOptions, sections[""]), *_endpoints(sections))


def _vosk(decoding: DecodingOptions, phones: tuple[int, ...], rules: dict[str, EndpointRule]) -> Settings:
    return Settings(decoding, phones, rules, SilenceWeightingOptions(phones, _VOSK_SILENCE_WEIGHT))


def read_kaldi_settings(path: Path, factor: Path) -> Settings:
    """Returns the settings of online.conf, and of the file `factor` with the number of frames per row.

    Without a number in either file, rows have as many frames as in most chain models. Raises as `read_conf` does.
    """
    names = {"": _CHAIN, "/features": OnlineFeatureOptions(), "ivector-silence-weighting": SilenceWeightingOptions()}
    sections = read_conf(path, {**names, **_endpoint_sections()}, f"{_OF_DECODERS}|{_OF_PROGRAMS}")
    features = cast(OnlineFeatureOptions, sections["/features"])
    for other in FEATURE_KINDS.keys() - {features.feature_type}:
        if getattr(features, f"{other}_config"):
            _LOG.warning("%s: --%s-config has no effect with --feature-type=%s", path, other, features.feature_type)
    if features.online_pitch_config and not features.add_pitch:
        _LOG.warning("%s: --online-pitch-config has no effect without --add-pitch=true", path)
    if features.global_cmvn_stats and not features.cmvn_config:
        _LOG.warning("%s: --global-cmvn-stats has no effect without --cmvn-config", path)
    frames = features.frame_subsampling_factor or (_factor(factor) if factor.is_file() else _CHAIN_FACTOR)
    decoding = DecodingOptions(**sections[""].values() | {"frame_subsampling_factor": frames})
    weighting = cast(SilenceWeightingOptions, sections["ivector-silence-weighting"])
    return Settings(decoding, *_endpoints(sections), weighting, features)


def read_extractor_settings(path: Path) -> IvectorSettings:
    """Returns the settings of ivector_extractor.conf. Raises as `read_conf` does."""
    sections = read_conf(path, {"": IvectorOptions(), "/files": ExtractorFileOptions()})
    return IvectorSettings(cast(IvectorOptions, sections[""]), cast(ExtractorFileOptions, sections["/files"]))


def _endpoint_sections() -> dict[str, Options]:
    return {"endpoint": SilenceOptions(), **{f"endpoint.{name}": rule for name, rule in RULES.items()}}


def _endpoints(sections: dict[str, Options]) -> tuple[tuple[int, ...], dict[str, EndpointRule]]:
    """Returns the phones that are silence, and the rules."""
    rules = {name: cast(EndpointRule, sections[f"endpoint.{name}"]) for name in RULES}
    return cast(SilenceOptions, sections["endpoint"]).silence_phones, rules


def _factor(file: Path) -> int:
    """Returns the one integer in a file of Kaldi's."""
    words = file.read_bytes()[:100].split()
    factor = whole_number(words[0]) if len(words) == 1 else None
    if factor is None or not 1 <= factor <= 1000:
        raise ModelFormatError("expected one integer from 1 to 1000, the frames of input per row of output", str(file))
    return factor
