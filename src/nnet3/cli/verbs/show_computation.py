from typing import Any

import click

from nnet3.cli import later
from nnet3.cli.options import arguments, flag, whole_number
from nnet3.cli.verb import SEEING, run_on_cpu, verb
from nnet3.options import HIGHEST_LEVEL


@verb("compile for a request and print every stage", SEEING)
@click.option("--input", "inputs", multiple=True, metavar="NAME=FIRST:LAST[:STEP]", help="Times given at an input.")
@click.option("--output", "outputs", multiple=True, metavar="NAME=FIRST:LAST[:STEP]", help="Times wanted.")
@whole_number("--num-sequences", least=1, default=1, help="Sequences n = 0, 1, ...")
@flag("--backward", show_default=True, help="With derivatives and update.")
@flag("--optimize", default=True, show_default=True, help="Run the passes.")
@click.option("-O", "level", type=click.IntRange(0, HIGHEST_LEVEL), default=HIGHEST_LEVEL, show_default=True,
              metavar="LEVEL", help="Run the passes up to -O0, none, -O1, -O2 or -O3, all.")  # fmt: skip
@click.option("--disable-pass", "disabled", multiple=True, metavar="PASS", help="Leave out one pass.")
@flag("--graph", show_default=True, help="Print the graph in full.")
@flag("--schedule", "--show-steps", "steps", show_default=True, help="Print every step of the schedule, in full.")
@flag("--passes", show_default=True, help="Print what each pass changes, and its commands, calls and bytes.")
@flag(
    "--family",
    show_default=True,
    help="Print the program for T output frames of N sequences, compiled once for all; nothing else is printed.",
)
@whole_number("--max-commands", least=1, help="Print only so many commands, and lines of each pass.")
@flag("--profile", "profiled", help="Run it on random numbers; print the time of each.")
@arguments(network="MODEL-OR-CONFIG")
def command(network: str, **options: Any) -> None:
    """Compile a model file or a config file for a request, and print the stages.

    Without --output, every output is asked for at t = 0:9, with --family at t = 0:199. Without --input, a simple
    network is given the input frames that these need, and an ivector at t = 0. Commands are printed in groups, one for
    each node. With --family the number of sequences is free too if there are five or more.

    \b
    Examples:
      nnet3 show-computation --output output=0:9 --num-sequences 2 network.config
      nnet3 show-computation --graph --schedule --profile final.raw
      nnet3 show-computation --passes --backward true --max-commands 20 final.raw
      nnet3 show-computation -O1 --disable-pass dead_code final.raw
      nnet3 show-computation --family --num-sequences 5 --backward true final.raw
    """
    run_on_cpu()
    later.show_stages.show_stages(network, **options)
