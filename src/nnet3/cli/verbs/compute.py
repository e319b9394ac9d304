from typing import Any

from nnet3.cli.compute_options import chunk_options, compute_matrices, score_options
from nnet3.cli.verb import RUNNING, verb
from nnet3.options import UtteranceOptions


@verb("run a network over utterances", RUNNING, program="nnet3-compute")
@chunk_options(UtteranceOptions)
@score_options
def command(**given: Any) -> None:
    """Run a network over tables of features in chunks, as Kaldi does, and write a matrix for each utterance.

    Without --frames-per-chunk whole utterances are computed where chunks make no difference: for networks without
    recurrences, statistics and attention, unless there are online ivectors.

    Batch-norm and dropout are in test mode. The first and last frame are repeated for context. An utterance that
    cannot be computed is reported and left out. When the run is interrupted or fails, what is finished is kept, and
    --resume goes on from there. The exit status is 1 if no utterance was computed or a record could not be read.

    \b
    Example:
      nnet3 compute --online-ivectors=scp:ivectors.scp --online-ivector-period=10 final.raw scp:feats.scp ark:out.ark
    """
    compute_matrices(**given)
