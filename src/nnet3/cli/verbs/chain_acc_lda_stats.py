from nnet3.cli import later
from nnet3.cli.egs_options import rand_prune_option
from nnet3.cli.options import arguments, binary_option
from nnet3.cli.verb import CHAIN, verb


@verb("gather statistics for an LDA-like transform of chain examples", CHAIN, program="nnet3-chain-acc-lda-stats")
@binary_option
@rand_prune_option
@arguments(network="RAW-IN", examples="EGS-RSPECIFIER", output="LDA-STATS-OUT")
def command(network: str, examples: str, output: str, binary: bool, rand_prune: float) -> None:
    """Run a network without parameters over chain examples that are not merged, and write statistics of its outputs by
    pdf: weighted by the paths of the supervision, or by the alignment that end-to-end examples have.

    \b
    Example:
      nnet3 chain-acc-lda-stats --rand-prune=4.0 init.raw ark:cegs.1.ark 1.lda_stats
    """
    device = later.device.given_device()
    later.lda_of_egs.accumulate_chain(device, network, examples, output, rand_prune, binary)
