import click

from nnet3.cli import later
from nnet3.cli.options import whole_number
from nnet3.cli.verb import SEEING, run_on_cpu, verb


@verb("see networks learn from real data", SEEING)
@click.option("--speech", metavar="ZIP", help="Spoken digits instead: the Free Spoken Digit Dataset's recordings.")
@click.option("--folder", default="demo-out", show_default=True, metavar="DIR", help="Where the results are written.")
@whole_number("--seed", least=0, bits=64, default=1, help="Seed of all random numbers.")
def command(speech: str | None, folder: str, seed: int) -> None:
    """See networks learn from real data, in under two minutes.

    By default a TDNN and an LSTM learn to read scanned handwritten digits; with --speech a TDNN learns spoken ones.
    The folder then holds for each network its config, the trained model and the compiled computation, and a
    picture of the results, report.png.

    \b
    Example:
      nnet3 demo --speech recordings.zip --folder speech-demo
    """
    run_on_cpu()
    later.run_demo.run_demo(speech, folder, seed)
