"""`nnet3 chain-est-phone-lm`: the phone language model of a denominator graph (Kaldi: chain-est-phone-lm)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from nnet3.cli.lazy import LazyModule
from nnet3.cli.verb import verb

if TYPE_CHECKING:
    from nnet3.cli import chain_graphs
else:
    chain_graphs = LazyModule("nnet3.cli.chain_graphs")


@verb("chain-est-phone-lm")
@click.option("--ngram-order", type=int, default=4, show_default=True, help="Length of the longest n-grams.")
@click.option(
    "--no-prune-ngram-order", type=int, default=3, show_default=True, help="Length up to which no n-gram is dropped."
)
@click.option(
    "--num-extra-lm-states", type=int, default=1000, show_default=True, help="States to keep beyond those it needs."
)
@click.argument("sequences", metavar="PHONES-RSPECIFIER")
@click.argument("output", metavar="PHONE-LM-OUT")
def command(sequences: str, output: str, **options: int) -> None:
    """Estimate a language model of sequences of phones: an n-gram without smoothing and without back-off arcs.

    \b
    Example:
      nnet3 chain-est-phone-lm --num-extra-lm-states=2000 \\
        "ark:gunzip -c ali.*.gz | ali-to-phones final.mdl ark:- ark:- |" phone_lm.fst
    """
    chain_graphs.estimate(sequences, output, options)
