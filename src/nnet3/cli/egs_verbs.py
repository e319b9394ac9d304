"""Verbs for all kinds of training examples, in pairs for plain and chain examples; their options."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from nnet3.base.options.declaring import Options
from nnet3.base.options.discriminative import DiscriminativeMergingOptions, DiscriminativeSubsetOptions
from nnet3.base.options.examples import (
    ChainMergingOptions,
    CopyingOptions,
    MergingOptions,
    ShufflingOptions,
    SubsetOptions,
)
from nnet3.base.text.values import at_least
from nnet3.cli import later
from nnet3.cli.declared import takes
from nnet3.cli.options import Decorator, all_of, arguments, ignored, number
from nnet3.cli.verb import Verb, verb

if TYPE_CHECKING:
    from nnet3.training.examples.example import ExampleKind

normalization_scale_option = number(
    "--normalization-fst-scale", rule=at_least(0), default=1.0, help="Scale of the costs of the normalization graph."
)
ivectors_option = click.option(
    "--online-ivectors", "--ivectors", "online_ivectors", metavar="RSPECIFIER", help="Matrices of ivectors."
)
#: The options and arguments of verbs that copy examples with changes.
copying_options = all_of(
    takes("options", CopyingOptions),
    click.option("--weights", metavar="RSPECIFIER", help="A number per key, by which supervision is multiplied."),
    click.option("--outputs", metavar="RSPECIFIER", help="A word per key, the new name of 'output'."),
    arguments(examples="EGS-RSPECIFIER", outputs_to_write="EGS-WSPECIFIER..."),
)


@dataclass(frozen=True)
class EgsKind:
    """A kind of training examples in the words of command lines: `prefix` begins the names of verbs and tables.

    `languages`: makes the argument `languages` of `egs_tables.merge` from options of merging; None: no languages.
    """

    prefix: str
    adjective: str
    table: str
    merging: type[Options]
    subsets: type[SubsetOptions]
    examples: Callable[[], ExampleKind[Any]]
    languages: Callable[[Any], tuple[Callable[..., Any], Callable[..., str]] | None] = lambda options: None

    def verb(
        self, action: str, help: str, options: type[Options], *more: Decorator
    ) -> Callable[[Callable[..., Any]], Verb]:
        """Decorator: a verb for examples of the kind. It gets the two tables and the options."""
        name = f"{self.prefix}{action}-egs"
        words = {"adjective": self.adjective, "table": self.table, "verb": name}
        made = verb(name, help=help.format(**words))
        parameters = all_of(
            takes("options", options),
            *more,
            arguments(examples="EGS-RSPECIFIER", output="EGS-WSPECIFIER"),
        )
        return lambda function: made(parameters(function))


PLAIN = EgsKind("", "training", "egs", MergingOptions, SubsetOptions, lambda: later.examples.EXAMPLES)
CHAIN_KIND = EgsKind(
    *("chain-", "chain", "cegs", ChainMergingOptions, SubsetOptions, lambda: later.chain.CHAIN_EXAMPLES),
    languages=lambda options: (
        (later.changes.named_by_key, later.changes.key_with_language) if options.multilingual_eg else None
    ),
)

LATTICE_KIND = EgsKind(
    *("discriminative-", "discriminative", "degs", DiscriminativeMergingOptions, DiscriminativeSubsetOptions),
    lambda: later.lattice_example.DISCRIMINATIVE_EXAMPLES,
)

_IGNORED = ignored("--measure-output-frames", "--discard-partial-minibatches")
_LANGUAGES_IGNORED = ignored("--multilingual-eg")  # but for chain examples by Kaldi, too


def merge_verb(kind: EgsKind) -> Verb:
    """Returns the verb that merges examples into minibatches (Kaldi: nnet3-merge-egs, nnet3-chain-merge-egs)."""

    without_effect = [_IGNORED, *([] if kind is CHAIN_KIND else [_LANGUAGES_IGNORED])]

    @kind.verb("merge", _MERGE, kind.merging, *without_effect)
    def command(examples: str, output: str, options: MergingOptions) -> None:
        later.egs_tables.merge(kind.examples(), examples, output, options, kind.languages(options))

    return command


def shuffle_verb(kind: EgsKind) -> Verb:
    """Returns the verb that puts examples into random order (Kaldi: nnet3-shuffle-egs, nnet3-chain-shuffle-egs)."""

    @kind.verb("shuffle", _SHUFFLE, ShufflingOptions)
    def command(examples: str, output: str, options: ShufflingOptions) -> None:
        later.egs_tables.shuffle(kind.examples(), examples, output, options)

    return command


def subset_verb(kind: EgsKind) -> Verb:
    """Returns the verb that takes some examples at random (Kaldi: nnet3-subset-egs, nnet3-chain-subset-egs)."""

    @kind.verb("subset", _SUBSET, kind.subsets)
    def command(examples: str, output: str, options: SubsetOptions) -> None:
        later.egs_tables.take_subset(kind.examples(), examples, output, options)

    return command


_MERGE = """Merge {adjective} examples of equal structure into minibatches, in the order in which they come.

A minibatch is written when there are as many examples as the rule allows at most. At the end the largest sizes
that what is left allows are written; the rest is discarded: none with 1:64, some with 64.

nnet3 {verb} --minibatch-size=64,128 ark:{table}.ark ark:merged.ark
"""
_SHUFFLE = """Put {adjective} examples into random order: all of them, or with a buffer of limited memory.

nnet3 {verb} --buffer-size=5000 --srand=1 ark:{table}.ark ark:shuffled.ark
"""
_SUBSET = """Take some {adjective} examples, each with the same probability, for instance for validation.

nnet3 {verb} --n=300 ark:{table}.ark ark:valid.ark
"""
