import click

from nnet3.cli import later
from nnet3.cli.messages import print_warnings
from nnet3.cli.options import arguments
from nnet3.cli.verb import SEEING, verb


@verb("print the layers of a network, as an xconfig", SEEING)
@arguments(network="MODEL-OR-CONFIG")
def command(network: str) -> None:
    """Print the layers of a network as an xconfig that expands to it.

    The file may be a raw network, an acoustic model or a config, from a recipe or not. Keys are given only where they
    differ from their defaults. What is no layer comes as comments, `# not recognised:` and the line of a config; layers
    on it name its nodes, as with --existing-model of xconfig-to-configs.

    A model does not hold what its initial parameters were drawn with, nor the names of matrices' files.

    \b
    Examples:
      nnet3 describe final.mdl
      nnet3 describe final.raw > network.xconfig
    """
    nnet = later.files.read_network_or_config(network)
    print_warnings(nnet.warnings)
    found = later.xconfig.describe(nnet.parts)
    layers = f"{len(found.layers)} layer{'' if len(found.layers) == 1 else 's'}"
    click.echo(f"# {'standard input' if network == '-' else ' '.join(network.split())}: {layers}")
    if not found.is_complete:
        click.echo("# Not all of it is layers: this goes on top of the network, whose nodes inputs may name.")
    click.echo(found.xconfig, nl=False)
