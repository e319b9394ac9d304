from typing import Any

import click

from nnet3.cli import later
from nnet3.cli.options import arguments, flag, port_option, whole_number
from nnet3.cli.verb import SEEING, run_on_cpu, verb


@verb("make a page of a network, its program, memory and profile, for a browser", SEEING)
@click.option("--input", "inputs", multiple=True, metavar="NAME=FIRST:LAST[:STEP]", help="Times given at an input.")
@click.option("--output", "outputs", multiple=True, metavar="NAME=FIRST:LAST[:STEP]", help="Times wanted.")
@whole_number("--frames", least=1, default=10, help="Frames of each output without that.")
@whole_number("--num-sequences", least=1, default=1, help="Sequences n = 0, 1, ...")
@flag("--backward", show_default=True, help="With derivatives and update.")
@flag("--program", default=True, show_default=True, help="Compile it; false: only the network.")
@flag("--profile", "profiled", default=True, show_default=True, help="Run and time it.")
@port_option("--serve", help="Serve the page at 127.0.0.1; port 0: any.")
@arguments(network="MODEL")
@click.argument("page", metavar="[PAGE.html]", required=False)
def command(network: str, page: str | None, port: int | None, **options: Any) -> None:
    """Write one HTML file with everything that can be seen of a network: layers, nodes, weights; what depends on what
    in time; the program after each pass; where its matrices lie in memory; where its time goes. The file needs no
    network and no server, and can be sent to others.

    MODEL is a model, a config or an xconfig, or a computational network that `cn.save` wrote (.cn, .safetensors), which
    is given --num-sequences sequences of --frames frames. The folder of a run of `train-model` gives a page of the run:
    curves, learning rates, updates, what was skipped.

    \b
    Examples:
      nnet3 explore final.mdl final.html
      nnet3 explore --output=output=0:29:3 --backward=true --serve=0 final.raw
      nnet3 explore --serve=8000 exp
    """
    if page is None and port is None:
        raise click.UsageError("say where the page goes: PAGE.html, or --serve=PORT")
    run_on_cpu()
    later.exploring.write_page(network, page, port, **options)
