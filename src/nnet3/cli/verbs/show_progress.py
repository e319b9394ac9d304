from typing import Any

import click

from nnet3.cli import later
from nnet3.cli.messages import say
from nnet3.cli.options import arguments, test_mode_options, whole_number
from nnet3.cli.verb import RUNNING, verb


@verb("what has changed from one network to another", RUNNING, program="nnet3-show-progress")
@test_mode_options(batchnorm=True)
@whole_number(
    "--num-segments",
    least=1,
    default=1,
    help="Parts of the line from the old to the new network, in the middle of which gradients are taken.",
)
@arguments(old="OLD-RAW", new="NEW-RAW")
@click.argument("examples", metavar="[EGS-RSPECIFIER]", required=False)
def command(old: str, new: str, examples: str | None, **settings: Any) -> None:
    """Print by how much the parameters of each component differ in two networks and, given examples, what the change
    of each has done for the objective.

    \b
    Example:
      nnet3 show-progress 1.raw 2.raw 'ark:nnet3 merge-egs ark:train_subset.egs ark:- |'
    """
    device = later.device.given_device()
    first, second = (later.files.load_network_to(device, name) for name in (old, new))
    if examples is not None:
        minibatches = list(later.egs_minibatches.minibatches(examples, second))
        changes = later.show_progress.objective_changes(first, second, minibatches, say=say, **settings)
        say(f"Total objf change per component is {later.show_progress.by_component(changes)}")
    norms, relative = later.show_progress.parameter_differences(first, second)
    say(f"Parameter differences per layer are {later.show_progress.by_component(norms)}")
    say(f"Relative parameter differences per layer are {later.show_progress.by_component(relative)}")
