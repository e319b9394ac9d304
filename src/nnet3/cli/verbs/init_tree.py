import click

from nnet3.cli import later
from nnet3.cli.options import arguments, binary_option, whole_number
from nnet3.cli.verb import GRAPHS, verb


@verb("make a tree of phones or of pairs of phones", GRAPHS)
@binary_option
@click.option("--phones", "sequences", default="", metavar="RSPECIFIER", help="Sequences of phones whose pairs count.")
@whole_number("--min-count", least=1, default=100, help="Pairs of phones that come as often have pdfs of their own.")
@arguments(topology="TOPOLOGY", tree="TREE", model="[TRANSITION-MODEL]")
def command(topology: str, tree: str, model: str, sequences: str, min_count: int, binary: bool) -> None:
    """Make a tree that gives pdfs to phones as they are, and its transition model. With --phones a phone behind another
    one has pdfs of its own where that is common enough, and shares them with others where it is not.

    \b
    Examples:
      nnet3 init-tree data/lang/topo tree 0.trans_mdl
      nnet3 init-tree --phones=ark:phones.ark --min-count=50 data/lang/topo tree 0.trans_mdl
    """
    later.graph_making.init_tree(topology, tree, model, sequences, min_count, binary)
