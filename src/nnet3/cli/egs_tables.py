"""Merges, shuffles and copies tables of training examples of any kind."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from typing import TypeVar

from nnet3.base.kaldi_io.specifiers import check_different
from nnet3.base.kaldi_io.table_values import random_access_reals, random_access_tokens
from nnet3.base.kaldi_io.tables import RandomAccessTable
from nnet3.base.options.examples import CopyingOptions, MergingOptions, ShufflingOptions, SubsetOptions
from nnet3.base.options.images import ImageOptions
from nnet3.cli.messages import say
from nnet3.errors import Nnet3Error
from nnet3.training.examples.c_random import CRandom
from nnet3.training.examples.example import EXAMPLES, ExampleKind, ExampleReader, example_writer
from nnet3.training.examples.images import augmented
from nnet3.training.examples.making import generator
from nnet3.training.examples.merging import MergingStatistics, MinibatchSizes, merge_examples
from nnet3.training.examples.order import copies, shuffled, subset

E = TypeVar("E")
T = TypeVar("T")


def merge(
    kind: ExampleKind[E],
    examples: str,
    output: str,
    options: MergingOptions,
    languages: tuple[Callable[[str, E], E], Callable[[str, E], str]] | None = None,
) -> None:
    """Merges examples into minibatches, and reports the result.

    `languages`: a function that renames an example's output by the language in its key, before merging, and a function
    that puts the language of a minibatch's output into its key, after merging.
    """
    sizes = MinibatchSizes.parse(options.minibatch_size)
    statistics = MergingStatistics()
    with ExampleReader(examples, kind) as entries:
        given: Iterable[tuple[str, E]] = entries
        if languages is not None:
            given = ((key, languages[0](key, example)) for key, example in entries)
        merged = merge_examples(given, kind, sizes, options.compress, statistics)
        if languages is not None:
            merged = ((languages[1](key, example), example) for key, example in merged)
        write(kind, output, merged, statistics)
        say(f"{statistics}{_damaged(entries.num_damaged)}")


def shuffle(kind: ExampleKind[E], examples: str, output: str, options: ShufflingOptions) -> None:
    """Puts examples into random order."""
    with ExampleReader(examples, kind) as entries:
        count = write(kind, output, shuffled(entries, generator(options.seed), options.buffer_size))
        held = f"{options.buffer_size} of them" if options.buffer_size else "all"
        say(f"{count} examples shuffled, {held} held at a time{_damaged(entries.num_damaged)}")


def take_subset(kind: ExampleKind[E], examples: str, output: str, options: SubsetOptions) -> None:
    """Takes some of the examples at random."""
    seen = MergingStatistics()

    def counted(entries: Iterable[tuple[str, E]]) -> Iterator[tuple[str, E]]:
        for entry in entries:
            seen.num_examples += 1
            yield entry

    with ExampleReader(examples, kind) as entries:
        chosen = subset(counted(entries), options.count, generator(options.seed), options.randomize_order)
        with example_writer(output, kind) as writer:
            for key, example in chosen:
                writer.write(key, example)
            _check_some(seen.num_examples, output)
        say(f"{len(chosen)} examples taken{_damaged(entries.num_damaged)}")


def copy(
    kind: ExampleKind[E],
    examples: str,
    outputs_to_write: Sequence[str],
    change: Callable[[E], E | None],
    options: CopyingOptions,
    weights: str | None,
    outputs: str | None,
) -> None:
    """Copies examples in turn or at random; `change` may return other examples, or None to leave one out.

    Before the change the supervision of `output` is multiplied by a table of weights, after the change renamed by a
    table of words.
    """
    weight_of = random_access_reals(weights) if weights else None
    name_of = random_access_tokens(outputs) if outputs else None

    def changed(key: str, example: E) -> E | None:
        weight = None if weight_of is None else _looked_up(weight_of, key)
        name = None if name_of is None else _looked_up(name_of, key)
        if (weight_of is not None and weight is None) or (name_of is not None and name is None):
            return None
        found = change(example if weight is None else kind.weighted(example, weight))
        return found if found is None or name is None else kind.renamed(found, name)

    with ExampleReader(examples, kind) as entries:
        rng = generator(options.seed)
        copied = copies(entries, changed, len(outputs_to_write), rng, options.keep_proportion, options.random)
        count = write_to_several(kind, outputs_to_write, copied, examples)
        say(f"{count} examples written{_damaged(entries.num_damaged)}")


def augment_images(examples: str, output: str, options: ImageOptions, seed: int) -> None:
    """Writes examples with their images changed at random."""
    random = CRandom(seed)
    with ExampleReader(examples, EXAMPLES) as entries:
        count = write(EXAMPLES, output, ((key, augmented(example, options, random)) for key, example in entries))
        say(f"{count} examples written{_damaged(entries.num_damaged)}")


def write_to_several(
    kind: ExampleKind[E], outputs: Sequence[str], examples: Iterable[tuple[int, str, E]], source: str, hint: object = ""
) -> int:
    """Writes examples to the numbered outputs; returns the number of examples. Nnet3Error without examples."""
    check_different(*outputs)
    with ExitStack() as stack:
        writers = [stack.enter_context(example_writer(output, kind)) for output in outputs]
        for number, key, example in examples:
            writers[number].write(key, example)
        count = sum(writer.count for writer in writers)
        _check_some(count, source, hint)
    return count


def write(kind: ExampleKind[E], output: str, examples: Iterable[tuple[str, E]], hint: object = "") -> int:
    """Writes examples with their keys; returns the number of examples. Nnet3Error, with `hint`, without examples."""
    with example_writer(output, kind) as writer:
        for key, example in examples:
            writer.write(key, example)
        _check_some(writer.count, output, hint)
    return writer.count


def _looked_up(table: RandomAccessTable[T], key: str) -> T | None:
    """Returns the entry of an example; None, and a warning, if there is none."""
    value = table.get(key)
    if value is None:
        say(f"warning: {key} is left out: {table.specifier.text} has no such key")
    return value


def _check_some(count: int, name: str, hint: object = "") -> None:
    if count == 0:
        raise Nnet3Error(f"{name}: no examples were written{f': {hint}' if hint else ''}")


def _damaged(count: int) -> str:
    return f"; {count} damaged records were left out" if count else ""
