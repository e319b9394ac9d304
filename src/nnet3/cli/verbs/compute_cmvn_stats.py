import click

from nnet3.cli import later
from nnet3.cli.options import arguments, binary_option
from nnet3.cli.verb import TABLES, verb


@verb("statistics of means and variances of features", TABLES, program="compute-cmvn-stats")
@click.option("--spk2utt", default="", metavar="RSPECIFIER", help="The utterances of each speaker.")
@click.option("--weights", default="", metavar="RSPECIFIER", help="How much each frame counts, a vector an utterance.")
@binary_option
@arguments(features="FEATURES-RSPECIFIER", output="STATS")
def command(features: str, output: str, spk2utt: str, weights: str, binary: bool) -> int:
    """Sum up features for apply-cmvn: of each utterance or speaker, where STATS is a table to write such as
    ark:cmvn.ark, or of all, where it is a file. --binary is about a file.

    \b
    Example:
      nnet3 compute-cmvn-stats --spk2utt=ark:spk2utt scp:feats.scp ark,scp:cmvn.ark,cmvn.scp
    """
    return later.normalising.write_stats(features, output, spk2utt, weights, binary)
