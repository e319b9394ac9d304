"""`nnet3 show-computation`: compile a network for a request and print what comes of every stage."""

from __future__ import annotations

from typing import Any

import click

from nnet3.cli import later
from nnet3.cli.click_types import integer
from nnet3.cli.options import KALDI_BOOL
from nnet3.cli.verb import SEEING, run_on_cpu, verb


@verb("compile for a request and print every stage", SEEING)
@click.option("--input", "inputs", multiple=True, metavar="NAME=FIRST:LAST[:STEP]", help="Times given at an input.")
@click.option("--output", "outputs", multiple=True, metavar="NAME=FIRST:LAST[:STEP]", help="Times wanted.")
@click.option("--num-sequences", type=integer(1), default=1, show_default=True, help="Sequences n = 0, 1, ...")
@click.option("--backward", type=KALDI_BOOL, default=False, show_default=True, help="With derivatives and update.")
@click.option("--optimize", type=KALDI_BOOL, default=True, show_default=True, help="Run the passes.")
@click.option("--disable-pass", "disabled", multiple=True, metavar="PASS", help="Leave out one pass.")
@click.option("--graph", type=KALDI_BOOL, default=False, show_default=True, help="Print the graph in full.")
@click.option(
    "--schedule",
    "--show-steps",
    "steps",
    type=KALDI_BOOL,
    default=False,
    show_default=True,
    help="Print every step of the schedule, in full.",
)
@click.option(
    "--family",
    type=KALDI_BOOL,
    default=False,
    show_default=True,
    help="Print the program for T output frames of N sequences, compiled once for all; nothing else is printed.",
)
@click.option("--max-commands", type=integer(1), default=None, help="Print only so many commands.")
@click.option(
    "--profile", "profiled", type=KALDI_BOOL, default=False, help="Run it on random numbers; print the time of each."
)
@click.argument("network", metavar="MODEL-OR-CONFIG")
def command(network: str, **options: Any) -> None:
    """Compile a model file or a config file for a request, and print the stages.

    Without --output, every output is asked for at t = 0:9, with --family at t = 0:199. Without --input, a simple
    network is given the input frames that these need, and an ivector at t = 0. Commands are printed in groups, one for
    each node. With --family the number of sequences is free too if there are five or more.

    \b
    Examples:
      nnet3 show-computation --output output=0:9 --num-sequences 2 network.config
      nnet3 show-computation --graph --schedule --profile final.raw
      nnet3 show-computation --family --num-sequences 5 --backward true final.raw
    """
    run_on_cpu()
    later.show_stages.show_stages(network, **options)
