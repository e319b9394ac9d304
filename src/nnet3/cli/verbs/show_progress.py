"""`nnet3 show-progress`: what training has changed (Kaldi: nnet3-show-progress)."""

from __future__ import annotations

import click

from nnet3.cli import later
from nnet3.cli.click_types import integer
from nnet3.cli.messages import say
from nnet3.cli.options import test_mode_options
from nnet3.cli.verb import RUNNING, verb


@verb("what has changed from one network to another", RUNNING, program="nnet3-show-progress")
@test_mode_options(batchnorm=True)
@click.option(
    "--num-segments",
    type=integer(1),
    default=1,
    show_default=True,
    help="Parts of the line from the old to the new network, in the middle of which gradients are taken.",
)
@click.argument("old", metavar="OLD-RAW")
@click.argument("new", metavar="NEW-RAW")
@click.argument("examples", metavar="[EGS-RSPECIFIER]", required=False)
def command(
    old: str, new: str, examples: str | None, num_segments: int, batchnorm_test_mode: bool, dropout_test_mode: bool
) -> None:
    """Print by how much the parameters of each component differ in two networks and, given examples, what the change
    of each has done for the objective.

    \b
    Example:
      nnet3 show-progress 1.raw 2.raw 'ark:nnet3 merge-egs ark:train_subset.egs ark:- |'
    """
    device = later.device.given_device()
    first, second = (later.files.load_network_to(device, name) for name in (old, new))
    if examples is not None:
        changes = later.show_progress.objective_changes(
            first,
            second,
            list(later.egs_minibatches.minibatches(examples, second)),
            num_segments=num_segments,
            batchnorm_test_mode=batchnorm_test_mode,
            dropout_test_mode=dropout_test_mode,
            say=say,
        )
        say(f"Total objf change per component is {later.show_progress.by_component(changes)}")
    norms, relative = later.show_progress.parameter_differences(first, second)
    say(f"Parameter differences per layer are {later.show_progress.by_component(norms)}")
    say(f"Relative parameter differences per layer are {later.show_progress.by_component(relative)}")
