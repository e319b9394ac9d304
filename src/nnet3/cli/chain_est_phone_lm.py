"""`nnet3 chain-est-phone-lm`: the phone language model of a denominator graph (Kaldi: chain-est-phone-lm)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from nnet3.cli.declared import takes
from nnet3.cli.lazy import LazyModule
from nnet3.cli.verb import verb
from nnet3.options import PhoneLmOptions

if TYPE_CHECKING:
    from nnet3.cli import chain_graphs
else:
    chain_graphs = LazyModule("nnet3.cli.chain_graphs")


@verb("chain-est-phone-lm")
@takes("options", PhoneLmOptions)
@click.argument("sequences", metavar="PHONES-RSPECIFIER")
@click.argument("output", metavar="PHONE-LM-OUT")
def command(sequences: str, output: str, options: PhoneLmOptions) -> None:
    """Estimate a language model of sequences of phones: an n-gram without smoothing and without back-off arcs.

    \b
    Example:
      nnet3 chain-est-phone-lm --num-extra-lm-states=2000 \\
        "ark:gunzip -c ali.*.gz | ali-to-phones final.mdl ark:- ark:- |" phone_lm.fst
    """
    chain_graphs.estimate(sequences, output, options)
