"""`nnet3 subset-egs`: some examples at random (Kaldi: nnet3-subset-egs)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nnet3.cli.egs_options import subset_options
from nnet3.cli.lazy import LazyModule
from nnet3.cli.verb import verb

if TYPE_CHECKING:
    from nnet3.cli import egs_tables
    from nnet3.train import examples as egs
else:
    egs_tables = LazyModule("nnet3.cli.egs_tables")
    egs = LazyModule("nnet3.train.examples")


@verb("subset-egs")
@subset_options
def command(examples: str, output: str, seed: int, count: int, randomize_order: bool) -> None:
    """Take some training examples, each with the same probability, for instance for validation.

    \b
    Example:
      nnet3 subset-egs --n=300 ark:egs.ark ark:valid.ark
    """
    egs_tables.take_subset(egs.EXAMPLES, examples, output, seed, count, randomize_order)
