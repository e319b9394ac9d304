"""`nnet3 chain-shuffle-egs`: chain examples in random order (Kaldi: nnet3-chain-shuffle-egs)."""

from __future__ import annotations

from nnet3.cli import later
from nnet3.cli.egs_options import shuffling_options
from nnet3.cli.verb import CHAIN, verb


@verb("put chain examples into random order", CHAIN, program="nnet3-chain-shuffle-egs")
@shuffling_options
def command(examples: str, output: str, seed: int, buffer_size: int) -> None:
    """Put chain examples into random order: all of them, or with a buffer of limited memory.

    \b
    Example:
      nnet3 chain-shuffle-egs --buffer-size=5000 --srand=1 ark:cegs.ark ark:shuffled.ark
    """
    later.egs_tables.shuffle(later.chain.CHAIN_EXAMPLES, examples, output, seed, buffer_size)
