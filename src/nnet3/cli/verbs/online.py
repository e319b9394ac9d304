"""Verbs that decode audio as it comes."""

from __future__ import annotations

from typing import Any

import click

from nnet3.base.options.online import AT_ONCE, OnlineDecodingOptions, TcpOptions
from nnet3.base.options.recognizer import (
    ENDPOINT_RULES,
    DecodingOptions,
    EndpointRule,
    LatticeOptions,
    OnlineFeatureOptions,
    SilenceOptions,
    SilenceWeightingOptions,
)
from nnet3.base.options.waves import TrailingSilenceOptions
from nnet3.cli import later
from nnet3.cli.declared import takes
from nnet3.cli.options import Decorator, all_of, arguments, flag, ignored, integer, number, word_symbols_option
from nnet3.cli.verb import run_on_cpu, verb

_FATAL = 255  # Kaldi's -1
_OF_GROWING_LATTICES = ("determinize_max_delay", "determinize_min_chunk_size", "determinize_max_active")


def _rule(name: str) -> Decorator:
    return takes(name, EndpointRule, prefix=f"endpoint.{name}.", defaults=ENDPOINT_RULES[name])


_feature_options: Decorator = all_of(
    takes("features", OnlineFeatureOptions, omit=("frame_subsampling_factor",)),
    takes("weighting", SilenceWeightingOptions, prefix="ivector-silence-weighting."),
    ignored("--num-threads-startup", kind=integer()),
)
_endpoint_options: Decorator = all_of(
    takes("silence", SilenceOptions, prefix="endpoint."), *(_rule(name) for name in ENDPOINT_RULES)
)
_hearing_options: Decorator = all_of(
    _feature_options,
    takes("decoding", DecodingOptions, omit=_OF_GROWING_LATTICES),
    takes("lattices_options", LatticeOptions),
    _endpoint_options,
)
_incremental_options: Decorator = all_of(
    _feature_options,
    takes("decoding", DecodingOptions),
    ignored("--word-determinize", "--phone-determinize", "--minimize"),
    _endpoint_options,
)
_wave_arguments: Decorator = arguments(
    model="MODEL",
    graph="GRAPH",
    spk2utt="SPK2UTT-RSPECIFIER",
    waves="WAV-RSPECIFIER",
    lattices="LATTICE-WSPECIFIER",
)


def _settings(
    given: dict[str, Any], online: OnlineDecodingOptions, **changes: Any
) -> later.online_tables.OnlineSettings:
    """Takes the options of online decoding out of a verb's parameters; returns the settings."""
    run_on_cpu()
    if not given["lattices_options"].determinize_lattice:
        raise click.UsageError("--determinize-lattice=false: lattices of streams are always determinized: leave it out")
    rules = {name: given.pop(name) for name in ENDPOINT_RULES}
    names = ("features", "decoding", "weighting", "silence")
    taken = {name: given.pop(name) for name in names}
    lattices = given.pop("lattices_options")
    return later.online_tables.OnlineSettings(lattices=lattices, rules=rules, online=online, **taken, **changes)


@verb(error_status=_FATAL)
@takes("options", TrailingSilenceOptions)
@arguments(source="WAV-RSPECIFIER|WAV-RXFILENAME", output="WAV-WSPECIFIER|WAV-WXFILENAME")
def extend_wav_with_silence(**given: Any) -> None:
    """Add silence to the end of recordings, for endpoint rules to act on: the quietest piece near the begin and the end
    of each channel, repeated.

    nnet3 extend-wav-with-silence --extra-silence-length=3 scp:wav.scp ark:longer.ark
    nnet3 extend-wav-with-silence short.wav longer.wav
    """
    later.wave_tables.extend_with_silence(**given)


