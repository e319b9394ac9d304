import click

from nnet3.cli import later
from nnet3.cli.click_types import integer
from nnet3.cli.options import arguments
from nnet3.cli.verb import GRAPHS, verb


@verb("make an FST of a language model in the ARPA format", GRAPHS, program="arpa2fst")
@click.option("--disambig-symbol", "back_off", default="", metavar="SYMBOL", help="Of arcs that back off, such as #0.")
@click.option("--read-symbol-table", "read_table", default="", metavar="FILE", help="Words and their labels.")
@click.option("--write-symbol-table", "write_table", default="", metavar="FILE", help="Write words and their labels.")
@click.option("--max-arpa-warnings", type=integer(), hidden=True, expose_value=False)
@arguments(model="ARPA-FILE", output="FST")
def command(model: str, output: str, back_off: str, read_table: str, write_table: str) -> None:
    """Make an FST of words, whose states are histories. N-grams with words that the symbol table does not have are left
    out; without a table labels are in the order of the file.

    \b
    Example:
      nnet3 arpa2fst --disambig-symbol=#0 --read-symbol-table=lang/words.txt lm.arpa lang/G.fst
    """
    later.graph_making.arpa_to_fst(model, output, back_off, read_table, write_table)
