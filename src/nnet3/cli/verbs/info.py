import click

from nnet3.cli import later
from nnet3.cli.messages import print_warnings
from nnet3.cli.options import arguments, kaldi_option, learning_rates_option
from nnet3.cli.verb import SEEING, verb


@verb("describe a network", SEEING, program="nnet3-info", program_defaults={"kaldi": True})
@kaldi_option
@learning_rates_option
@arguments(network="MODEL-OR-CONFIG")
def command(network: str, kaldi: bool, print_learning_rates: bool) -> None:
    """Describe a network: its nodes and components, their dimensions, what is trained and how.

    The file may be a raw network, an acoustic model (its network is described) or a config.

    \b
    Examples:
      nnet3 info final.raw
      nnet3 info --kaldi final.raw
    """
    nnet = later.files.read_network_or_config(network)
    print_warnings(nnet.warnings)
    if print_learning_rates:
        click.echo(later.network_tables.learning_rates(nnet))
        return
    if kaldi:
        click.echo(nnet.info(), nl=False)
    else:
        later.network_tables.print_network(nnet)
