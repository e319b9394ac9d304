"""`nnet3 am-init`: an acoustic model from a transition model and a raw network (Kaldi: nnet3-am-init)."""

from __future__ import annotations

import click

from nnet3.cli.files import load_network, load_transitions, save_model
from nnet3.cli.messages import print_warnings
from nnet3.cli.options import binary_option
from nnet3.nnet import AcousticModel


@click.command("am-init")
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
    model = AcousticModel(load_transitions(transition_model), load_network(network))
    print_warnings(model.warnings)
    save_model(model, output, binary)
