"""`nnet3 latgen-faster-parallel`: several utterances at once to lattices (Kaldi: nnet3-latgen-faster-parallel)."""

from typing import Any

from nnet3.cli.compute_options import decode_utterances, decoding_options, ivector_options
from nnet3.cli.declared import takes
from nnet3.cli.options import whole_number
from nnet3.cli.verb import LATTICES, verb
from nnet3.options import UtteranceOptions


@verb("decode utterances to lattices, several at once", LATTICES, program="nnet3-latgen-faster-parallel")
@ivector_options
@takes("chunks", UtteranceOptions, omit=("online_ivector_period",))
@whole_number("--num-threads", least=1, default=1, help="Utterances searched at once.")
@decoding_options
def command(**given: Any) -> None:
    """Decode tables of features as `nnet3 latgen-faster` does, several utterances at once.

    \b
    Example:
      nnet3 latgen-faster-parallel --num-threads=4 final.mdl HCLG.fst scp:feats.scp ark:lat.ark
    """
    decode_utterances(**given)
