from nnet3.cli import later
from nnet3.cli.declared import takes
from nnet3.cli.options import arguments
from nnet3.cli.verb import EXAMPLES, verb
from nnet3.options import XvectorMakingOptions


@verb("make training examples for x-vectors", EXAMPLES, program="nnet3-xvector-get-egs")
@takes("options", XvectorMakingOptions)
@arguments(ranges="RANGES", features="FEATURES-RSPECIFIER", outputs="EGS-WSPECIFIER...")
def command(ranges: str, features: str, outputs: tuple[str, ...], options: XvectorMakingOptions) -> None:
    """Cut stretches out of utterances and make a training example of each, with its class at t = 0 as supervision.

    A line of the ranges is: utterance, number of the output table (from 0), any integer, first frame, frames, class.
    A stretch that ends behind its utterance is moved forward; one that is longer is reported and left out.

    \b
    Example:
      nnet3 xvector-get-egs --num-pdfs=6 ranges.1 scp:feats.scp ark:egs.1.ark ark:egs.2.ark
    """
    later.get_egs_tables.make_from_ranges(ranges, features, outputs, options)
