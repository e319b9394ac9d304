from typing import Any

from nnet3.cli.declared import takes
from nnet3.cli.verb import RUNNING, verb
from nnet3.cli.xvector_options import compute_xvectors, xvector_options
from nnet3.options import EqualXvectorOptions


@verb("compute x-vectors, in chunks of one size", RUNNING, program="nnet3-xvector-compute-batched")
@takes("options", EqualXvectorOptions)
@xvector_options
def command(options: EqualXvectorOptions, **others: Any) -> None:
    """Run a network that pools statistics over chunks of one size, spread evenly over each utterance, and write the
    mean of their vectors: output 'output' at t = 0.

    Batch-norm and dropout are in test mode. An utterance that cannot be computed is reported and left out; the exit
    status is 1 if none was computed or a record could not be read.

    \b
    Example:
      nnet3 xvector-compute-batched --chunk-size=150 --batch-size=32 \\
        "nnet3-copy --nnet-config=extract.config final.raw - |" scp:feats.scp ark,scp:xvector.ark,xvector.scp
    """
    compute_xvectors(options, **others)
