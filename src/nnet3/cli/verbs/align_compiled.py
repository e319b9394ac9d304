from typing import Any

import click

from nnet3.cli.compute_options import align_utterances, chunk_options
from nnet3.cli.declared import takes
from nnet3.cli.options import arguments
from nnet3.cli.verb import ALIGNING, verb
from nnet3.options import AlignmentOptions, UtteranceOptions


@verb("align utterances with training graphs", ALIGNING, program="nnet3-align-compiled")
@takes("options", AlignmentOptions)
@chunk_options(UtteranceOptions)
@click.option(
    "--write-per-frame-acoustic-loglikes",
    "loglikes",
    default="",
    metavar="WSPECIFIER",
    help="Vectors of the log-likelihoods of frames, not scaled.",
)
@arguments(
    model="MODEL",
    graphs="GRAPHS-RSPECIFIER",
    features="FEATURES-RSPECIFIER",
    alignments="ALIGNMENTS-WSPECIFIER",
    scores="[SCORES-WSPECIFIER]",
)
def command(**given: Any) -> int:
    """Align utterances: find the most likely path of each one's training graph, and write its transition-ids.

    Priors are subtracted if the model has some.

    \b
    Example:
      nnet3 align-compiled --self-loop-scale=0.1 --beam=10 --retry-beam=40 final.mdl ark:graphs.ark \\
        scp:feats.scp ark:ali.ark
    """
    return align_utterances(**given)
