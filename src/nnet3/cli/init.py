"""`nnet3 init`: a network from config files (Kaldi: nnet3-init)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from nnet3.cli.lazy import LazyModule
from nnet3.cli.messages import print_warnings
from nnet3.cli.options import binary_option, seed_option
from nnet3.cli.verb import verb

if TYPE_CHECKING:
    from nnet3.cli import files as model_files
    from nnet3.nnet import network
else:
    model_files = LazyModule("nnet3.cli.files")
    network = LazyModule("nnet3.nnet.network")


@verb("init")
@binary_option
@seed_option
@click.argument("files", nargs=-1, required=True, metavar="[RAW-IN] CONFIG... RAW-OUT")
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
    nnet = network.Nnet((), {})
    if len(inputs) > 1:
        nnet = model_files.read_network_or_config(inputs.pop(0), seed)
        seed += 1
    model_files.apply_config_files(nnet, inputs, seed)
    print_warnings(nnet.warnings)
    model_files.save_model(nnet, output, binary)
