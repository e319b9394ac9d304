import click

from nnet3.cli import later
from nnet3.cli.declared import takes
from nnet3.cli.options import arguments
from nnet3.cli.verb import TABLES, verb
from nnet3.options import OnlineCmvnOptions


@verb("normalise features by what came before", TABLES, program="apply-cmvn-online")
@takes("options", OnlineCmvnOptions)
@click.option("--spk2utt", default="", metavar="RSPECIFIER", help="The utterances of each speaker, in order.")
@arguments(stats="GLOBAL-CMVN-STATS", features="FEATURES-RSPECIFIER", output="FEATURES-WSPECIFIER")
def command(stats: str, features: str, output: str, spk2utt: str, options: OnlineCmvnOptions) -> int:
    """Normalise each frame by statistics of those up to it, as a recognizer does while somebody speaks. As long as
    these are few, those of the speaker's utterances before count too, and then those of everybody, in a file.

    \b
    Example:
      nnet3 apply-cmvn-online --spk2utt=ark:spk2utt global_cmvn.stats scp:feats.scp ark:normalised.ark
    """
    return later.normalising.normalise_online(stats, features, output, spk2utt, options)
