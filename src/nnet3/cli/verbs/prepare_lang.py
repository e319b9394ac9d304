import click

from nnet3.cli import later
from nnet3.cli.declared import takes
from nnet3.cli.options import arguments
from nnet3.cli.verb import GRAPHS, verb
from nnet3.options import LangOptions


@verb("make a folder `lang` of a dictionary", GRAPHS)
@takes("options", LangOptions)
@arguments(names="DICT-FOLDER OOV-WORD [TEMPORARY-FOLDER] LANG-FOLDER")
def command(names: tuple[str, ...], options: LangOptions) -> None:
    """Make L.fst, L_disambig.fst, words.txt, phones.txt, the topology of chain models and lists of phones.

    The dictionary has lexicon.txt (or lexiconp.txt), silence_phones.txt, nonsilence_phones.txt and
    optional_silence.txt. Unknown words become OOV-WORD, which the lexicon must have. The third of four names is for the
    scripts of Kaldi, which put temporary files there.

    \b
    Example:
      nnet3 prepare-lang --position-dependent-phones=false data/local/dict "<UNK>" data/lang
    """
    if len(names) not in (3, 4):
        raise click.UsageError("give the folder of a dictionary, the word for unknown ones, and the folder to write")
    later.graph_making.prepare_lang(names[0], names[1], names[-1], options)
