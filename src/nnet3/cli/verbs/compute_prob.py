from typing import Any

import click

from nnet3.cli import later
from nnet3.cli.messages import say
from nnet3.cli.options import arguments, flag, test_mode_options
from nnet3.cli.verb import RUNNING, verb


@verb("objective and accuracy of a network on examples", RUNNING, program="nnet3-compute-prob")
@test_mode_options(batchnorm=True)
@flag("--collapse-model", "collapse", default=True, show_default=True, help="Merge layers first.")
@flag("--compute-accuracy", "accuracy", default=True, show_default=True, help="How often it is right.")
@flag("--compute-per-dim-accuracy", help="Also by the column that would be right.")
@flag("--compute-deriv", "gradient", help="Also the gradient: its size for each component; written to GRADIENT-OUT.")
@arguments(model="RAW-IN", examples="EGS-RSPECIFIER", output="[GRADIENT-OUT]")
def command(model: str, examples: str, output: str, compute_per_dim_accuracy: bool, **settings: Any) -> None:
    """Print the objective per frame, and the accuracy, of a raw network on merged examples (on stderr, as Kaldi does).

    With --compute-deriv=true layers stay as they are, and the gradient of the objective, summed over all frames, is
    written as a network whose parameters it is.

    \b
    Example:
      nnet3 compute-prob final.raw 'ark:nnet3 merge-egs --minibatch-size=1:64 ark:valid.egs ark:- |'
    """
    if output and not settings["gradient"]:
        raise click.UsageError(f"'{output}' would have the gradient: say --compute-deriv=true")
    later.files.check_can_save(output)
    nnet = later.files.load_network_to(later.device.given_device(), model)
    evaluator = later.compute_prob.evaluated(nnet, later.egs_minibatches.minibatches(examples, nnet), **settings)
    for line in later.compute_prob.report_lines(nnet, evaluator.stats):
        say(line)
    if compute_per_dim_accuracy:
        for line in later.compute_prob.column_lines(evaluator):
            say(line)
    later.egs_minibatches.report_gradient(evaluator.gradient, output)
