"""`nnet3 am-info`: what an acoustic model consists of (Kaldi: nnet3-am-info)."""

from __future__ import annotations

import click

from nnet3.cli.files import load_acoustic_model
from nnet3.cli.network_tables import print_network
from nnet3.cli.options import kaldi_option


@click.command("am-info")
@kaldi_option
@click.argument("source", metavar="MODEL")
def command(source: str, kaldi: bool) -> None:
    """Describe an acoustic model: transition model, priors and network.

    \b
    Example:
      nnet3 am-info final.mdl
    """
    model = load_acoustic_model(source)
    if kaldi:
        click.echo(model.info(), nl=False)
        return
    transitions = model.transition_model
    click.echo(
        f"transition model: {transitions.num_pdfs} pdfs, {len(transitions.phones)} phones, "
        f"{transitions.num_transition_states} transition-states, {transitions.num_transition_ids} transition-ids"
    )
    priors = f"{len(model.priors)}, summing to {float(model.priors.sum()):.6g}" if len(model.priors) else "none"
    click.echo(f"priors: {priors}")
    print_network(model.nnet)
