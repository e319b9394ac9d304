"""`nnet3 chain-subset-egs`: some chain examples at random (Kaldi: nnet3-chain-subset-egs)."""

from __future__ import annotations

from nnet3.cli import later
from nnet3.cli.egs_options import subset_options
from nnet3.cli.verb import CHAIN, verb


@verb("take some chain examples at random", CHAIN, program="nnet3-chain-subset-egs")
@subset_options
def command(examples: str, output: str, seed: int, count: int, randomize_order: bool) -> None:
    """Take some chain examples, each with the same probability, for instance for validation.

    \b
    Example:
      nnet3 chain-subset-egs --n=400 ark:cegs.ark ark:valid_diagnostic.cegs
    """
    later.egs_tables.take_subset(later.chain.CHAIN_EXAMPLES, examples, output, seed, count, randomize_order)
