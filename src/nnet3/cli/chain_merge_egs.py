"""`nnet3 chain-merge-egs`: minibatches out of chain examples (Kaldi: nnet3-chain-merge-egs)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nnet3.cli.egs_options import merging_options
from nnet3.cli.lazy import LazyModule
from nnet3.cli.verb import verb

if TYPE_CHECKING:
    from nnet3.cli import egs_tables
    from nnet3.train import chain
else:
    egs_tables = LazyModule("nnet3.cli.egs_tables")
    chain = LazyModule("nnet3.train.chain")


@verb("chain-merge-egs")
@merging_options("64")
def command(examples: str, output: str, minibatch_size: str, compress: bool) -> None:
    """Merge chain examples of equal structure into minibatches, as merge-egs does with others.

    \b
    Example:
      nnet3 chain-merge-egs --minibatch-size=128,64 ark:cegs.ark ark:merged.ark
    """
    egs_tables.merge(chain.CHAIN_EXAMPLES, examples, output, minibatch_size, compress)
