"""`nnet3 lattice-scale`: scales the costs of lattices (Kaldi: lattice-scale)."""

from __future__ import annotations

from typing import Any

import click

from nnet3.cli import later
from nnet3.cli.lattice_options import (
    acoustic_scale_option,
    lattices_argument,
    lm_scale_option,
    number_option,
    output_argument,
)
from nnet3.cli.options import KALDI_BOOL
from nnet3.cli.verb import LATTICES, verb


@verb("scale the costs of lattices", LATTICES, program="lattice-scale")
@acoustic_scale_option
@number_option("--inv-acoustic-scale", default=1.0, help="Divides acoustic costs instead.")
@lm_scale_option
@number_option("--acoustic2lm-scale", default=0.0, help="Of acoustic costs that are added to those of the graph.")
@number_option("--lm2acoustic-scale", default=0.0, help="Of costs of the graph that are added to acoustic ones.")
@click.option("--write-compact", type=KALDI_BOOL, default=True, help="Write acceptors of words.")
@lattices_argument
@output_argument
def command(
    lattices: str,
    output: str,
    acoustic_scale: float,
    inv_acoustic_scale: float,
    lm_scale: float,
    acoustic2lm_scale: float,
    lm2acoustic_scale: float,
    write_compact: bool,
) -> None:
    """Multiply the costs of lattices by scales, which may also mix both kinds.

    \b
    Example:
      nnet3 lattice-scale --acoustic-scale=10 ark:lat.ark "ark:|gzip -c > lat.1.gz"
    """
    if inv_acoustic_scale == 0 or (acoustic_scale != 1 and inv_acoustic_scale != 1):
        raise click.UsageError("give --acoustic-scale, or an --inv-acoustic-scale that is not 0")
    of_acoustic = acoustic_scale / inv_acoustic_scale

    def change(lattice: Any) -> Any:
        return lattice.with_costs((lm_scale, acoustic2lm_scale), (lm2acoustic_scale, of_acoustic))

    later.lattice_reading.write_changed(lattices, output, change, write_compact)
