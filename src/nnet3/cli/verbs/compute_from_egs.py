from typing import Any

import click

from nnet3.cli import later
from nnet3.cli.options import arguments, flag
from nnet3.cli.verb import RUNNING, verb


@verb("run a network over training examples", RUNNING, program="nnet3-compute-from-egs")
@flag("--apply-exp", "exponentiate", help="Exponentials of the outputs: of log-posteriors.")
@click.option("--output-name", "node", default="output", show_default=True, metavar="NODE", help="The output to write.")
@arguments(model="RAW-IN", examples="EGS-RSPECIFIER", output="MATRICES-WSPECIFIER")
def command(**given: Any) -> None:
    """Run a raw network over (merged) examples, and write a matrix for each with the rows that its supervision has.

    The network runs in the modes of its file: batch-norm takes the statistics of each minibatch, unless
    nnet3-am-copy --prepare-for-test=true made the network.

    \b
    Example:
      nnet3 compute-from-egs --apply-exp=true final.raw ark:merged.ark ark:posteriors.ark
    """
    later.outputs_of_egs.write_outputs(later.device.given_device(), **given)
