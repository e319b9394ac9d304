"""Verbs of alignments."""

from __future__ import annotations

from typing import Any

import click

from nnet3.base.options.alignment import AlignmentOptions, TrainingGraphOptions, TransitionOptions, WordTimesOptions
from nnet3.base.options.utterances import UtteranceOptions
from nnet3.base.text.values import bounds
from nnet3.cli import later
from nnet3.cli.compute_options import align_utterances, align_words, chunk_options
from nnet3.cli.declared import one, takes
from nnet3.cli.options import arguments, binary_option, flag, ignored, integer, number, prior_floor_option, text_option
from nnet3.cli.verb import Verb, verb


def _training_graphs_verb(*, of_fsts: bool = False) -> Verb:
    """The verb that makes training graphs (Kaldi: compile-train-graphs, compile-train-graphs-fsts)."""
    name = f"compile-train-graphs{'-fsts' if of_fsts else ''}"

    @verb(name, help=_OF_FSTS if of_fsts else _OF_WORDS)
    @takes("options", TrainingGraphOptions)
    @text_option(
        "--read-disambig-syms", "disambiguation", metavar="FILE", help="Labels of the lexicon that are no phones."
    )
    @ignored("--batch-size", kind=integer())
    @arguments(
        tree="TREE",
        model="MODEL",
        lexicon="LEXICON-FST",
        said=f"{'FSTS' if of_fsts else 'TRANSCRIPTS'}-RSPECIFIER",
        output="GRAPHS-WSPECIFIER",
    )
    def command(**given: Any) -> int:
        return later.aligning.compile_graphs(**given, of_fsts=of_fsts)

    return command


_OF_WORDS = """Make the training graph of each transcript: all sequences of transition-ids that say its words, by a
lexicon that leads from phones to words.

nnet3 compile-train-graphs tree final.mdl L.fst ark:text.int ark:graphs.ark
"""
_OF_FSTS = """Make the training graph of each acceptor of words: all sequences of transition-ids that say something that
it accepts, as where a transcript may be wrong or lack words.

nnet3 compile-train-graphs-fsts tree final.mdl L.fst ark:fsts.ark ark:graphs.ark
"""


@verb()
@arguments(model="MODEL", alignments="ALIGNMENTS-RSPECIFIER", output="PDFS-WSPECIFIER")
def ali_to_pdf(model: str, alignments: str, output: str) -> None:
    """Write the pdf of each frame of alignments.

    nnet3 ali-to-pdf final.mdl ark:ali.ark ark,t:pdf.txt
    """
    later.alignment_tables.to_pdfs(model, alignments, output)


@verb()
@flag("--per-frame", help="A phone for each frame.")
@flag("--write-lengths", "lengths", help="Phones with numbers of frames.")
@flag("--ctm-output", "ctm", help="A file of phones with times in seconds.")
@one(WordTimesOptions, "frame_shift", help="Seconds between frames, for --ctm-output.")
@arguments(model="MODEL", alignments="ALIGNMENTS-RSPECIFIER", output="PHONES-WSPECIFIER")
def ali_to_phones(
    model: str, alignments: str, output: str, per_frame: bool, lengths: bool, ctm: bool, frame_shift: float
) -> None:
    """Write the phones of alignments: a table, or with --ctm-output a file.

    nnet3 ali-to-phones --write-lengths=true final.mdl ark:ali.ark ark,t:-
    nnet3 ali-to-phones --ctm-output=true --frame-shift=0.03 final.mdl ark:ali.ark phones.ctm
    """
    if sum((per_frame, lengths, ctm)) > 1:
        raise click.UsageError("give one of --per-frame, --write-lengths and --ctm-output")
    if ctm:
        later.alignment_tables.to_ctm(model, alignments, output, frame_shift)
    else:
        later.alignment_tables.to_phones(model, alignments, output, per_frame, lengths)


@verb()
@arguments(alignments="ALIGNMENTS-RSPECIFIER", output="POSTERIORS-WSPECIFIER")
def ali_to_post(alignments: str, output: str) -> None:
    """Write alignments as posteriors: the number of each frame has weight 1.

    nnet3 ali-to-post ark:ali.ark ark:post.ark
    """
    later.alignment_tables.to_posteriors(alignments, output)


