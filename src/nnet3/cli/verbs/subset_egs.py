"""`nnet3 subset-egs`: some examples at random (Kaldi: nnet3-subset-egs)."""

from __future__ import annotations

from nnet3.cli import later
from nnet3.cli.egs_options import subset_options
from nnet3.cli.verb import EXAMPLES, verb


@verb("take some training examples at random", EXAMPLES, program="nnet3-subset-egs")
@subset_options
def command(examples: str, output: str, seed: int, count: int, randomize_order: bool) -> None:
    """Take some training examples, each with the same probability, for instance for validation.

    \b
    Example:
      nnet3 subset-egs --n=300 ark:egs.ark ark:valid.ark
    """
    later.egs_tables.take_subset(later.examples.EXAMPLES, examples, output, seed, count, randomize_order)
