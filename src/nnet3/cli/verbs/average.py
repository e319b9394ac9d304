import math

import click

from nnet3.cli import later
from nnet3.cli.options import arguments, binary_option
from nnet3.cli.verb import MODELS, verb


@verb("average networks", MODELS, program="nnet3-average")
@binary_option
@click.option("--weights", metavar="W1:W2:...", help="One weight per network; made to sum to one.")
@arguments(files="RAW-IN... RAW-OUT")
def command(files: tuple[str, ...], binary: bool, weights: str | None) -> None:
    """Average parameters and statistics of raw networks of the same structure.

    \b
    Example:
      nnet3 average --weights=2:1:1 1.1.raw 1.2.raw 1.3.raw 2.raw
    """
    if len(files) < 2:
        raise click.UsageError("give at least one network to read and the file to write")
    *inputs, output = files
    networks = [later.files.load_network(name) for name in inputs]
    mean = later.edits.average(networks, _weights(weights, len(inputs)), names=inputs)
    later.files.save_model(mean, output, binary)


def _weights(text: str | None, count: int) -> list[float] | None:
    if text is None:
        return None
    try:
        values = [float(piece) for piece in text.split(":")]
    except ValueError:
        raise click.UsageError(f"--weights must be numbers with colons between, got '{text}'") from None
    if len(values) != count or not all(math.isfinite(value) for value in values):
        raise click.UsageError(f"--weights must be {count} numbers, one per network, got '{text}'")
    return values
