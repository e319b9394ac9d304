"""`nnet3 am-init`: an acoustic model from a transition model and a raw network (Kaldi: nnet3-am-init)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from nnet3.cli.lazy import LazyModule
from nnet3.cli.messages import print_warnings
from nnet3.cli.options import binary_option
from nnet3.cli.verb import verb

if TYPE_CHECKING:
    from nnet3.cli import files
    from nnet3.nnet import acoustic_model
else:
    files = LazyModule("nnet3.cli.files")
    acoustic_model = LazyModule("nnet3.nnet.acoustic_model")


@verb("am-init")
@binary_option
@click.argument("transition_model", metavar="TRANSITION-MODEL")
@click.argument("network", metavar="RAW-IN")
@click.argument("output", metavar="MODEL-OUT")
def command(transition_model: str, network: str, output: str, binary: bool) -> None:
    """Join a transition model (or any model file that begins with one) and a raw network. Priors are not set.

    \b
    Example:
      nnet3 am-init tri3.mdl 0.raw 0.mdl
    """
    model = acoustic_model.AcousticModel(files.load_transitions(transition_model), files.load_network(network))
    print_warnings(model.warnings)
    files.save_model(model, output, binary)
