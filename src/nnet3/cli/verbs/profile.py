"""`nnet3 profile`: where the time goes when a network runs or is trained."""

from __future__ import annotations

from typing import Any

import click

from nnet3.cli import later
from nnet3.cli.click_types import integer
from nnet3.cli.options import KALDI_BOOL
from nnet3.cli.verb import SEEING, take_use_gpu, verb


@verb("see where the time of a network goes", SEEING)
@click.option("--num-sequences", type=integer(1), default=1, show_default=True, help="Sequences at once.")
@click.option("--frames", type=integer(1), default=50, show_default=True, help="Output frames of each.")
@click.option(
    "--frame-subsampling-factor",
    "factor",
    type=integer(1),
    default=3,
    show_default=True,
    help="Input frames per output.",
)
@click.option("--train", type=KALDI_BOOL, default=False, show_default=True, help="A training step, not test mode.")
@click.option("--optimize", type=KALDI_BOOL, default=True, show_default=True, help="Run the passes.")
@click.option(
    "--by",
    default="kind,type",
    show_default=True,
    help="What to put together: some of kind,type,kernel,node.",
)
@click.option("--limit", type=integer(1), default=25, show_default=True, help="Lines of the table.")
@click.option("--repeats", type=integer(1), default=3, show_default=True, help="Runs to average.")
@click.option("--trace", type=click.Path(dir_okay=False), default=None, help="Write a Chrome trace to this file.")
@click.option("--device", metavar="DEVICE", help="cpu, which is the default, cuda or cuda:N.")
@click.argument("network", metavar="MODEL-OR-CONFIG")
def command(network: str, device: str | None, **options: Any) -> None:
    """Run a network on random numbers and print time, memory and calls by command, component type and node.

    \b
    Example:
      nnet3 profile --num-sequences 64 --train true --by node,kind --trace trace.json final.raw
    """
    chosen = later.device.choose_device(device, take_use_gpu() or "no")
    later.profile_network.print_profile(network, device=chosen, **options)
