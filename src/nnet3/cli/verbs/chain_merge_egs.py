"""`nnet3 chain-merge-egs`: minibatches out of chain examples (Kaldi: nnet3-chain-merge-egs)."""

from __future__ import annotations

from nnet3.cli import later
from nnet3.cli.egs_options import merging_options
from nnet3.cli.verb import CHAIN, verb


@verb("merge chain examples into minibatches", CHAIN, program="nnet3-chain-merge-egs")
@merging_options("64")
def command(examples: str, output: str, minibatch_size: str, compress: bool) -> None:
    """Merge chain examples of equal structure into minibatches, as merge-egs does with others.

    \b
    Example:
      nnet3 chain-merge-egs --minibatch-size=128,64 ark:cegs.ark ark:merged.ark
    """
    later.egs_tables.merge(later.chain.CHAIN_EXAMPLES, examples, output, minibatch_size, compress)
