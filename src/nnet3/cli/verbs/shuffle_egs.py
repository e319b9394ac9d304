"""`nnet3 shuffle-egs`: examples in random order (Kaldi: nnet3-shuffle-egs)."""

from __future__ import annotations

from nnet3.cli import later
from nnet3.cli.egs_options import shuffling_options
from nnet3.cli.verb import EXAMPLES, verb


@verb("put training examples into random order", EXAMPLES, program="nnet3-shuffle-egs")
@shuffling_options
def command(examples: str, output: str, seed: int, buffer_size: int) -> None:
    """Put training examples into random order: all of them, or with a buffer of limited memory.

    \b
    Example:
      nnet3 shuffle-egs --buffer-size=5000 --srand=1 ark:egs.ark ark:shuffled.ark
    """
    later.egs_tables.shuffle(later.examples.EXAMPLES, examples, output, seed, buffer_size)
