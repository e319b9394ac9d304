from typing import Any

from nnet3.cli.compute_options import chunk_options, decode_streams, decoding_options
from nnet3.cli.verb import LATTICES, verb
from nnet3.options import StreamOptions


@verb("decode utterances as streams to lattices", LATTICES, program="nnet3-latgen-faster-looped")
@chunk_options(StreamOptions)
@decoding_options
def command(**given: Any) -> None:
    """Decode tables of features as `nnet3 latgen-faster` does, with scores as `nnet3 compute-looped` computes them.

    \b
    Example:
      nnet3 latgen-faster-looped --acoustic-scale=1.0 --frame-subsampling-factor=3 --frames-per-chunk=21 \\
        final.mdl HCLG.fst scp:feats.scp ark:lat.ark ark,t:words.txt
    """
    decode_streams(**given)
