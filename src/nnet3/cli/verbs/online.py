"""Verbs that decode audio as it comes."""

from __future__ import annotations

from typing import Any

import click

from nnet3.base.options.recognizer import (
    ENDPOINT_RULES,
    DecodingOptions,
    EndpointRule,
    LatticeOptions,
    OnlineDecodingOptions,
    OnlineFeatureOptions,
    SilenceOptions,
    SilenceWeightingOptions,
)
from nnet3.cli import later
from nnet3.cli.declared import takes
from nnet3.cli.options import Decorator, all_of, arguments, ignored, integer, word_symbols_option
from nnet3.cli.verb import run_on_cpu, verb

_OF_GROWING_LATTICES = ("determinize_max_delay", "determinize_min_chunk_size", "determinize_max_active")


def _rule(name: str) -> Decorator:
    return takes(name, EndpointRule, prefix=f"endpoint.{name}.", defaults=ENDPOINT_RULES[name])


_feature_options: Decorator = all_of(
    takes("features", OnlineFeatureOptions, omit=("frame_subsampling_factor",)),
    ignored("--plp-config", "--online-pitch-config", kind=click.STRING),
    takes("weighting", SilenceWeightingOptions, prefix="ivector-silence-weighting."),
    ignored("--num-threads-startup", kind=integer()),
)
_endpoint_options: Decorator = all_of(
    takes("silence", SilenceOptions, prefix="endpoint."), *(_rule(name) for name in ENDPOINT_RULES)
)
_wave_arguments: Decorator = arguments(
    model="MODEL",
    graph="GRAPH",
    spk2utt="SPK2UTT-RSPECIFIER",
    waves="WAV-RSPECIFIER",
    lattices="LATTICE-WSPECIFIER",
)


def _settings(given: dict[str, Any]) -> later.online_tables.OnlineSettings:
    """Takes the options of hearing out of what a verb is given."""
    run_on_cpu()
    if not given["lattices_options"].determinize_lattice:
        raise click.UsageError("--determinize-lattice=false: lattices of streams are always determinized: leave it out")
    rules = {name: given.pop(name) for name in ENDPOINT_RULES}
    names = ("features", "decoding", "weighting", "silence", "online")
    return later.online_tables.OnlineSettings(
        lattices=given.pop("lattices_options"), rules=rules, **{name: given.pop(name) for name in names}
    )


@verb()
@takes("online", OnlineDecodingOptions)
@word_symbols_option
@_feature_options
@takes("decoding", DecodingOptions, omit=_OF_GROWING_LATTICES)
@takes("lattices_options", LatticeOptions)
@_endpoint_options
@_wave_arguments
def online2_wav_nnet3_latgen_faster(**given: Any) -> int:
    """Decode tables of recordings as if they came from a microphone: --chunk-length seconds at a time.

    Features and ivectors are computed while audio comes, and what the ivectors know of a speaker goes on from
    utterance to utterance. --ivector-silence-weighting.* lets silence count for less in ivectors; --do-endpointing
    ends an utterance where its speaker has paused, by the rules --endpoint.*, and what follows is lost. Lattices have
    acoustic costs that are not scaled. Chain models want --acoustic-scale=1.0 --frame-subsampling-factor=3.

    The exit status is Kaldi's: 0 if an utterance was decoded, 1 if none was, 255 after an error.

    nnet3 online2-wav-nnet3-latgen-faster --mfcc-config=conf/mfcc.conf --acoustic-scale=1.0 \\
      --ivector-extraction-config=conf/ivector_extractor.conf --frame-subsampling-factor=3 \\
      --word-symbol-table=words.txt final.mdl HCLG.fst ark:spk2utt scp:wav.scp "ark:|gzip -c > lat.1.gz"
    """
    settings = _settings(given)
    return later.online_tables.as_kaldi_ends(lambda: later.online_tables.decode_waves(settings=settings, **given))
