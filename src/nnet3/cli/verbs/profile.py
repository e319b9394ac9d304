from typing import Any

import click

from nnet3.cli import later
from nnet3.cli.options import arguments, flag, whole_number
from nnet3.cli.verb import SEEING, take_use_gpu, verb
from nnet3.options import HIGHEST_LEVEL


@verb("see where the time of a network goes", SEEING)
@whole_number("--num-sequences", least=1, default=1, help="Sequences at once.")
@whole_number("--frames", least=1, default=50, help="Output frames of each.")
@whole_number("--frame-subsampling-factor", "factor", least=1, default=3, help="Input frames per output.")
@flag("--train", show_default=True, help="A training step, not test mode.")
@flag("--optimize", default=True, show_default=True, help="Run the passes.")
@click.option("-O", "level", type=click.IntRange(0, HIGHEST_LEVEL), default=HIGHEST_LEVEL, show_default=True,
              metavar="LEVEL", help="Run the passes up to -O0, none, -O1, -O2 or -O3, all.")  # fmt: skip
@click.option(
    "--by",
    default="kind,type",
    show_default=True,
    help="What to put together: some of kind,type,kernel,node.",
)
@whole_number("--limit", least=1, default=25, help="Lines of the table.")
@whole_number("--repeats", least=1, default=3, help="Runs to average.")
@click.option("--trace", type=click.Path(dir_okay=False), default=None, help="Write a Chrome trace to this file.")
@click.option("--device", metavar="DEVICE", help="cpu, which is the default, cuda or cuda:N.")
@arguments(network="MODEL-OR-CONFIG")
def command(network: str, device: str | None, **options: Any) -> None:
    """Run a network on random numbers and print time, memory and calls by command, component type and node.

    \b
    Example:
      nnet3 profile --num-sequences 64 --train true --by node,kind --trace trace.json final.raw
    """
    chosen = later.device.choose_device(device, take_use_gpu() or "no")
    later.profile_network.print_profile(network, device=chosen, **options)
