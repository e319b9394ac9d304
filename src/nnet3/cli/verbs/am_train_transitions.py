"""`nnet3 am-train-transitions`: transition probabilities of alignments (Kaldi: nnet3-am-train-transitions)."""

from __future__ import annotations

import click

from nnet3.cli import later
from nnet3.cli.click_types import click_type
from nnet3.cli.declared import takes
from nnet3.cli.options import KALDI_BOOL, binary_option
from nnet3.cli.verb import ALIGNING, verb
from nnet3.options import TransitionOptions
from nnet3.text.values import Number, at_least


@verb("train the transitions of an acoustic model", ALIGNING, program="nnet3-am-train-transitions")
@binary_option
@takes("options", TransitionOptions)
@click.option("--set-priors", type=KALDI_BOOL, default=True, show_default=True, help="Set the priors of pdfs too.")
@click.option(
    "--prior-floor", type=click_type(Number(at_least(0))), default=5e-6, show_default=True, help="Smallest prior."
)
@click.argument("model", metavar="MODEL-IN")
@click.argument("alignments", metavar="ALIGNMENTS-RSPECIFIER")
@click.argument("output", metavar="MODEL-OUT")
def command(
    model: str,
    alignments: str,
    output: str,
    binary: bool,
    options: TransitionOptions,
    set_priors: bool,
    prior_floor: float,
) -> None:
    """Set the transition probabilities of an acoustic model to those of alignments, and its priors to shares of pdfs.

    \b
    Example:
      nnet3 am-train-transitions 0.mdl ark:ali.ark 1.mdl
    """
    floor = prior_floor if set_priors else None
    later.alignment_tables.train_transitions(model, alignments, output, binary, options, floor)
