from typing import Any

from nnet3.cli.compute_options import chunk_options, compute_matrices, score_options
from nnet3.cli.verb import RUNNING, verb
from nnet3.options import BatchOptions


@verb("run a network over utterances, in chunks of one size", RUNNING, program="nnet3-compute-batch")
@chunk_options(BatchOptions)
@score_options
def command(**given: Any) -> None:
    """Run a network over tables of features, chunks of many utterances at once, and write a matrix for each utterance.

    The last chunk of an utterance overlaps the one before, and a short utterance is computed as a whole chunk. Without
    --frames-per-chunk whole utterances are computed where chunks make no difference, as by `nnet3 compute`, which
    computes several at once too, and reports, keeps and resumes in the same way.

    \b
    Example:
      nnet3 compute-batch --frames-per-chunk=150 --minibatch-size=64 final.raw scp:feats.scp ark,scp:out.ark,out.scp
    """
    compute_matrices(**given)
