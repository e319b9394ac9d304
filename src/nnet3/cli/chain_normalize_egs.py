"""`nnet3 chain-normalize-egs`: weights for examples of sequence training (Kaldi: nnet3-chain-normalize-egs)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from nnet3.cli.egs_options import normalization_scale_option
from nnet3.cli.lazy import LazyModule
from nnet3.cli.verb import verb

if TYPE_CHECKING:
    from nnet3.cli import chain_get_egs_tables
else:
    chain_get_egs_tables = LazyModule("nnet3.cli.chain_get_egs_tables")


@verb("chain-normalize-egs")
@normalization_scale_option
@click.argument("normalization", metavar="NORMALIZATION-FST")
@click.argument("examples", metavar="EGS-RSPECIFIER")
@click.argument("output", metavar="EGS-WSPECIFIER")
def command(normalization: str, examples: str, output: str, normalization_fst_scale: float) -> None:
    """Weight the supervision of examples by a normalization graph, so that what is right is a part of all that may be.

    \b
    Example:
      nnet3 chain-normalize-egs normalization.fst ark:raw.cegs ark:normalized.cegs
    """
    chain_get_egs_tables.normalize(normalization, examples, output, normalization_fst_scale)
