"""`nnet3 shuffle-egs`: examples in random order (Kaldi: nnet3-shuffle-egs)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nnet3.cli.egs_options import shuffling_options
from nnet3.cli.lazy import LazyModule
from nnet3.cli.verb import verb

if TYPE_CHECKING:
    from nnet3.cli import egs_tables
    from nnet3.train import examples as egs
else:
    egs_tables = LazyModule("nnet3.cli.egs_tables")
    egs = LazyModule("nnet3.train.examples")


@verb("shuffle-egs")
@shuffling_options
def command(examples: str, output: str, seed: int, buffer_size: int) -> None:
    """Put training examples into random order: all of them, or with a buffer of limited memory.

    \b
    Example:
      nnet3 shuffle-egs --buffer-size=5000 --srand=1 ark:egs.ark ark:shuffled.ark
    """
    egs_tables.shuffle(egs.EXAMPLES, examples, output, seed, buffer_size)
