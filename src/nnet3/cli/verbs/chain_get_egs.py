from typing import Any

import click

from nnet3.cli import later
from nnet3.cli.declared import takes
from nnet3.cli.egs_options import ivectors_option, normalization_scale_option
from nnet3.cli.options import arguments
from nnet3.cli.verb import CHAIN, verb
from nnet3.options import ChainMakingOptions


@verb("make chain examples of features and supervision", CHAIN, program="nnet3-chain-get-egs")
@takes("options", ChainMakingOptions)
@ivectors_option
@click.option("--deriv-weights-rspecifier", metavar="RSPECIFIER", help="A weight for each output frame, as vectors.")
@normalization_scale_option
@click.option(
    "--transition-model",
    metavar="FILE",
    help="Leave times inside chunks free; supervision then has labels that are transition-ids.",
)
@arguments(names="[NORMALIZATION-FST] FEATURES SUPERVISION EGS")
def command(names: tuple[str, ...], options: ChainMakingOptions, **files: Any) -> None:
    """Cut utterances into chunks and make a training example of each: input with context, ivector, and the sequences
    of pdfs that are right. With a normalization graph these are weighted (which needs kaldifst); else that is left to
    chain-normalize-egs. What cannot be used is reported and left out.

    \b
    Example:
      nnet3 chain-get-egs --left-context=31 --right-context=31 --num-frames=150,110,100 \\
        --frame-subsampling-factor=3 normalization.fst scp:feats.scp ark:sup.ark ark:cegs.ark
    """
    if len(names) not in (3, 4):
        raise click.UsageError("give tables of features and supervision and one to write; a graph may come before them")
    normalization = names[0] if len(names) == 4 else None
    features, supervision, output = names[-3:]
    later.chain_get_egs_tables.make(normalization, features, supervision, output, options, **files)
