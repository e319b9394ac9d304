"""Verbs that decode utterances to lattices."""

from __future__ import annotations

from functools import partial
from typing import Any

from nnet3.base.options.recognizer import LatticeOptions, SearchOptions
from nnet3.base.options.utterances import BatchOptions, ScoreOptions, StreamOptions, UtteranceOptions
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
    arguments,
    flag,
    ignored,
    integer,
    threads_option,
    word_symbols_option,
)
from nnet3.cli.verb import verb


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

    As in Kaldi, lattices are larger: the search is not pruned once more when an utterance ends.

    nnet3 latgen-faster-batch --acoustic-scale=1.0 --frame-subsampling-factor=3 --frames-per-chunk=150 \\
      --minibatch-size=64 final.mdl HCLG.fst scp:feats.scp ark:lat.ark
    """
    decode_utterances(prune_at_end=False, **given)


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
