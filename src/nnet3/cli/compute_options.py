"""Common options of verbs that run a network over tables of features, and objects made of the options."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import click
from click.core import ParameterSource

from nnet3.base.options.alignment import AlignmentOptions, WordTimesOptions
from nnet3.base.options.compiling import DEFAULT_LEVEL, CompileOptions
from nnet3.base.options.declaring import Options
from nnet3.base.options.recognizer import LatticeOptions, SearchOptions
from nnet3.base.options.utterances import (
    BatchOptions,
    EqualXvectorOptions,
    IvectorTables,
    PrecisionOptions,
    ScoreOptions,
    StreamOptions,
    UtteranceOptions,
    XvectorOptions,
)
from nnet3.base.text.values import Integer, at_least
from nnet3.cli import later
from nnet3.cli.declared import one, takes
from nnet3.cli.messages import say
from nnet3.cli.options import (
    Decorator,
    all_of,
    arguments,
    cache_files,
    device_option,
    flag,
    ignored,
    integer,
    word_symbols_option,
)
from nnet3.cli.verb import take_internal, take_use_gpu

#: Kaldi's switches, and the passes that one of them, when it is off, leaves out. Others have no pass here.
PASSES_OF_SWITCHES: Mapping[str, tuple[str, ...]] = {
    "propagate-in-place": ("work_in_place",),
    "backprop-in-place": ("work_in_place",),
    "remove-assignments": ("share_copies",),
    "move-sizing-commands": ("move_sizing",),
}
_MERGES = ("share_copies", "work_in_place")


def take_compile_options() -> CompileOptions:
    """Takes `--optimization.*` and `--computation.debug` from the command line; with debug passes are checked."""
    disabled = {name for switch, passes in PASSES_OF_SWITCHES.items() if not _take(switch, True) for name in passes}
    if not any([_take("allow-left-merge", True), _take("allow-right-merge", True)]):
        disabled.update(_MERGES)
    if _take("memory-compression-level", 1) <= 0:
        disabled.add("compress_signs")
    disabled.update(name for name in _take("disable-pass", "").split(",") if name)
    debug = bool(take_internal("computation.debug", False))
    return CompileOptions(
        optimize=_take("optimize", True),
        level=_take("level", DEFAULT_LEVEL),
        disabled_passes=frozenset(disabled),
        check=debug,
        prove=debug or bool(take_internal("prove", False)),
    )


def _take(name: str, default: Any) -> Any:
    return take_internal(f"optimization.{name}", default)


def chunk_options(options: type[Options], *omit: str, defaults: Options | None = None) -> Decorator:
    """Decorator: the options of ivectors and, as `chunks`, those of cutting utterances, but for some.

    `defaults`, an object of the class, has other defaults.
    """
    return all_of(
        takes("ivectors", IvectorTables),
        one(UtteranceOptions, "online_ivector_period", "period", kind=Integer(at_least(0)), program_default=0),
        takes("chunks", options, omit=("online_ivector_period", "num_streams", *omit), defaults=defaults),
    )


score_options: Decorator = all_of(
    takes("precision", PrecisionOptions),
    takes("scores", ScoreOptions),
    device_option,
    flag("--resume", help="Skip what the output, an ark,scp:, already has."),
    arguments(network="MODEL", features="FEATURES-RSPECIFIER", output="MATRIX-WSPECIFIER"),
)


def decoding_options_of(**graph: str) -> Decorator:
    """Decorator: the options and arguments of decoding tables of features, with the arguments `graph` of the graph."""
    return all_of(
        takes("search", SearchOptions),
        takes("lattices", LatticeOptions),
        takes("precision", PrecisionOptions),
        one(ScoreOptions, "acoustic_scale", program_default=0.1),
        flag("--allow-partial", help="Take the best path though it reaches no final state, where none does."),
        word_symbols_option,
        device_option,
        arguments(
            model="MODEL",
            **graph,
            features="FEATURES-RSPECIFIER",
            output="LATTICE-WSPECIFIER",
            words="[WORDS-WSPECIFIER",
            alignments="[ALIGNMENTS-WSPECIFIER]]",
        ),
    )


decoding_options: Decorator = decoding_options_of(graph="GRAPH")


def _tables(given: dict[str, Any]) -> Any:
    """Takes the tables out of what a verb is given. Raises UsageError for options that do not go together."""
    ivectors: IvectorTables = given["ivectors"]
    if ivectors.ivectors and ivectors.online_ivectors:
        raise click.UsageError("give --ivectors or --online-ivectors, not both")
    if ivectors.utt2spk and not ivectors.ivectors:
        raise click.UsageError("--utt2spk says whose --ivectors to take: give these too")
    if ivectors.online_ivectors and given["period"] == 0:
        raise click.UsageError("--online-ivectors need --online-ivector-period=N, the frames per ivector; usually 10")
    names = ("features", "output", "ivectors", "resume")
    return later.compute_tables.ComputedTables(**{name: given.pop(name) for name in names if name in given})


def _running(given: dict[str, Any]) -> dict[str, Any]:
    """Takes the device out of a verb's parameters; returns the device, the compile options and the debug flag."""
    device = later.device.choose_device(given.pop("device_name"), take_use_gpu())
    if device == "cuda" and "LOCAL_RANK" in os.environ:
        device = f"cuda:{os.environ['LOCAL_RANK']}"
    options = take_compile_options()
    return {"device": device, "compile_options": options, "debug": options.check}


