"""Verbs that make training graphs: of transcripts that are words, or acceptors of words."""

from __future__ import annotations

import click

from nnet3.cli import later
from nnet3.cli.click_types import integer
from nnet3.cli.declared import takes
from nnet3.cli.options import arguments
from nnet3.cli.verb import ALIGNING, Verb, verb
from nnet3.options import TrainingGraphOptions


def training_graphs_verb(*, of_fsts: bool = False) -> Verb:
    """The verb that makes training graphs (Kaldi: compile-train-graphs, compile-train-graphs-fsts)."""
    name = f"compile-train-graphs{'-fsts' if of_fsts else ''}"

    @verb(
        f"make training graphs of {'acceptors of words' if of_fsts else 'transcripts'}",
        ALIGNING,
        program=name,
        name=name,
        help=_OF_FSTS if of_fsts else _OF_WORDS,
    )
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
        tree="TREE",
        model="MODEL",
        lexicon="LEXICON-FST",
        texts=f"{'FSTS' if of_fsts else 'TRANSCRIPTS'}-RSPECIFIER",
        output="GRAPHS-WSPECIFIER",
    )
    def command(
        tree: str, model: str, lexicon: str, texts: str, output: str, options: TrainingGraphOptions, disambiguation: str
    ) -> int:
        files = later.aligning.TrainingGraphFiles(tree, model, lexicon, disambiguation)
        if of_fsts:
            return later.aligning.compile_graphs_of_fsts(files, texts, output, options)
        return later.aligning.compile_graphs(files, texts, output, options)

    return command


_OF_WORDS = """Make the training graph of each transcript: all sequences of transition-ids that say its words, by a
lexicon that leads from phones to words.

\b
Example:
  nnet3 compile-train-graphs tree final.mdl L.fst ark:text.int ark:graphs.ark
"""
_OF_FSTS = """Make the training graph of each acceptor of words: all sequences of transition-ids that say something that
it accepts, as where a transcript may be wrong or lack words.

\b
Example:
  nnet3 compile-train-graphs-fsts tree final.mdl L.fst ark:fsts.ark ark:graphs.ark
"""
