from typing import Any

from nnet3.cli.compute_options import chunk_options, decode_utterances, decoding_options
from nnet3.cli.verb import LATTICES, verb
from nnet3.options import UtteranceOptions


@verb("decode utterances to lattices", LATTICES, program="nnet3-latgen-faster")
@chunk_options(UtteranceOptions)
@decoding_options
def command(**given: Any) -> None:
    """Decode tables of features with a graph such as HCLG.fst, or with a table of graphs, one for each utterance.

    A lattice is written for each utterance, and the words and the transition-ids of its best path where these are
    asked for. Scores are the network's outputs less the logarithms of the model's priors, if it has any, times
    --acoustic-scale; lattices have acoustic costs that are not scaled. An utterance whose search reaches no final state
    of the graph is left out, without --allow-partial.

    Chunks are those of `nnet3 compute`, which reports and keeps in the same way what cannot be decoded and what is.

    \b
    Example:
      nnet3 latgen-faster --acoustic-scale=1.0 --frame-subsampling-factor=3 --beam=15 --lattice-beam=8 \\
        final.mdl HCLG.fst scp:feats.scp "ark:|gzip -c > lat.1.gz"
    """
    decode_utterances(**given)
