from typing import Any

import click

from nnet3.cli.compute_options import align_words, chunk_options
from nnet3.cli.declared import takes
from nnet3.cli.options import arguments, number
from nnet3.cli.verb import ALIGNING, verb
from nnet3.options import UtteranceOptions, WordTimesOptions
from nnet3.text.values import bounds


@verb("say when words and phones were said", ALIGNING)
@click.option("--textgrid", default="", metavar="DIR", help="A TextGrid for Praat there, for each utterance.")
@click.option("--ctm", default="", metavar="FILE", help="Lines `KEY 1 BEGIN SECONDS WORD`; - for standard output.")
@click.option("--phone-ctm", default="", metavar="FILE", help="Such lines of phones.")
@click.option("--alignments", default="", metavar="WSPECIFIER", help="The transition-id of each row of scores.")
@click.option("--phones", default="", metavar="FILE", help="The names of phones; by default phones.txt beside MODEL.")
@click.option(
    "--tree", default="", metavar="FILE", help="The model's tree; without, phones may have any pdf of theirs."
)
@click.option("--silence", default="", metavar="PHONE", help="The phone of silence; by default SIL or sil.")
@number(
    "--silence-probability",
    rule=bounds(minimum=0, below=1),
    default=0.5,
    help="Of silence before the first word and behind each one.",
)
@click.option("--unknown", default="", metavar="WORD", help="The word of LEXICON that stands for those it lacks.")
@takes("options", WordTimesOptions)
@chunk_options(UtteranceOptions, "frame_subsampling_factor")
@arguments(model="MODEL", lexicon="LEXICON", features="FEATURES-RSPECIFIER", texts="TEXT-RSPECIFIER")
def command(**given: Any) -> int:
    """Say when each word and each phone was said. LEXICON has a word and its phones a line (`lexicon.txt`; in files
    named lexiconp... a probability comes between), TEXT the words of each utterance.

    Utterances that cannot be aligned are named and left out. Without --textgrid, --phone-ctm and --alignments words are
    written to standard output, as with --ctm=-.

    \b
    Example:
      nnet3 align --textgrid=grids --tree=tree final.mdl lexicon.txt scp:feats.scp ark:text
    """
    return align_words(**given)
