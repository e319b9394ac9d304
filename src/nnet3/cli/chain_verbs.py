"""Verbs of sequence training: one each for one denominator graph, and for one of each language."""

from __future__ import annotations

from typing import Any

import click

from nnet3.cli import later
from nnet3.cli.declared import takes
from nnet3.cli.options import (
    arguments,
    binary_option,
    caching_options,
    flag,
    ignored_threads_option,
    max_evaluations_option,
    test_mode_options,
)
from nnet3.cli.verb import CHAIN, Verb, verb
from nnet3.options import ChainOptions, DenominatorOptions, TrainerOptions

_OF_LANGUAGES = """

DEN-FST-DIR has LANG.den.fst for each output node output-LANG of the network. What an example calls `output` is for the
language that its key names, such as fr in merged-0-64?lang=fr (chain-merge-egs --multilingual-eg=true writes such
keys), or else for `default`."""


def train_verb(*, by_language: bool = False) -> Verb:
    """The verb that trains a network (Kaldi: nnet3-chain-train, nnet3-chain-train2)."""
    number, graphs = ("2", "DEN-FST-DIR") if by_language else ("", "DEN-FST")

    @verb(
        f"train a network with LF-MMI on chain examples{' of several languages' if by_language else ''}",
        CHAIN,
        program=f"nnet3-chain-train{number}",
        name=f"chain-train{number}",
        help=_TRAIN.format(
            number=number, more=_OF_LANGUAGES if by_language else "", graphs="dens" if number else "den.fst"
        ),
    )
    @takes("options", TrainerOptions)
    @caching_options
    @takes("denominator", DenominatorOptions)
    @takes("objective", ChainOptions)
    @ignored_threads_option
    @flag("--apply-deriv-weights", default=True, show_default=True, help="Scale derivatives of frames.")
    @binary_option
    @arguments(model="RAW-IN", den_fst=graphs, examples="EGS-RSPECIFIER", output="RAW-OUT")
    def command(
        den_fst: str,
        denominator: DenominatorOptions,
        objective: ChainOptions,
        apply_deriv_weights: bool,
        **rest: Any,
    ) -> None:
        files = later.chain_files.ChainFiles(den_fst, denominator, objective, apply_deriv_weights, by_language)
        later.chain_training.train_chain(files, **rest)

    return command


def combine_verb(*, by_language: bool = False) -> Verb:
    """The verb that averages the last networks (Kaldi: nnet3-chain-combine, nnet3-chain-combine2)."""
    number, graphs = ("2", "DEN-FST-DIR") if by_language else ("", "DEN-FST")

    @verb(
        f"the average of the last networks that is best on chain examples{' of languages' if by_language else ''}",
        CHAIN,
        program=f"nnet3-chain-combine{number}",
        name=f"chain-combine{number}",
        help=_COMBINE.format(
            number=number, more=_OF_LANGUAGES if by_language else "", graphs="dens" if number else "den.fst"
        ),
    )
    @binary_option
    @test_mode_options(batchnorm=False)
    @max_evaluations_option
    @takes("denominator", DenominatorOptions)
    @takes("options", ChainOptions)
    @ignored_threads_option
    @arguments(names=f"{graphs} RAW-IN... EGS-RSPECIFIER RAW-OUT")
    def command(
        names: tuple[str, ...], denominator: DenominatorOptions, options: ChainOptions, **settings: Any
    ) -> None:
        if len(names) < 4:
            raise click.UsageError(
                f"give the denominator graph{'s' if by_language else ''}, at least one network, the examples, and the "
                "file to write"
            )
        den_fst, *models, examples, output = names
        files = later.chain_files.ChainFiles(den_fst, denominator, options, by_language=by_language)
        later.chain_training.combine_chain(files, models, examples, output, **settings)

    return command


_TRAIN = """Train a raw network with LF-MMI on merged chain examples, with the learning rates that it has.{more}

\b
Example:
  nnet3 chain-train{number} --leaky-hmm-coefficient=0.1 --xent-regularize=0.1 0.raw {graphs} ark:merged.ark 1.raw
"""
_COMBINE = """Average the first n raw networks, with the n that is best by the LF-MMI objective. Give the last network
first.

With --xent-regularize the cross-entropy of the second output counts as much as the objective itself, as in Kaldi: leave
it out.{more}

\b
Example:
  nnet3 chain-combine{number} --leaky-hmm-coefficient=0.1 {graphs} 9.raw 8.raw 7.raw ark:combine.cegs final.raw
"""