@verb(error_status=_FATAL)
@number("--chunk-length", rule=AT_ONCE, default=0.05, help="Seconds of audio taken at a time.")
@flag("--print-ivector-dim", help="Print the dimension of ivectors, and do nothing else.")
@_feature_options
@arguments(spk2utt="[SPK2UTT-RSPECIFIER", waves="[WAV-RSPECIFIER", output="[MATRIX-WSPECIFIER]]]")
def online2_wav_dump_features(print_ivector_dim: bool, weighting: SilenceWeightingOptions, **given: Any) -> int:
    """Write the inputs of a network for recordings that come --chunk-length seconds at a time: frames of features, and
    behind each frame its ivector, which goes on from utterance to utterance of a speaker.

    nnet3 online2-wav-dump-features --mfcc-config=conf/mfcc.conf \\
      --ivector-extraction-config=conf/ivector_extractor.conf ark:spk2utt scp:wav.scp ark:feats.ark
    """
    if print_ivector_dim:
        later.wave_tables.print_ivector_dim(given["features"])
        return 0
    if not given["output"]:
        raise click.UsageError("give SPK2UTT, recordings and features, or --print-ivector-dim")
    status: int = later.wave_tables.dump_features(**given)
    return status


@verb(error_status=_FATAL)
@takes("options", TcpOptions)
@_hearing_options
@arguments(model="MODEL", graph="GRAPH", words="WORDS-TXT")
def online2_tcp_nnet3_decode_faster(options: TcpOptions, **given: Any) -> None:
    """Decode audio that comes to a port of the loopback address, from one client at a time: samples of 16 bits in the
    byte order of the machine, --samp-freq samples a second, without a header.

    The best words up to now come back every --output-period seconds of audio, followed by a carriage return. The words
    of a segment come at its end, followed by a newline; --produce-time puts its begin and end in seconds before. A
    segment ends where the speaker pauses, by the rules --endpoint.*, or with the audio: if the client closes its side,
    or sends nothing for --read-timeout seconds.

    nnet3 online2-tcp-nnet3-decode-faster --mfcc-config=conf/mfcc.conf --acoustic-scale=1.0 \\
      --frame-subsampling-factor=3 --endpoint.silence-phones=1:2:3 final.mdl HCLG.fst words.txt
    """
    online = OnlineDecodingOptions(chunk_length=options.chunk_length, do_endpointing=True)
    settings = _settings(given, online)
    later.online_tables.serve_tcp(settings=settings, options=options, **given)


@verb(error_status=_FATAL)
@takes("online", OnlineDecodingOptions)
@word_symbols_option
@_hearing_options
@_wave_arguments
def online2_wav_nnet3_latgen_faster(online: OnlineDecodingOptions, **given: Any) -> int:
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
    settings = _settings(given, online)
    status: int = later.online_tables.decode_waves(settings=settings, **given)
    return status


@verb(error_status=_FATAL)
@takes("online", OnlineDecodingOptions)
@word_symbols_option
@_hearing_options
@_wave_arguments
def online2_wav_nnet3_latgen_grammar(online: OnlineDecodingOptions, **given: Any) -> int:
    """Decode tables of recordings as `nnet3 online2-wav-nnet3-latgen-faster` does, with a grammar of Kaldi's
    make-grammar-fst in the place of the graph.

    nnet3 online2-wav-nnet3-latgen-grammar --mfcc-config=conf/mfcc.conf --acoustic-scale=1.0 \\
      --frame-subsampling-factor=3 final.mdl grammar.fst ark:spk2utt scp:wav.scp ark:lat.ark
    """
    settings = _settings(given, online, read=later.lattice_tables.read_grammar_graph)
    status: int = later.online_tables.decode_waves(settings=settings, **given)
    return status


@verb(error_status=_FATAL)
@takes("online", OnlineDecodingOptions)
@word_symbols_option
@_incremental_options
@_wave_arguments
def online2_wav_nnet3_latgen_incremental(online: OnlineDecodingOptions, **given: Any) -> int:
    """Decode tables of recordings as `nnet3 online2-wav-nnet3-latgen-faster` does, with lattices that are made piece by
    piece while audio comes: once --determinize-max-delay rows wait.

    nnet3 online2-wav-nnet3-latgen-incremental --mfcc-config=conf/mfcc.conf --acoustic-scale=1.0 \\
      --frame-subsampling-factor=3 final.mdl HCLG.fst ark:spk2utt scp:wav.scp ark:lat.ark
    """
    given["lattices_options"] = LatticeOptions()
    settings = _settings(given, online, is_incremental=True)
    status: int = later.online_tables.decode_waves(settings=settings, **given)
    return status
