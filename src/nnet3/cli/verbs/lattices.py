"""Verbs of lattices."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import click

from nnet3.base.options.examples import SubsetOptions
from nnet3.base.options.lattices import (
    LatticePruningOptions,
    PhoneDeterminizingOptions,
    PrunedDeterminizingOptions,
    WholeDeterminizingOptions,
)
from nnet3.base.options.recognizer import LatticeOptions, SearchOptions
from nnet3.base.options.rescoring import ComposeOptions
from nnet3.base.options.rnnlm import RnnlmOptions
from nnet3.base.options.utterances import BatchOptions, ScoreOptions, StreamOptions, UtteranceOptions
from nnet3.base.text.values import Integer, at_least, nonzero
from nnet3.cli import later
from nnet3.cli.compute_options import (
    chunk_options,
    decode_streams,
    decode_utterances,
    decoding_options,
    decoding_options_of,
)
from nnet3.cli.declared import one, takes
from nnet3.cli.options import (
    Decorator,
    all_of,
    arguments,
    flag,
    ignored,
    integer,
    number,
    text_option,
    threads_option,
    whole_number,
    word_symbols_option,
)
from nnet3.cli.verb import verb

_acoustic_scale_option: Decorator = number("--acoustic-scale", default=1.0, help="Scale of acoustic costs.")
_lm_scale_option: Decorator = number("--lm-scale", default=1.0, help="Scale of graph costs.")
_penalty_option: Decorator = number("--word-ins-penalty", default=0.0, help="Cost of each word.")
_compact_option = flag("--write-compact", default=True, help="Write acceptors of words.")
_weight_option: Decorator = number("--lm-scale", default=1.0, help="Scale of the model's costs.")
_ngram_order_option: Decorator = whole_number(
    "--max-ngram-order",
    default=3,
    help="Histories are one if their last words, as many as this less one, are equal; 0: all differ.",
)
_WITHOUT_EFFECT = all_of(
    ignored("--max-loop", "--max-arcs", "--max-states", kind=integer()),
    ignored("--delta", "--retry-cutoff", kind=click.FLOAT),
)
_lattices_argument: Decorator = click.argument("lattices", metavar="LATTICE-RSPECIFIER")
_output_argument: Decorator = click.argument("output", metavar="LATTICE-WSPECIFIER")


@verb()
@chunk_options(UtteranceOptions)
@decoding_options
def latgen_faster(**given: Any) -> None:
    """Decode tables of features with a graph such as HCLG.fst, or with a table of graphs, one for each utterance.

    A lattice is written for each utterance, and the words and the transition-ids of its best path where these are
    asked for. Scores are the network's outputs less the logarithms of the model's priors, if it has any, times
    --acoustic-scale; lattices have acoustic costs that are not scaled. An utterance whose search reaches no final state
    of the graph is left out, without --allow-partial.

    Utterances are cut into chunks, failures are reported, and finished utterances are kept as by `nnet3 compute`.

    nnet3 latgen-faster --acoustic-scale=1.0 --frame-subsampling-factor=3 --beam=15 --lattice-beam=8 \\
      final.mdl HCLG.fst scp:feats.scp "ark:|gzip -c > lat.1.gz"
    """
    decode_utterances(**given)


@verb()
@chunk_options(BatchOptions)
@threads_option
@decoding_options
def latgen_faster_batch(**given: Any) -> None:
    """Decode tables of features as `nnet3 latgen-faster` does, with chunks as `nnet3 compute-batch` cuts them.

    nnet3 latgen-faster-batch --acoustic-scale=1.0 --frame-subsampling-factor=3 --frames-per-chunk=150 \\
      --minibatch-size=64 final.mdl HCLG.fst scp:feats.scp ark:lat.ark
    """
    decode_utterances(**given)


@verb()
@chunk_options(StreamOptions)
@decoding_options
def latgen_faster_looped(**given: Any) -> None:
    """Decode tables of features as `nnet3 latgen-faster` does, with scores as `nnet3 compute-looped` computes them.

    nnet3 latgen-faster-looped --acoustic-scale=1.0 --frame-subsampling-factor=3 --frames-per-chunk=21 \\
      final.mdl HCLG.fst scp:feats.scp ark:lat.ark ark,t:words.txt
    """
    decode_streams(**given)


@verb()
@chunk_options(StreamOptions, defaults=StreamOptions(frames_per_chunk=20))
@threads_option
@ignored("--num-threads-total", "--max-batch-size", "--compute-interval", kind=integer())
@decoding_options
def latgen_faster_looped_parallel(**given: Any) -> None:
    """Decode tables of features as `nnet3 latgen-faster-looped` does, several utterances at once. Kaldi's program of
    this name needs a GPU.

    nnet3 latgen-faster-looped-parallel --num-threads=4 final.mdl HCLG.fst scp:feats.scp ark:lat.ark
    """
    decode_streams(**given)


@verb()
@chunk_options(UtteranceOptions)
@decoding_options_of(graph="HCLR-FST", grammar="GR-FST", disambiguation="DISAMBIGUATION-SYMBOLS")
def latgen_faster_lookahead(grammar: str, disambiguation: str, **given: Any) -> None:
    """Decode tables of features as `nnet3 latgen-faster` does, with a graph that is made in the search: a look-ahead
    graph and a grammar of its words. The text DISAMBIGUATION-SYMBOLS has input labels that take no frame.

    nnet3 latgen-faster-lookahead --acoustic-scale=1.0 --frame-subsampling-factor=3 final.mdl HCLr.fst Gr.fst \\
      disambig_tid.int scp:feats.scp ark:lat.ark
    """
    read = partial(later.lattice_tables.read_lookahead_search, grammar=grammar, disambiguation=disambiguation)
    decode_utterances(read=read, **given)


@verb()
@takes("search", SearchOptions)
@takes("lattices", LatticeOptions)
@one(ScoreOptions, "acoustic_scale", program_default=0.1)
@flag("--allow-partial", help="Take the best path though it reaches no final state, where none does.")
@word_symbols_option
@arguments(
    model="TRANSITION-MODEL",
    graph="GRAPH",
    matrices="LOGLIKES-RSPECIFIER",
    output="LATTICE-WSPECIFIER",
    words="[WORDS-WSPECIFIER",
    alignments="[ALIGNMENTS-WSPECIFIER]]",
)
def latgen_faster_mapped(
    graph: str, output: str, words: str, alignments: str, word_symbol_table: str | None, **given: Any
) -> None:
    """Decode matrices of log-likelihoods of pdfs, such as `nnet3 compute` writes, to lattices.

    nnet3 latgen-faster-mapped --acoustic-scale=1.0 final.mdl HCLG.fst ark:output.ark ark:lat.ark
    """
    tables = later.lattice_tables.DecodedTables(graph, output, words, alignments, word_symbol_table)
    later.lattice_tables.decode_matrices(tables, **given)


@verb()
@chunk_options(UtteranceOptions)
@threads_option
@ignored("--num-threads-total", kind=integer())
@decoding_options
def latgen_faster_parallel(**given: Any) -> None:
    """Decode tables of features as `nnet3 latgen-faster` does, several utterances at once.

    nnet3 latgen-faster-parallel --num-threads=4 final.mdl HCLG.fst scp:feats.scp ark:lat.ark
    """
    decode_utterances(**given)


@verb()
@chunk_options(UtteranceOptions)
@decoding_options_of(graph="GRAMMAR-FST")
def latgen_grammar(**given: Any) -> None:
    """Decode tables of features as `nnet3 latgen-faster` does, with a grammar of Kaldi's make-grammar-fst: a graph with
    nonterminals, and graphs that take their places in the search.

    nnet3 latgen-grammar --acoustic-scale=1.0 --frame-subsampling-factor=3 \\
      final.mdl grammar.fst scp:feats.scp ark:lat.ark
    """
    decode_utterances(read=later.lattice_tables.read_grammar_graph, **given)


@verb()
@_acoustic_scale_option
@_lm_scale_option
@_penalty_option
@_lattices_argument
@_output_argument
def lattice_1best(**given: Any) -> int:
    """Write the path of least cost of each lattice as a lattice; scales and penalty choose it and change no cost.

    nnet3 lattice-1best --acoustic-scale=0.1 ark:lat.ark ark:best.ark
    """
    return later.lattice_reading.write_linear(n=None, **given)


@verb()
@_penalty_option
@_lattices_argument
@_output_argument
def lattice_add_penalty(lattices: str, output: str, word_ins_penalty: float) -> None:
    """Add a penalty for each word to the graph costs of lattices.

    nnet3 lattice-add-penalty --word-ins-penalty=0.5 ark:lat.ark ark:-
    """
    later.lattice_reading.write_changed(lattices, output, lambda lattice: lattice.with_word_penalty(word_ins_penalty))


@verb()
@_acoustic_scale_option
@_lm_scale_option
@word_symbols_option
@_lattices_argument
@arguments(words="[WORDS-WSPECIFIER", alignments="[ALIGNMENTS-WSPECIFIER]]")
def lattice_best_path(**given: Any) -> int:
    """Write words and transition-ids of the path of least cost of each lattice, and say what it costs.

    nnet3 lattice-best-path --acoustic-scale=0.1 "ark:gunzip -c lat.1.gz |" ark,t:words.txt
    """
    return later.lattice_reading.write_best_paths(**given)


@verb()
@_compact_option
@text_option("--include", metavar="FILE", help="Only lattices with keys that begin a line of it.")
@text_option(
    "--exclude",
    metavar="FILE",
    help="Only lattices with other keys; with --write-compact=false, as in Kaldi, the same as --include.",
)
@flag("--ignore-missing", help="It is no error if no lattice is copied.")
@_lattices_argument
@_output_argument
def lattice_copy(include: str, exclude: str, **given: Any) -> int:
    """Copy lattices from binary to text or back, and, with --write-compact=false, to transducers from transition-ids to
    words. Both kinds are read.

    nnet3 lattice-copy "ark:gunzip -c lat.1.gz |" ark,t:-
    nnet3 lattice-copy --include=some_utterances ark:lat.ark ark:some.ark
    """
    if include and exclude:
        raise click.UsageError("give --include or --exclude, not both")
    return later.lattice_reading.copy(include=include, exclude=exclude, **given)


@verb()
@_weight_option
@arguments(lattices="LATTICE-RSPECIFIER", grammar="GRAMMAR-FST", output="LATTICE-WSPECIFIER")
def lattice_lmrescore(**given: Any) -> int:
    """Add the costs of a grammar of words, times --lm-scale, to lattices: 1 adds the grammar, -1 takes it away. Words
    take the cheapest way through the grammar, also by arcs without words. Of paths with equal words the best is left.

    nnet3 lattice-lmrescore --lm-scale=-1.0 ark:lat.ark "fstproject --project_type=output G.fst |" ark:without.ark
    """
    return later.lattice_rescoring.by_grammar(**given)


@verb()
@_weight_option
@arguments(lattices="LATTICE-RSPECIFIER", model="CONST-ARPA-FILE", output="LATTICE-WSPECIFIER")
def lattice_lmrescore_const_arpa(**given: Any) -> int:
    """Add the costs of a const-arpa model, times --lm-scale, to lattices: 1 adds the model, -1 takes it away. Of paths
    with the same words the best is left.

    nnet3 lattice-lmrescore-const-arpa --lm-scale=-1.0 ark:lat.ark old.carpa ark:- |
      nnet3 lattice-lmrescore-const-arpa --lm-scale=1.0 ark:- new.carpa ark:rescored.ark
    """
    return later.lattice_rescoring.by_const_arpa(**given)


@verb()
@_weight_option
@_ngram_order_option
@takes("options", RnnlmOptions)
@arguments(
    embedding="WORD-EMBEDDING", network="RAW-NETWORK", lattices="LATTICE-RSPECIFIER", output="LATTICE-WSPECIFIER"
)
def lattice_lmrescore_kaldi_rnnlm(**given: Any) -> int:
    """Add the costs of an RNNLM, times --lm-scale, to lattices. Histories with equal last words are one history, that
    of the path that comes first. Of paths with the same words the best is left.

    nnet3 lattice-lmrescore-kaldi-rnnlm --bos-symbol=1 --eos-symbol=2 --lm-scale=0.5 --max-ngram-order=4 \\
      word_embedding.final.mat final.raw ark:half.ark ark:rescored.ark
    """
    return later.lattice_rescoring.by_rnnlm(**given)


@verb()
@number("--lm-scale", default=0.5, help="Of the RNNLM's costs; those of the old model are taken away by as much.")
@number("--acoustic-scale", default=0.1, rule=nonzero(), help="Scale of acoustic costs where paths are compared.")
@_ngram_order_option
@flag("--use-const-arpa", help="The old model is a const-arpa file.")
@takes("limits", ComposeOptions)
@takes("options", RnnlmOptions)
@arguments(
    old="OLD-MODEL",
    embedding="WORD-EMBEDDING",
    network="RAW-NETWORK",
    lattices="LATTICE-RSPECIFIER",
    output="LATTICE-WSPECIFIER",
)
def lattice_lmrescore_kaldi_rnnlm_pruned(**given: Any) -> int:
    """Exchange a share of the costs of the lattices' language model, G.fst or a const-arpa file, for those of an RNNLM.
    Only good paths are made, the best first; the same words may be on several paths.

    nnet3 lattice-lmrescore-kaldi-rnnlm-pruned --bos-symbol=1 --eos-symbol=2 --lm-scale=0.5 --acoustic-scale=1.0 \\
      lang/G.fst word_embedding.final.mat final.raw ark:lat.ark ark:rescored.ark
    """
    return later.lattice_rescoring.by_rnnlm_pruned(**given)


@verb()
@number("--lm-scale", default=1.0, help="Of the new model's costs; those of the old one are taken away by as much.")
@number("--acoustic-scale", default=1.0, rule=nonzero(), help="Scale of acoustic costs where paths are compared.")
@flag("--add-const-arpa", help="The new model is a const-arpa file.")
@takes("limits", ComposeOptions)
@arguments(old="OLD-FST", new="NEW-MODEL", lattices="LATTICE-RSPECIFIER", output="LATTICE-WSPECIFIER")
def lattice_lmrescore_pruned(**given: Any) -> int:
    """Exchange the costs of the lattices' language model, an FST, for those of another one, an FST or a const-arpa
    file. Only good paths are made, the best first; the same words may be on several paths.

    nnet3 lattice-lmrescore-pruned --acoustic-scale=0.1 --add-const-arpa=true \\
      lang/G.fst lang_fg/G.carpa ark:lat.ark ark:rescored.ark
    """
    return later.lattice_rescoring.by_model_pruned(**given)


@verb()
@takes("options", WholeDeterminizingOptions)
@_WITHOUT_EFFECT
@_lattices_argument
@_output_argument
def lattice_determinize(**given: Any) -> int:
    """Keep, of all paths of a lattice with the same words, the best one. lattice-determinize-pruned needs less memory.

    nnet3 lattice-determinize --acoustic-scale=0.1 --prune=true --beam=8 ark:state.ark ark:lat.ark
    """
    return later.lattice_determinizing.determinize(**given)


@verb()
@takes("options", WholeDeterminizingOptions)
@_WITHOUT_EFFECT
@_lattices_argument
@_output_argument
def lattice_determinize_non_compact(**given: Any) -> int:
    """Keep the best path of each sequence of words, and write lattices with an arc for each frame, whose acoustic cost
    is the frame's: the denominator lattices of discriminative training.

    nnet3 lattice-determinize-non-compact --acoustic-scale=0.1 --max-mem=20000000 --minimize=true --prune=true \\
      --beam=7 ark:state.ark ark:denlat.ark
    """
    return later.lattice_determinizing.determinize_non_compact(**given)


@verb()
@takes("options", PhoneDeterminizingOptions)
@_compact_option
@_WITHOUT_EFFECT
@arguments(model="MODEL", lattices="LATTICE-RSPECIFIER", output="LATTICE-WSPECIFIER")
def lattice_determinize_phone_pruned(**given: Any) -> int:
    """Determinize lattices within a beam as the decoders do: by phones and words, then by words.

    nnet3 lattice-determinize-phone-pruned --acoustic-scale=0.1 --beam=6 final.mdl ark:state.ark ark:lat.ark
    """
    return later.lattice_determinizing.determinize_phone_pruned(**given)


@verb()
@takes("options", PrunedDeterminizingOptions)
@_compact_option
@_WITHOUT_EFFECT
@_lattices_argument
@_output_argument
def lattice_determinize_pruned(**given: Any) -> int:
    """Keep, of all paths of a lattice within a beam and with the same words, the best one.

    With --write-compact=false lattices have an arc for each frame, whose acoustic costs are those of their frames.

    nnet3 lattice-determinize-pruned --acoustic-scale=0.1 --beam=6 ark:state.ark ark:lat.ark
    """
    return later.lattice_determinizing.determinize_pruned(**given)


@verb()
@takes("options", LatticePruningOptions)
@number("--inv-acoustic-scale", "divisor", rule=nonzero(), default=1.0, help="Divides acoustic costs instead.")
@_lattices_argument
@_output_argument
def lattice_prune(lattices: str, output: str, options: LatticePruningOptions, divisor: float) -> int:
    """Drop the arcs of lattices that are on no path within a beam of the best path.

    nnet3 lattice-prune --acoustic-scale=0.1 --beam=4.0 ark:lat.ark ark:pruned.ark
    """
    if divisor != 1.0 and options.acoustic_scale != 1.0:
        raise click.UsageError("give --acoustic-scale or --inv-acoustic-scale, not both")
    options = replace(options, acoustic_scale=options.acoustic_scale / divisor)
    return later.lattice_determinizing.prune(lattices, output, options)


@verb()
@_acoustic_scale_option
@number("--inv-acoustic-scale", default=1.0, help="Divides acoustic costs instead.")
@_lm_scale_option
@number("--acoustic2lm-scale", default=0.0, help="Share of acoustic costs to add to graph costs.")
@number("--lm2acoustic-scale", default=0.0, help="Share of graph costs to add to acoustic costs.")
@_compact_option
@_lattices_argument
@_output_argument
def lattice_scale(lattices: str, output: str, write_compact: bool, **scales: float) -> None:
    """Multiply graph costs and acoustic costs of lattices by scales; a share of either can be added to the other.

    nnet3 lattice-scale --acoustic-scale=10 ark:lat.ark "ark:|gzip -c > lat.1.gz"
    """
    scale, divisor = scales["acoustic_scale"], scales["inv_acoustic_scale"]
    if divisor == 0 or (scale != 1 and divisor != 1):
        raise click.UsageError("give --acoustic-scale, or an --inv-acoustic-scale that is not 0")
    graph = (scales["lm_scale"], scales["acoustic2lm_scale"])
    acoustic = (scales["lm2acoustic_scale"], scale / divisor)
    later.lattice_reading.write_changed(
        lattices, output, lambda lattice: lattice.with_costs(graph, acoustic), write_compact
    )


@verb()
@_acoustic_scale_option
@_lm_scale_option
@whole_number("--n", least=1, default=1, help="Paths of each lattice.")
@flag("--random", "is_random", help="Any paths instead of the best ones, with costs of 0.")
@one(SubsetOptions, "seed", kind=Integer(at_least(0), 64))
@_lattices_argument
@_output_argument
def lattice_to_nbest(is_random: bool, seed: int, **given: Any) -> int:
    """Write the --n paths of least cost of each lattice as lattices, the best path first, or --n random paths, perhaps
    with repetitions. Keys are the lattice's key with -1, -2 ... behind it.

    nnet3 lattice-to-nbest --n=10 --acoustic-scale=0.1 ark:lat.ark ark:nbest.ark
    """
    if is_random:
        return later.lattice_reading.write_random(given["lattices"], given["output"], given["n"], seed)
    return later.lattice_reading.write_linear(word_ins_penalty=0.0, **given)


@verb()
@arguments(
    lattices="NBEST-RSPECIFIER",
    alignments="ALIGNMENTS-WSPECIFIER",
    words="[WORDS-WSPECIFIER",
    graph_costs="[LM-COSTS-WSPECIFIER",
    acoustic_costs="[ACOUSTIC-COSTS-WSPECIFIER]]]",
)
def nbest_to_linear(**given: Any) -> int:
    """Write transition-ids, words, costs of the graph and acoustic costs of lattices with one path each, such as
    `nnet3 lattice-1best` and `nnet3 lattice-to-nbest` write.

    nnet3 nbest-to-linear ark:best.ark ark:ali.ark ark,t:words.txt ark,t:lm.txt ark,t:acoustic.txt
    """
    return later.lattice_reading.write_parts(**given)
