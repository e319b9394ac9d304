import click

from nnet3.cli import later
from nnet3.cli.options import arguments
from nnet3.cli.verb import SEEING, verb


@verb("describe a decision tree", SEEING, program="tree-info")
@arguments(tree="TREE")
def command(tree: str) -> None:
    """Print the number of pdfs of a tree, and the window of phones that it looks at.

    \b
    Example:
      nnet3 tree-info tree
    """
    for line in later.table_inquiry.tree_lines(tree):
        click.echo(line)
