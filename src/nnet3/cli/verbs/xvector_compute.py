from typing import Any

from nnet3.cli.declared import takes
from nnet3.cli.verb import RUNNING, verb
from nnet3.cli.xvector_options import compute_xvectors, xvector_options
from nnet3.options import XvectorOptions


@verb("compute x-vectors of utterances", RUNNING, program="nnet3-xvector-compute")
@takes("options", XvectorOptions)
@xvector_options
def command(options: XvectorOptions, **others: Any) -> None:
    """Run a network that pools statistics over tables of features, and write a vector for each utterance: output
    'output' at t = 0.

    Chunks are averaged by their frames. Batch-norm and dropout are in test mode. An utterance that cannot be computed
    is reported and left out; the exit status is 1 if none was computed or a record could not be read.

    \b
    Example:
      nnet3 xvector-compute --min-chunk-size=25 --chunk-size=10000 \\
        "nnet3-copy --nnet-config=extract.config final.raw - |" scp:feats.scp ark,scp:xvector.ark,xvector.scp
    """
    compute_xvectors(options, **others)