@verb()
@text_option("--textgrid", metavar="DIR", help="A TextGrid for Praat there, for each utterance.")
@text_option("--ctm", metavar="FILE", help="Lines `KEY 1 BEGIN SECONDS WORD`; - for standard output.")
@text_option("--phone-ctm", metavar="FILE", help="Such lines of phones.")
@text_option("--alignments", metavar="WSPECIFIER", help="The transition-id of each row of scores.")
@text_option("--phones", metavar="FILE", help="The names of phones; by default phones.txt beside MODEL.")
@text_option("--tree", metavar="FILE", help="The model's tree; without, phones may have any pdf of theirs.")
@text_option("--silence", metavar="PHONE", help="The phone of silence; by default SIL or sil.")
@number(
    "--silence-probability",
    rule=bounds(minimum=0, below=1),
    default=0.5,
    help="Probability of silence before the first word and behind each one.",
)
@text_option("--unknown", metavar="WORD", help="The word of LEXICON that stands for those it lacks.")
@takes("options", WordTimesOptions)
@chunk_options(UtteranceOptions, "frame_subsampling_factor")
@arguments(model="MODEL", lexicon="LEXICON", features="FEATURES-RSPECIFIER", texts="TEXT-RSPECIFIER")
def align(**given: Any) -> int:
    """Say when each word and each phone was said. LEXICON has a word and its phones a line (`lexicon.txt`; in files
    named lexiconp... a probability comes between), TEXT the words of each utterance.

    Utterances that cannot be aligned are named and left out. Without --textgrid, --phone-ctm and --alignments words are
    written to standard output, as with --ctm=-.

    nnet3 align --textgrid=grids --tree=tree final.mdl lexicon.txt scp:feats.scp ark:text
    """
    return align_words(**given)


@verb()
@takes("options", AlignmentOptions)
@chunk_options(UtteranceOptions)
@text_option(
    "--write-per-frame-acoustic-loglikes",
    "loglikes",
    metavar="WSPECIFIER",
    help="Vectors of the log-likelihoods of frames, not scaled.",
)
@arguments(
    model="MODEL",
    graphs="GRAPHS-RSPECIFIER",
    features="FEATURES-RSPECIFIER",
    alignments="ALIGNMENTS-WSPECIFIER",
    scores="[SCORES-WSPECIFIER]",
)
def align_compiled(**given: Any) -> int:
    """Align utterances: find the most likely path of each one's training graph, and write its transition-ids.

    Priors are subtracted if the model has some.

    nnet3 align-compiled --self-loop-scale=0.1 --beam=10 --retry-beam=40 final.mdl ark:graphs.ark \\
      scp:feats.scp ark:ali.ark
    """
    return align_utterances(**given)


@verb()
@binary_option
@takes("options", TransitionOptions)
@flag("--set-priors", default=True, show_default=True, help="Set the priors of pdfs too.")
@prior_floor_option(default=5e-6)
@arguments(model="MODEL-IN", alignments="ALIGNMENTS-RSPECIFIER", output="MODEL-OUT")
def am_train_transitions(set_priors: bool, prior_floor: float, **given: Any) -> None:
    """Set the transition probabilities of an acoustic model to those of alignments, and its priors to shares of pdfs.

    nnet3 am-train-transitions 0.mdl ark:ali.ark 1.mdl
    """
    later.alignment_tables.train_transitions(**given, prior_floor=prior_floor if set_priors else None)


compile_train_graphs = _training_graphs_verb()
compile_train_graphs_fsts = _training_graphs_verb(of_fsts=True)


@verb()
@binary_option
@flag("--per-pdf", help="By pdf; without the last transition-id, as in Kaldi.")
@arguments(model="MODEL", posteriors="POSTERIORS-RSPECIFIER", output="VECTOR-OUT")
def post_to_tacc(model: str, posteriors: str, output: str, binary: bool, per_pdf: bool) -> None:
    """Write the summed weights of posteriors of transition-ids.

    nnet3 post-to-tacc --per-pdf=true final.mdl ark:post.ark pdf_counts.vec
    """
    later.alignment_tables.count_posteriors(model, posteriors, output, binary, per_pdf)


@verb()
@arguments(symbols="PHONES.TXT", model="MODEL", alignments="ALIGNMENTS-RSPECIFIER")
def show_alignments(symbols: str, model: str, alignments: str) -> None:
    """Print alignments: the transition-ids of each phone in brackets, and the names of the phones below.

    nnet3 show-alignments phones.txt final.mdl ark:ali.ark
    """
    for line in later.alignment_tables.shown(symbols, model, alignments):
        click.echo(line)


@verb()
@arguments(symbols="PHONES.TXT", model="MODEL", counts="[COUNTS]")
def show_transitions(symbols: str, model: str, counts: str) -> None:
    """Print the transition-states of a model, with their transition-ids, probabilities and ends, and the count of each
    one's pdf, if a vector of counts is given.

    nnet3 show-transitions phones.txt final.mdl
    """
    for line in later.alignment_tables.shown_transitions(symbols, model, counts):
        click.echo(line)


@verb()
@arguments(model="MODEL")
def transition_info(model: str) -> None:
    """Print how many phones, pdfs, transition-ids and transition-states a model has.

    nnet3 transition-info final.mdl
    """
    for line in later.alignment_tables.facts_of_transitions(model):
        click.echo(line)
