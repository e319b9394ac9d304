"""Verbs of posteriors: numbers with weights for each frame."""

from __future__ import annotations

from typing import Any

from nnet3.base.text.values import at_least
from nnet3.cli import later
from nnet3.cli.options import arguments, flag, number, whole_number
from nnet3.cli.verb import verb


@verb()
@number("--scale", default=1.0, help="Multiplies all weights.")
@arguments(source="POSTERIORS-RSPECIFIER", output="POSTERIORS-WSPECIFIER")
def copy_post(**given: Any) -> int:
    """Copy posteriors, scaled or not.

    nnet3 copy-post ark:post.ark ark,t:-
    """
    return later.posterior_tables.copy(**given)


@verb()
@number("--min-post", "least", rule=at_least(0), default=0.01, help="Smaller probabilities are left out.")
@flag("--random-prune", default=True, show_default=True, help="Raise some of them to it at random, to keep means.")
@arguments(source="MATRICES-RSPECIFIER", output="POSTERIORS-WSPECIFIER")
def logprob_to_post(**given: Any) -> int:
    """Make posteriors of matrices of log-probabilities, such as `nnet3 compute` writes: the numbers of columns with
    their probabilities.

    nnet3 logprob-to-post --min-post=0.001 ark:output.ark ark:post.ark
    """
    return later.posterior_tables.of_log_probs(**given)


@verb()
@arguments(source="POSTERIORS-RSPECIFIER", output="WEIGHTS-WSPECIFIER")
def post_to_weights(source: str, output: str) -> int:
    """Write the sum of the weights of each frame.

    nnet3 weight-silence-post 0.0 1:2:3 final.mdl ark:post.ark ark:- | nnet3 post-to-weights ark:- ark:weights.ark
    """
    return later.posterior_tables.to_weights(source, output)


@verb()
@arguments(source="POSTERIORS-RSPECIFIER", scales="SCALE", output="POSTERIORS-WSPECIFIER")
def scale_post(**given: Any) -> int:
    """Multiply posteriors with a number, or with the number of each utterance in a table.

    nnet3 scale-post ark:post.ark 0.5 ark:half.ark
    """
    return later.posterior_tables.scale_each(**given)


@verb()
@number("--scale1", default=1.0, help="Scale of the first table.")
@number("--scale2", default=1.0, help="Scale of the second table.")
@flag("--merge", default=True, show_default=True, help="Add weights of equal numbers of a frame.")
@flag("--drop-frames", help="Empty the frames in which no number is in both.")
@flag("--zero-if-disjoint", hidden=True)
@arguments(first="POSTERIORS-RSPECIFIER", second="POSTERIORS-RSPECIFIER", output="POSTERIORS-WSPECIFIER")
def sum_post(scale1: float, scale2: float, drop_frames: bool, zero_if_disjoint: bool, **given: Any) -> int:
    """Sum the posteriors of two tables.

    nnet3 sum-post --scale2=-1.0 ark:num.ark ark:den.ark ark:difference.ark
    """
    drop = drop_frames or zero_if_disjoint
    return later.posterior_tables.sum_two(scales=(scale1, scale2), drop_disjoint=drop, **given)


@verb()
@whole_number("--length-tolerance", "tolerance", least=0, default=2, help="Frames that weights may be off.")
@arguments(source="POSTERIORS-RSPECIFIER", weights="WEIGHTS-RSPECIFIER", output="POSTERIORS-WSPECIFIER")
def weight_post(**given: Any) -> int:
    """Multiply the posteriors of each frame with the frame's weight; frames of weight 0 become empty.

    nnet3 weight-post ark:post.ark scp:vad.scp ark:voiced.ark
    """
    return later.posterior_tables.weight_frames(**given)


@verb()
@flag("--distribute", help="Multiply all posteriors of a frame, by its share of silence.")
@arguments(
    silence_weight="SILENCE-WEIGHT",
    silence_phones="SILENCE-PHONES",
    model="MODEL",
    source="POSTERIORS-RSPECIFIER",
    output="POSTERIORS-WSPECIFIER",
)
def weight_silence_post(**given: Any) -> int:
    """Multiply the posteriors of silence phones, a list such as 1:2:3, with a number; 0 leaves them out.

    nnet3 weight-silence-post 0.0 1:2:3 final.mdl ark:post.ark ark:spoken.ark
    """
    return later.posterior_tables.weight_silence(**given)
