from nnet3.cli import later
from nnet3.cli.egs_options import rand_prune_option
from nnet3.cli.options import arguments, binary_option
from nnet3.cli.verb import EXAMPLES, verb


@verb("gather statistics for an LDA-like transform", EXAMPLES, program="nnet3-acc-lda-stats")
@binary_option
@rand_prune_option
@arguments(network="RAW-IN", examples="EGS-RSPECIFIER", output="LDA-STATS-OUT")
def command(network: str, examples: str, output: str, binary: bool, rand_prune: float) -> None:
    """Run a network without parameters over training examples, and write statistics of its outputs by class: by the
    columns of the supervision, each row weighted by its values.

    \b
    Example:
      nnet3 acc-lda-stats --rand-prune=4.0 init.raw ark:egs.1.ark 1.lda_stats
    """
    device = later.device.given_device()
    later.lda_of_egs.accumulate(device, network, examples, output, rand_prune, binary)
