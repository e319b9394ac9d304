import click

from nnet3.cli import later
from nnet3.cli.click_types import integer
from nnet3.cli.declared import takes
from nnet3.cli.options import arguments
from nnet3.cli.verb import ALIGNING, verb
from nnet3.options import TrainingGraphOptions


@verb("make training graphs of transcripts", ALIGNING, program="compile-train-graphs")
@takes("options", TrainingGraphOptions)
@click.option(
    "--read-disambig-syms",
    "disambiguation",
    default="",
    metavar="FILE",
    help="Labels of the lexicon that are no phones.",
)
@click.option("--batch-size", type=integer(), hidden=True, expose_value=False)
@arguments(
    tree="TREE", model="MODEL", lexicon="LEXICON-FST", texts="TRANSCRIPTS-RSPECIFIER", output="GRAPHS-WSPECIFIER"
)
def command(
    tree: str, model: str, lexicon: str, texts: str, output: str, options: TrainingGraphOptions, disambiguation: str
) -> int:
    """Make the training graph of each transcript: all sequences of transition-ids that say its words, by a lexicon that
    leads from phones to words.

    \b
    Example:
      nnet3 compile-train-graphs tree final.mdl L.fst ark:text.int ark:graphs.ark
    """
    return later.aligning.compile_graphs(tree, model, lexicon, texts, output, options, disambiguation)
