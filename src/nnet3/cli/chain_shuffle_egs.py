"""`nnet3 chain-shuffle-egs`: chain examples in random order (Kaldi: nnet3-chain-shuffle-egs)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nnet3.cli.egs_options import shuffling_options
from nnet3.cli.lazy import LazyModule
from nnet3.cli.verb import verb

if TYPE_CHECKING:
    from nnet3.cli import egs_tables
    from nnet3.train import chain
else:
    egs_tables = LazyModule("nnet3.cli.egs_tables")
    chain = LazyModule("nnet3.train.chain")


@verb("chain-shuffle-egs")
@shuffling_options
def command(examples: str, output: str, seed: int, buffer_size: int) -> None:
    """Put chain examples into random order: all of them, or with a buffer of limited memory.

    \b
    Example:
      nnet3 chain-shuffle-egs --buffer-size=5000 --srand=1 ark:cegs.ark ark:shuffled.ark
    """
    egs_tables.shuffle(chain.CHAIN_EXAMPLES, examples, output, seed, buffer_size)
