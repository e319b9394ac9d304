from typing import Any

from nnet3.cli import later
from nnet3.cli.declared import takes
from nnet3.cli.egs_options import ivectors_option, normalization_scale_option
from nnet3.cli.options import arguments
from nnet3.cli.verb import CHAIN, verb
from nnet3.options import ChainMakingOptions


@verb("make chain examples of utterances and training graphs", CHAIN, program="nnet3-chain-e2e-get-egs")
@takes("options", ChainMakingOptions, omit=("supervision_length_tolerance", "long_key"))
@ivectors_option
@normalization_scale_option
@arguments(
    normalization="NORMALIZATION-FST",
    features="FEATURES-RSPECIFIER",
    graphs="GRAPHS-RSPECIFIER",
    model="TRANSITION-MODEL",
    output="EGS-WSPECIFIER",
)
def command(
    normalization: str, features: str, graphs: str, model: str, output: str, options: ChainMakingOptions, **files: Any
) -> None:
    """Make training examples of whole utterances that have transcripts but no alignments: the sequences that are right
    are those of a training graph. Lengths of utterances must be within 4 frames of one of --num-frames.

    \b
    Example:
      nnet3 chain-e2e-get-egs --num-frames=150,165,180 --frame-subsampling-factor=3 normalization.fst \\
        scp:feats.scp ark:graphs.ark 0.trans_mdl ark:cegs.ark
    """
    later.chain_get_egs_tables.make_end_to_end(normalization, features, graphs, model, output, options, **files)
