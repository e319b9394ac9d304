"""`nnet3 chain-subset-egs`: some chain examples at random (Kaldi: nnet3-chain-subset-egs)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nnet3.cli.egs_options import subset_options
from nnet3.cli.lazy import LazyModule
from nnet3.cli.verb import verb

if TYPE_CHECKING:
    from nnet3.cli import egs_tables
    from nnet3.train import chain
else:
    egs_tables = LazyModule("nnet3.cli.egs_tables")
    chain = LazyModule("nnet3.train.chain")


@verb("chain-subset-egs")
@subset_options
def command(examples: str, output: str, seed: int, count: int, randomize_order: bool) -> None:
    """Take some chain examples, each with the same probability, for instance for validation.

    \b
    Example:
      nnet3 chain-subset-egs --n=400 ark:cegs.ark ark:valid_diagnostic.cegs
    """
    egs_tables.take_subset(chain.CHAIN_EXAMPLES, examples, output, seed, count, randomize_order)
