"""`nnet3 info`: what a network consists of (Kaldi: nnet3-info)."""

from __future__ import annotations

import click

from nnet3.cli.files import read_network_or_config
from nnet3.cli.messages import print_warnings
from nnet3.cli.network_tables import print_network
from nnet3.cli.options import kaldi_option


@click.command("info")
@kaldi_option
@click.argument("network", metavar="MODEL-OR-CONFIG")
def command(network: str, kaldi: bool) -> None:
    """Describe a network: its nodes and components, their dimensions, what is trained and how.

    The file may be a raw network, an acoustic model (its network is described) or a config.

    \b
    Examples:
      nnet3 info final.raw
      nnet3 info --kaldi final.raw
    """
    nnet = read_network_or_config(network)
    print_warnings(nnet.warnings)
    if kaldi:
        click.echo(nnet.info(), nl=False)
    else:
        print_network(nnet)
