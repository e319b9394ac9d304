import click

from nnet3.cli import later
from nnet3.cli.lattice_options import (
    acoustic_scale_option,
    lattices_argument,
    lm_scale_option,
    number_option,
    output_argument,
)
from nnet3.cli.options import flag
from nnet3.cli.verb import LATTICES, verb


@verb("scale the costs of lattices", LATTICES, program="lattice-scale")
@acoustic_scale_option
@number_option("--inv-acoustic-scale", default=1.0, help="Divides acoustic costs instead.")
@lm_scale_option
@number_option("--acoustic2lm-scale", default=0.0, help="Of acoustic costs that are added to those of the graph.")
@number_option("--lm2acoustic-scale", default=0.0, help="Of costs of the graph that are added to acoustic ones.")
@flag("--write-compact", default=True, help="Write acceptors of words.")
@lattices_argument
@output_argument
def command(lattices: str, output: str, write_compact: bool, **scales: float) -> None:
    """Multiply the costs of lattices by scales, which may also mix both kinds.

    \b
    Example:
      nnet3 lattice-scale --acoustic-scale=10 ark:lat.ark "ark:|gzip -c > lat.1.gz"
    """
    scale, divisor = scales["acoustic_scale"], scales["inv_acoustic_scale"]
    if divisor == 0 or (scale != 1 and divisor != 1):
        raise click.UsageError("give --acoustic-scale, or an --inv-acoustic-scale that is not 0")
    graph = (scales["lm_scale"], scales["acoustic2lm_scale"])
    acoustic = (scales["lm2acoustic_scale"], scale / divisor)
    later.lattice_reading.write_changed(
        lattices, output, lambda lattice: lattice.with_costs(graph, acoustic), write_compact
    )
