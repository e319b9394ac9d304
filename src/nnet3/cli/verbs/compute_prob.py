"""`nnet3 compute-prob`: objective and accuracy on examples (Kaldi: nnet3-compute-prob)."""

from __future__ import annotations

import click

from nnet3.cli import later
from nnet3.cli.messages import say
from nnet3.cli.options import KALDI_BOOL, test_mode_options
from nnet3.cli.verb import RUNNING, verb


@verb("objective and accuracy of a network on examples", RUNNING, program="nnet3-compute-prob")
@test_mode_options(batchnorm=True)
@click.option("--collapse-model", type=KALDI_BOOL, default=True, show_default=True, help="Merge layers first.")
@click.option("--compute-accuracy", type=KALDI_BOOL, default=True, show_default=True, help="How often it is right.")
@click.option(
    "--compute-per-dim-accuracy", type=KALDI_BOOL, default=False, help="Also by the column that would be right."
)
@click.argument("model", metavar="RAW-IN")
@click.argument("examples", metavar="EGS-RSPECIFIER")
def command(
    model: str,
    examples: str,
    batchnorm_test_mode: bool,
    dropout_test_mode: bool,
    collapse_model: bool,
    compute_accuracy: bool,
    compute_per_dim_accuracy: bool,
) -> None:
    """Print the objective per frame, and the accuracy, of a raw network on merged examples (on stderr, as Kaldi does).

    \b
    Example:
      nnet3 compute-prob final.raw 'ark:nnet3 merge-egs --minibatch-size=1:64 ark:valid.egs ark:- |'
    """
    nnet = later.files.load_network_to(later.device.given_device(), model)
    evaluator = later.compute_prob.evaluated(
        nnet,
        later.egs_minibatches.minibatches(examples, nnet),
        batchnorm_test_mode=batchnorm_test_mode,
        dropout_test_mode=dropout_test_mode,
        collapse=collapse_model,
        accuracy=compute_accuracy,
    )
    for line in later.compute_prob.report_lines(nnet, evaluator.stats):
        say(line)
    if compute_per_dim_accuracy:
        for line in later.compute_prob.column_lines(evaluator):
            say(line)
