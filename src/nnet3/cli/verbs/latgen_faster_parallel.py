from typing import Any

from nnet3.cli.compute_options import chunk_options, decode_utterances, decoding_options
from nnet3.cli.options import whole_number
from nnet3.cli.verb import LATTICES, verb
from nnet3.options import UtteranceOptions


@verb("decode utterances to lattices, several at once", LATTICES, program="nnet3-latgen-faster-parallel")
@chunk_options(UtteranceOptions)
@whole_number("--num-threads", least=1, default=1, help="Utterances searched at once.")
@decoding_options
def command(**given: Any) -> None:
    """Decode tables of features as `nnet3 latgen-faster` does, several utterances at once.

    \b
    Example:
      nnet3 latgen-faster-parallel --num-threads=4 final.mdl HCLG.fst scp:feats.scp ark:lat.ark
    """
    decode_utterances(**given)
