from nnet3.cli import later
from nnet3.cli.options import arguments, binary_option
from nnet3.cli.verb import EXAMPLES, verb


@verb("sum statistics for an LDA-like transform", EXAMPLES, program="sum-lda-accs")
@binary_option
@arguments(output="LDA-STATS-OUT", inputs="LDA-STATS-IN...")
def command(output: str, inputs: tuple[str, ...], binary: bool) -> None:
    """Sum statistics that acc-lda-stats has written.

    \b
    Example:
      nnet3 sum-lda-accs lda_stats 1.lda_stats 2.lda_stats
    """
    later.lda_of_egs.add_files(inputs, output, binary)
