from typing import Any

from nnet3.cli.compute_options import chunk_options, compute_streams, score_options
from nnet3.cli.options import number
from nnet3.cli.verb import RUNNING, verb
from nnet3.options import StreamOptions
from nnet3.text.values import above


@verb("run a network over utterances as streams", RUNNING)
@chunk_options(StreamOptions)
@number("--frame-shift", rule=above(0), default=0.01, help="Seconds per frame, for the real-time factor.")
@score_options
def command(**given: Any) -> None:
    """Run a network over tables of features as if they were spoken now, and write a matrix for each utterance.

    Chunks are computed one after the other; what later chunks need is kept, and nothing is computed twice, as in
    Kaldi's looped decoding. What looks at frames that are not there yet, where it need not, does without them. Each
    chunk takes the online ivector of the first frame after its input. The report says how long a chunk takes, and by
    how many frames the output comes later than its own frame. Failures and --resume are as in `nnet3 compute`.

    \b
    Example:
      nnet3 compute-looped --frame-subsampling-factor=3 --frames-per-chunk=21 final.mdl scp:feats.scp ark:out.ark
    """
    compute_streams(**given)
