"""Verbs that rescore lattices with language models."""

from __future__ import annotations

from typing import Any

from nnet3.base.options.rescoring import ComposeOptions
from nnet3.base.options.rnnlm import RnnlmOptions
from nnet3.base.text.values import nonzero
from nnet3.cli import later
from nnet3.cli.declared import takes
from nnet3.cli.options import (
    Decorator,
    arguments,
    flag,
    ignored,
    integer,
    number,
    whole_number,
)
from nnet3.cli.verb import verb

_weight_option: Decorator = number("--lm-scale", default=1.0, help="Scale of the model's costs.")
_ngram_order_option: Decorator = whole_number(
    "--max-ngram-order",
    default=3,
    help="Histories are one if their last words, as many as this less one, are equal; 0: all differ.",
)


@verb()
@_weight_option
@ignored("--num-states-cache", kind=integer())
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
@number("--lm-scale", default=0.5, help="Scale of the RNNLM's costs; as much is taken away of the old model's.")
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
@number("--lm-scale", default=1.0, help="Scale of the new model's costs; as much is taken away of the old one's.")
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
