"""Makes minibatches out of archives of examples, epoch by epoch: shuffled, merged, ahead of time, resumable
anywhere."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np

from nnet3.base.kaldi_io.background import Background
from nnet3.errors import ArgumentError, Nnet3Error, TrainingError
from nnet3.training.examples.example import ExampleKind, ExampleReader, OnDamage
from nnet3.training.examples.merging import ExampleGroup, Grouper, MergingStatistics, MinibatchSizes, group_examples
from nnet3.training.examples.order import shuffled
from nnet3.training.examples.stored import Groupings, StoredExample, StoredReader, StoredTable, kind_of_stored

E = TypeVar("E")
M = TypeVar("M")


class NoMinibatchesError(TrainingError):
    """The archives have no examples, or too few for a minibatch of every process."""


@dataclass(frozen=True)
class Position:
    """The progress of training: complete epochs, and minibatches of the next epoch."""

    epoch: int = 0
    minibatch: int = 0


@dataclass(frozen=True)
class SourceOptions:
    """`minibatch_size`: a rule such as 64 or 1:64; None if the examples are minibatches already. `shuffle_buffer`: the
    number of examples held for shuffling (0: all; None: the order of the archives is kept).

    `num_ranks` processes that train together divide minibatches `num_ranks` times as large into parts of equal
    structure. Minibatches made already go to the processes in turn, and all processes take equally many.

    `num_halved`: the number of minibatches, from the beginning of epoch 0, of half the size.
    """

    minibatch_size: str | None = None
    shuffle_buffer: int | None = None
    seed: int = 0
    on_damage: OnDamage = "error"
    ahead: int = 4
    rank: int = 0
    num_ranks: int = 1
    num_halved: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.rank < self.num_ranks:
            raise ArgumentError(f"rank {self.rank} is none of {self.num_ranks}")
        if self.minibatch_size is not None:
            MinibatchSizes.parse(self.minibatch_size)
        elif self.num_halved:
            raise ArgumentError("minibatches that are made already cannot be halved")


@dataclass(frozen=True)
class Prepared(Generic[M]):
    """A minibatch, the minibatch's key, the keys of its examples, and the position of training afterwards.

    `examples_done`: the epoch's examples then seen by all processes together; a minibatch made already counts 1.
    """

    minibatch: M
    key: str
    example_keys: tuple[str, ...]
    position: Position
    examples_done: int


class MinibatchSource(Generic[E, M]):
    """The minibatches of any epoch, determined by the seed, the epoch's number and the archives alone.

    So training goes on anywhere: `epoch(position)` gives the minibatches of an uninterrupted run.
    """

    def __init__(
        self,
        rspecifiers: Sequence[str],
        kind: ExampleKind[E],
        prepare: Callable[[E, str], M],
        options: SourceOptions | None = None,
        change: Callable[[E, int], E] | None = None,
        of_table: Callable[[E, int], E] | None = None,
        mixed: Sequence[int] | None = None,
        stored: Sequence[StoredTable | None] = (),
    ):
        """`prepare` makes a minibatch of a merged example and its key. `change` turns an example into the form of an
        epoch (the second argument), for instance shifted in time; `of_table` into the form in a table, by the
        table's number. All three run in the background thread.

        `mixed` has the number of examples of each table: the tables are then mixed, instead of coming table by table.

        `stored`: the `stored` of another source of these tables, with the same `of_table`, that has read all of them.
        If all are archives in files, only examples used are read from now on. `change` must keep structures apart.
        """
        if not rspecifiers:
            raise ArgumentError("there are no archives of examples")
        self.options = options or SourceOptions()
        self.num_damaged = 0  # records left out, in all epochs so far
        self.statistics = MergingStatistics()  # of the epoch that was begun last
        self._rspecifiers, self._kind, self._prepare, self._change = rspecifiers, kind, prepare, change
        self._of_table, self._mixed = of_table, mixed
        self.table_sizes = [0] * len(rspecifiers)  # examples of each table, of those that were read to their end
        self.checksums = [0] * len(rspecifiers)  # of keys and examples of each table in their order, of those too
        self.stored: list[StoredTable | None] = [None] * len(rspecifiers)  # likewise, of archives in files
        self._groupings = Groupings(None if self.options.minibatch_size is None else kind)
        self._known = [table for table in stored if table is not None]
        if len(self._known) < len(rspecifiers):
            self._known = []

    def epoch(self, position: Position) -> Background[Prepared[M]]:
        """Returns the minibatches of an epoch from `position` on, made ahead in a thread: use it in a `with` block."""
        return Background(self.prepared(position), self.options.ahead)

    def prepared(self, position: Position) -> Iterator[Prepared[M]]:
        """Yields the minibatches of `epoch`, without a thread. Raises NoMinibatchesError."""
        number = examples = 0
        with closing(StoredReader(self._known, self._kind.read)) as reader:
            for number, (part, size) in enumerate(self._groups_of_rank(position.epoch), 1):
                examples += size
                if number > position.minibatch:
                    group = self._read(part, reader, position.epoch) if self._known else part
                    yield Prepared(self._made(group), group.key, group.keys, Position(position.epoch, number), examples)
        if number == 0:
            raise self._no_minibatches()

    def _read(self, group: ExampleGroup[E], reader: StoredReader, epoch: int) -> ExampleGroup[E]:
        """Returns the group with the examples that are stored."""
        keys, examples = [], []
        for place in group.examples:
            assert isinstance(place, StoredExample)
            key, example = reader.read(place)
            keys.append(key)
            examples.append(self._changed(self._of(example, place.table), epoch))
        key = group.key or keys[0]  # one that is a minibatch already has its own key
        return ExampleGroup(key, tuple(keys), tuple(examples))

    def count(self) -> tuple[int, int]:
        """Returns the numbers of minibatches of each process and of examples of all processes, in epoch 0.

        Makes no minibatch. Raises NoMinibatchesError.
        """
        sizes = [size for _, size in self._groups_of_rank(0)]
        if not sizes:
            raise self._no_minibatches()
        return len(sizes), sum(sizes)

    def _no_minibatches(self) -> NoMinibatchesError:
        options = self.options
        processes = f" for each of {options.num_ranks} processes" if options.num_ranks > 1 else ""
        summary = (
            f"there are no minibatches in {' '.join(self._rspecifiers)}: {self.statistics.num_examples} examples, "
            f"{self.num_damaged} damaged, minibatch size {options.minibatch_size or 'as it is'}{processes}"
        )
        return NoMinibatchesError("\n".join([summary, *self.statistics.discarded_in_words()]))

    def _made(self, group: ExampleGroup[E]) -> M:
        """Returns the minibatch of a group. Errors name the group's examples."""
        try:
            merged = group.examples[0] if self.options.minibatch_size is None else group.merge(self._kind)
            return self._prepare(merged, group.key)
        except Nnet3Error as error:
            raise TrainingError(f"{' '.join(self._rspecifiers)}: {group}: {error}") from error

    def _groups_of_rank(self, epoch: int) -> Iterator[tuple[ExampleGroup[E], int]]:
        """Yields this process's share of each step, and the number of examples of all parts."""
        rank, count = self.options.rank, self.options.num_ranks
        if self.options.minibatch_size is not None:
            for group in self._groups(epoch):
                yield group.part(rank, count), len(group.keys)
            return
        round_: list[ExampleGroup[E]] = []
        for group in self._groups(epoch):
            round_.append(group)
            if len(round_) == count:
                yield round_[rank], count
                round_.clear()

    def _groups(self, epoch: int) -> Iterator[ExampleGroup[E]]:
        rng = np.random.default_rng([self.options.seed % 2**64, epoch])
        self.statistics = MergingStatistics()
        entries = self._examples(epoch, rng)
        if self.options.shuffle_buffer is not None:
            entries = shuffled(entries, rng, self.options.shuffle_buffer)
        if self.options.minibatch_size is None:
            for key, example in entries:
                self.statistics.num_examples += 1
                yield ExampleGroup(key, (key,), (example,))
            return
        rules = MinibatchSizes.parse(self.options.minibatch_size)
        sizes, num_halved = rules.times(self.options.num_ranks), self.options.num_halved if epoch == 0 else 0
        first = rules.halved().times(self.options.num_ranks) if num_halved else sizes
        kind = kind_of_stored(self._kind) if self._known else self._kind
        grouper = Grouper(kind, first, self.statistics)
        for number, group in enumerate(group_examples(entries, grouper), 1):
            if number == num_halved:
                grouper.sizes = sizes
            yield group

    def _examples(self, epoch: int, rng: np.random.Generator) -> Iterator[tuple[str, E]]:
        """Yields the examples of all archives; these come in random order if examples are shuffled."""
        order = np.arange(len(self._rspecifiers))
        if self._mixed is not None:
            yield from self._mixed_examples(epoch, rng.permutation(np.repeat(order, self._mixed)))
            return
        if self.options.shuffle_buffer is not None:
            order = rng.permutation(order)
        for number in order.tolist():
            yield from self._examples_of(number, epoch)

    def _mixed_examples(self, epoch: int, tables: np.ndarray) -> Iterator[tuple[str, E]]:
        """Yields the next example of a table for each number in `tables`."""
        with ExitStack() as stack:
            opened = [
                stack.enter_context(closing(self._examples_of(number, epoch)))
                for number in range(len(self._rspecifiers))
            ]
            for number in tables.tolist():
                entry = next(opened[number], None)
                if entry is not None:
                    yield entry

    def _examples_of(self, number: int, epoch: int) -> Generator[tuple[str, E]]:
        """Yields the examples of a table as changed for an epoch; those of known places without keys, not read yet."""
        if self._known:
            yield from (("", place) for place in self._known[number].examples(number))  # type: ignore[misc]
            return
        counted = checksum = 0
        stored: StoredTable | None = StoredTable(self._groupings)
        with closing(ExampleReader(self._rspecifiers[number], self._kind, self.options.on_damage)) as reader:
            known = 0
            for key, example in reader:
                self.num_damaged += reader.num_damaged - known
                known = reader.num_damaged
                counted += 1
                checksum = zlib.crc32(f"{key} {reader.checksum} ".encode(errors="surrogateescape"), checksum)
                named = self._of(example, number)
                if stored is not None and reader.extent is not None:
                    stored.add(reader.extent, named)
                else:
                    stored = None
                yield key, self._changed(named, epoch)
            self.num_damaged += reader.num_damaged - known
        self.table_sizes[number], self.checksums[number], self.stored[number] = counted, checksum, stored

    def _of(self, example: E, number: int) -> E:
        return example if self._of_table is None else self._of_table(example, number)

    def _changed(self, example: E, epoch: int) -> E:
        return example if self._change is None else self._change(example, epoch)
