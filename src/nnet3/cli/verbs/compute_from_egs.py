"""`nnet3 compute-from-egs`: outputs of a network for examples (Kaldi: nnet3-compute-from-egs)."""

from __future__ import annotations

import click

from nnet3.cli import later
from nnet3.cli.options import KALDI_BOOL
from nnet3.cli.verb import RUNNING, verb


@verb("run a network over training examples", RUNNING, program="nnet3-compute-from-egs")
@click.option("--apply-exp", type=KALDI_BOOL, default=False, help="Exponentials of the outputs: of log-posteriors.")
@click.option("--output-name", default="output", show_default=True, metavar="NODE", help="The output to write.")
@click.argument("model", metavar="RAW-IN")
@click.argument("examples", metavar="EGS-RSPECIFIER")
@click.argument("output", metavar="MATRICES-WSPECIFIER")
def command(model: str, examples: str, output: str, apply_exp: bool, output_name: str) -> None:
    """Run a raw network over (merged) examples, and write a matrix for each with the rows that its supervision has.

    The network runs in the modes of its file: batch-norm takes the statistics of each minibatch, unless
    nnet3-am-copy --prepare-for-test=true made the network.

    \b
    Example:
      nnet3 compute-from-egs --apply-exp=true final.raw ark:merged.ark ark:posteriors.ark
    """
    device = later.device.given_device()
    later.outputs_of_egs.write_outputs(device, model, examples, output, output_name, apply_exp)
