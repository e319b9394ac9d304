"""`nnet3 init-tree`: a tree without data, for a flat start (Kaldi: what gmm-init-mono and gmm-init-biphone leave)."""

from __future__ import annotations

import click

from nnet3.cli import later
from nnet3.cli.click_types import integer
from nnet3.cli.options import binary_option
from nnet3.cli.verb import GRAPHS, verb


@verb("make a tree of phones or of pairs of phones", GRAPHS)
@binary_option
@click.option("--phones", "sequences", default="", metavar="RSPECIFIER", help="Sequences of phones whose pairs count.")
@click.option(
    "--min-count",
    type=integer(1),
    default=100,
    show_default=True,
    help="Pairs of phones that come as often have pdfs of their own.",
)
@click.argument("topology", metavar="TOPOLOGY")
@click.argument("tree", metavar="TREE")
@click.argument("model", metavar="[TRANSITION-MODEL]", required=False, default="")
def command(topology: str, tree: str, model: str, sequences: str, min_count: int, binary: bool) -> None:
    """Make a tree that gives pdfs to phones as they are, and its transition model. With --phones a phone behind another
    one has pdfs of its own where that is common enough, and shares them with others where it is not.

    \b
    Examples:
      nnet3 init-tree data/lang/topo tree 0.trans_mdl
      nnet3 init-tree --phones=ark:phones.ark --min-count=50 data/lang/topo tree 0.trans_mdl
    """
    later.graph_making.init_tree(topology, tree, model, sequences, min_count, binary)
