import click

from nnet3.cli import later
from nnet3.cli.options import arguments, flag
from nnet3.cli.verb import GRAPHS, verb


@verb("count word errors", GRAPHS, program="compute-wer")
@flag("--text", help="Tables have words, not labels.")
@click.option(
    "--mode",
    type=click.Choice(["strict", "all", "present"]),
    default="strict",
    show_default=True,
    help="Sentences that were not heard are an error, count as left out, or do not count.",
)
@arguments(said="REFERENCE-RSPECIFIER", heard="HYPOTHESIS-RSPECIFIER")
def command(said: str, heard: str, text: bool, mode: str) -> None:
    """Compare what was heard with what was said: the rates of wrong words and of wrong sentences.

    \b
    Example:
      nnet3 compute-wer --text --mode=present ark:data/test/text ark:heard.txt
    """
    later.scoring.compute_wer(said, heard, text, mode)
