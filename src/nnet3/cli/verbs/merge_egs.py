"""`nnet3 merge-egs`: minibatches out of examples (Kaldi: nnet3-merge-egs)."""

from __future__ import annotations

from nnet3.cli import later
from nnet3.cli.egs_options import merging_options
from nnet3.cli.verb import EXAMPLES, verb


@verb("merge training examples into minibatches", EXAMPLES, program="nnet3-merge-egs")
@merging_options("256")
def command(examples: str, output: str, minibatch_size: str, compress: bool) -> None:
    """Merge training examples of equal structure into minibatches, in the order in which they come.

    A minibatch is written when there are as many examples as the rule allows at most. At the end the largest sizes
    that what is left allows are written; the rest is discarded: none with 1:64, some with 64.

    \b
    Example:
      nnet3 merge-egs --minibatch-size=64,128 ark:egs.ark ark:merged.ark
    """
    later.egs_tables.merge(later.examples.EXAMPLES, examples, output, minibatch_size, compress)
