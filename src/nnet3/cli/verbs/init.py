import click

from nnet3.cli import later
from nnet3.cli.messages import print_warnings
from nnet3.cli.options import arguments, binary_option, seed_option
from nnet3.cli.verb import MODELS, verb


@verb("make a network from configs or xconfigs", MODELS, program="nnet3-init")
@binary_option
@seed_option
@arguments(files="[RAW-IN] CONFIG... RAW-OUT")
def command(files: tuple[str, ...], binary: bool, seed: int) -> None:
    """Make a raw network from one or more configs or xconfigs, applied in order.

    If the first of several files is a network rather than a config, it is what the configs are applied to.

    \b
    Example:
      nnet3 init network.config 0.raw
      nnet3 init network.xconfig 0.raw
      nnet3 init 0.raw add_layer.config 1.raw
    """
    if len(files) < 2:
        raise click.UsageError("give at least one config file and the file to write")
    *inputs, output = files
    nnet = later.network.Nnet((), {})
    if len(inputs) > 1:
        nnet = later.files.read_network_or_config(inputs.pop(0), seed)
        seed += 1
    later.files.apply_config_files(nnet, inputs, seed)
    print_warnings(nnet.warnings)
    later.files.save_model(nnet, output, binary)