def compute_streams(chunks: StreamOptions, frame_shift: float, network: str, **given: Any) -> None:
    """Computes and writes the matrices of a table, each utterance as a stream, and says how long chunks took."""
    tables, running = _tables(given), _running(given)
    period = given.pop("period")
    scored = later.compute_tables.load_scored(network, running["device"], many_rows=False, **given)
    run = later.looped_tables.LoopedRunner(*scored, chunks, online_ivector_period=period, **running)
    later.compute_tables.compute_tables(tables, run)
    say(run.report(frame_shift))


def compute_matrices(chunks: UtteranceOptions, network: str, **given: Any) -> None:
    """Computes and writes the matrices of a table.

    Utterances are cut as by nnet3-compute-batch if `chunks` are `BatchOptions`, else as by nnet3-compute.
    """
    tables, running = _tables(given), _running(given)
    settings = _settings(chunks, tables, running, given)
    run = later.compute_tables.load(network, settings)
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        later.shared_tables.compute_shared(tables, run)
    else:
        later.compute_tables.compute_tables(tables, run)


def _settings(chunks: UtteranceOptions, tables: Any, running: dict[str, Any], given: dict[str, Any]) -> Any:
    """Takes the period of ivectors and scores out of what a verb is given; returns the settings of a computation."""
    is_given = click.get_current_context().get_parameter_source("frames_per_chunk") is not ParameterSource.DEFAULT
    period = given.pop("period")
    return later.compute_tables.ComputeSettings(
        chunks=BatchOptions(**chunks.values() | ({"online_ivector_period": period} if period else {})),
        short_last_chunk=not isinstance(chunks, BatchOptions),
        whole_if_same=not (is_given or tables.ivectors.online_ivectors),
        **running,
        **{name: given.pop(name) for name in ("precision", "scores") if name in given},
    )


def compute_posteriors(
    chunks: UtteranceOptions, network: str, den_fst: str, acoustic_scale: float, **given: Any
) -> None:
    """Computes and writes the posteriors of a denominator graph for the utterances of a table."""
    tables, running = _tables(given), _running(given)
    names = {name: given.pop(name) for name in ("leaky_hmm_coefficient", "transform")}
    settings = _settings(chunks, tables, running, given)
    later.chain_posteriors.write_posteriors(network, den_fst, tables, settings, acoustic_scale, **names)


def decode_streams(chunks: StreamOptions, **given: Any) -> None:
    """Decodes the utterances of a table, each computed as a stream."""
    tables, running, period = _tables(given), _running(given), given.pop("period")

    def runner(nnet: Any, scoring: Any) -> Any:
        return later.looped_tables.LoopedRunner(nnet, scoring, chunks, online_ivector_period=period, **running)

    _decode(tables, runner, running["device"], given | {"many_rows": False})


def decode_utterances(chunks: UtteranceOptions, **given: Any) -> None:
    """Decodes the utterances of a table, cut as by `compute_matrices`."""
    tables, running = _tables(given), _running(given)
    precision = given["precision"]
    settings = _settings(chunks, tables, running, given)

    def runner(nnet: Any, scoring: Any) -> Any:
        return later.compute_tables.batch_runner(nnet, scoring, settings)

    _decode(tables, runner, running["device"], given | {"precision": precision})


def _decode(tables: Any, runner: Any, device: str, given: dict[str, Any]) -> None:
    names = {name: given.pop(name) for name in ("graph", "words", "alignments", "word_symbol_table")}
    decoded = later.lattice_tables.DecodedTables(lattices=tables.output, read=given.pop("read", None), **names)
    later.lattice_tables.decode_tables(decoded, tables, runner=runner, device=device, **given)


def align_utterances(model: str, chunks: UtteranceOptions, options: AlignmentOptions, **given: Any) -> int:
    """Aligns the utterances of a table with graphs; returns the exit status."""
    names = {name: given.pop(name) for name in ("graphs", "alignments", "scores", "loglikes")}
    tables, running = _tables(given | {"output": names["alignments"]}), _running({"device_name": None})
    settings = _settings(chunks, tables, running, given)
    status: int = later.aligning.align_tables(model, tables, options, settings, **names)
    return status


def align_words(model: str, texts: str, options: WordTimesOptions, chunks: UtteranceOptions, **given: Any) -> int:
    """Writes when words were said in the utterances of a table; returns the exit status."""
    names = {name: given.pop(name) for name in ("ctm", "phone_ctm", "textgrid", "alignments")}
    files = names if any(names.values()) else names | {"ctm": "-"}
    lexicon = ("lexicon", "phones", "tree", "silence", "silence_probability", "unknown")
    files |= {name: given.pop(name) for name in lexicon}
    tables, running = _tables(given | {"output": ""}), _running({"device_name": None})
    settings = _settings(chunks, tables, running, given)
    status: int = later.word_times.write_word_times(model, texts, tables, options, settings, **files)
    return status


xvector_options = all_of(
    takes("precision", PrecisionOptions),
    device_option,
    cache_files("--cached-compiler-in", "--cached-compiler-out"),
    ignored("--cache-capacity", kind=integer()),
    ignored("--use-shortcut"),
    arguments(network="MODEL", features="FEATURES-RSPECIFIER", output="VECTOR-WSPECIFIER"),
)


def compute_xvectors(
    options: XvectorOptions | EqualXvectorOptions,
    network: str,
    features: str,
    output: str,
    cache_files: tuple[str | None, str | None],
    **given: Any,
) -> None:
    """Computes and writes the vectors of a table."""
    settings = later.compute_tables.ComputeSettings(**_running(given), **given)
    with later.caches.kept_cache(*cache_files) as cache:
        tables = later.compute_tables.ComputedTables(features, output)
        later.compute_tables.compute_xvectors(network, tables, options, settings, cache)
