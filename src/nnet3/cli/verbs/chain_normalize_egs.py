from nnet3.cli import later
from nnet3.cli.egs_options import normalization_scale_option
from nnet3.cli.options import arguments
from nnet3.cli.verb import CHAIN, verb


@verb("weight chain examples by a normalization graph", CHAIN, program="nnet3-chain-normalize-egs")
@normalization_scale_option
@arguments(normalization="NORMALIZATION-FST", examples="EGS-RSPECIFIER", output="EGS-WSPECIFIER")
def command(normalization: str, examples: str, output: str, normalization_fst_scale: float) -> None:
    """Weight the supervision of examples by a normalization graph, so that what is right is a part of all that may be.

    \b
    Example:
      nnet3 chain-normalize-egs normalization.fst ark:raw.cegs ark:normalized.cegs
    """
    later.chain_get_egs_tables.normalize(normalization, examples, output, normalization_fst_scale)
