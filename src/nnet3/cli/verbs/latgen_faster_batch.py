from typing import Any

from nnet3.cli.compute_options import chunk_options, decode_utterances, decoding_options
from nnet3.cli.options import whole_number
from nnet3.cli.verb import LATTICES, verb
from nnet3.options import BatchOptions


@verb("decode utterances to lattices, many at once", LATTICES, program="nnet3-latgen-faster-batch")
@chunk_options(BatchOptions)
@whole_number("--num-threads", least=1, default=1, help="Utterances searched at once.")
@decoding_options
def command(**given: Any) -> None:
    """Decode tables of features as `nnet3 latgen-faster` does, with chunks as `nnet3 compute-batch` cuts them.

    \b
    Example:
      nnet3 latgen-faster-batch --acoustic-scale=1.0 --frame-subsampling-factor=3 --frames-per-chunk=150 \\
        --minibatch-size=64 final.mdl HCLG.fst scp:feats.scp ark:lat.ark
    """
    decode_utterances(**given)
