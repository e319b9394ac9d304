"""Groups examples of equal structure into minibatches, whose sizes rules decide: `64,128`, `1:64`,
`128=64/256=40,30`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from nnet3.errors import ArgumentError, Nnet3Error, TrainingError
from nnet3.training.examples.example import ExampleKind
from nnet3.training.examples.queues import Queues

_EXPECTED = (
    "a rule of minibatch sizes is a list of sizes and ranges such as 64,128 or 1:64, or several by the size of the "
    "example, such as 128=64/256=40,30"
)
E = TypeVar("E")
_MOST_SHOWN = 10


@dataclass(frozen=True)
class MinibatchSizes:
    """Ranges of minibatch sizes, both ends included, for sizes of examples (their largest number of rows).

    A single rule is for all sizes. Of several the one with the nearest size is taken, the first of two equally near.
    """

    rules: tuple[tuple[int, tuple[tuple[int, int], ...]], ...]

    @classmethod
    def parse(cls, text: str) -> MinibatchSizes:
        """Reads the rules in `text`. Raises ArgumentError for a text without rules."""
        parts = text.split("/")
        rules = []
        for part in parts:
            size, equals, ranges = part.rpartition("=")
            if len(parts) > 1 and not equals:
                raise ArgumentError(f"'{text}': with several rules each needs a size of example; {_EXPECTED}")
            rules.append((_number(size, text) if equals else 0, _parse_ranges(ranges, text)))
        if len({size for size, _ in rules}) < len(rules):
            raise ArgumentError(f"'{text}': the sizes of examples must be different; {_EXPECTED}")
        return cls(tuple(rules))

    def times(self, count: int) -> MinibatchSizes:
        """Returns the rules for `count` minibatches of these sizes together."""
        return self._changed(lambda number: number * count)

    def halved(self) -> MinibatchSizes:
        """Returns the rules with all sizes divided by 2, rounded down, but at least 1 (Kaldi: on iteration 0)."""
        return self._changed(lambda number: max(number // 2, 1))

    def _changed(self, change: Callable[[int], int]) -> MinibatchSizes:
        return MinibatchSizes(
            tuple((size, tuple((change(first), change(last)) for first, last in rule)) for size, rule in self.rules)
        )

    def largest(self, size_of_example: int) -> int:
        """Returns the largest minibatch of examples of this size."""
        return max(last for _, last in self._ranges(size_of_example))

    def largest_within(self, size_of_example: int, available: int) -> int:
        """Returns the size of the largest minibatch of at most `available` examples; 0 if no size is allowed."""
        sizes = [min(last, available) for first, last in self._ranges(size_of_example) if first <= available]
        return max(sizes, default=0)

    def _ranges(self, size_of_example: int) -> tuple[tuple[int, int], ...]:
        return min(self.rules, key=lambda rule: abs(rule[0] - size_of_example))[1]


def _parse_ranges(text: str, whole: str) -> tuple[tuple[int, int], ...]:
    ranges = []
    for item in text.split(","):
        first, colon, last = item.partition(":")
        bounds = _number(first, whole), _number(last if colon else first, whole)
        if bounds[0] > bounds[1]:
            raise ArgumentError(f"'{whole}': the range {item} is empty; {_EXPECTED}")
        ranges.append(bounds)
    return tuple(ranges)


def _number(text: str, whole: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 10 and int(text) > 0):
        raise ArgumentError(f"'{whole}': expected a number > 0, got '{text}'; {_EXPECTED}")
    return int(text)


@dataclass
class MergingStatistics:
    """Counts of examples, minibatches, and discarded examples."""

    num_examples: int = 0
    discarded: Counter[str] = field(default_factory=Counter)  # examples of structures that did not fill a minibatch
    minibatches: Counter[tuple[int, int]] = field(default_factory=Counter)  # of (size of example, examples)

    @property
    def num_minibatches(self) -> int:
        return self.minibatches.total()

    @property
    def num_discarded(self) -> int:
        return self.discarded.total()

    def discarded_in_words(self) -> list[str]:
        """Returns the structures with most discarded examples, one a line."""
        lines = [
            f"  {count} examples of {structure} did not fill a minibatch"
            for structure, count in self.discarded.most_common(_MOST_SHOWN)
        ]
        more = len(self.discarded) - len(lines)
        return [*lines, f"  and of {more} more structures"] if more > 0 else lines

    def __str__(self) -> str:
        lines = [
            f"{self.num_examples} examples made {self.num_minibatches} minibatches, {self.num_discarded} were discarded"
        ]
        lines += [
            f"  {count} minibatches of {examples} examples of {size} rows"
            for (size, examples), count in sorted(self.minibatches.items())
        ]
        return "\n".join(lines + self.discarded_in_words())


def short(keys: Sequence[str]) -> str:
    """Returns the first keys of examples, and the number of further keys."""
    return " ".join(keys[:3]) + (f" and {len(keys) - 3} more" if len(keys) > 3 else "")


@dataclass(frozen=True)
class ExampleGroup(Generic[E]):
    """Examples for one minibatch, with keys of the examples and the key of the minibatch."""

    key: str
    keys: tuple[str, ...]
    examples: tuple[E, ...]

    def __str__(self) -> str:
        return f"a minibatch of {short(self.keys)}"

    def part(self, number: int, count: int) -> ExampleGroup[E]:
        """Returns number `number` of `count` parts, which differ in size by one at most."""
        first, last = (len(self.keys) * each // count for each in (number, number + 1))
        return ExampleGroup(self.key, self.keys[first:last], self.examples[first:last])

    def merge(self, kind: ExampleKind[E], compress: bool = False) -> E:
        """Returns the minibatch."""
        return kind.merge(self.examples, compress)


class Grouper(Generic[E]):
    """Keeps a queue for each structure, emptied at the largest size allowed by the rules, and at the end.

    `sizes`, the rules, may change between examples.
    """

    def __init__(self, kind: ExampleKind[E], sizes: MinibatchSizes, statistics: MergingStatistics | None = None):
        """`statistics` are added to."""
        self.statistics = MergingStatistics() if statistics is None else statistics
        self._kind, self.sizes = kind, sizes
        self._queues: Queues[tuple[str, E]] = Queues()
        self._number = 0

    def add(self, key: str, example: E) -> ExampleGroup[E] | None:
        """Returns the group completed by the example, or None."""
        self.statistics.num_examples += 1
        structure = self._kind.structure(example)
        queue = self._queues.of(structure)
        queue.append((key, example))
        size = self._kind.size(example)
        if len(queue) < self.sizes.largest(size):
            return None
        self._queues.remove(structure)
        return self._group(queue, size)

    def finish(self) -> Iterator[ExampleGroup[E]]:
        """Yields the rest, structures in Kaldi's order; discards examples without a fitting rule."""
        queues, self._queues = self._queues, Queues()
        for queue in queues:
            size = self._kind.size(queue[0][1])
            while count := self.sizes.largest_within(size, len(queue)):
                yield self._group(queue[:count], size)
                del queue[:count]
            if queue:
                self.statistics.discarded[self._kind.describe(queue[0][1])] += len(queue)

    def _group(self, queue: list[tuple[str, E]], size: int) -> ExampleGroup[E]:
        keys, examples = zip(*queue, strict=True)
        self.statistics.minibatches[size, len(queue)] += 1
        self._number += 1
        return ExampleGroup(f"merged-{self._number - 1}-{len(queue)}", keys, examples)


def group_examples(entries: Iterable[tuple[str, E]], grouper: Grouper[E]) -> Iterator[ExampleGroup[E]]:
    """Yields the groups of a stream of examples with their keys."""
    for key, example in entries:
        group = grouper.add(key, example)
        if group is not None:
            yield group
    yield from grouper.finish()


def merge_examples(
    entries: Iterable[tuple[str, E]],
    kind: ExampleKind[E],
    sizes: MinibatchSizes,
    compress: bool = False,
    statistics: MergingStatistics | None = None,
) -> Iterator[tuple[str, E]]:
    """Yields the minibatches of a stream of examples, with keys `merged-NUMBER-SIZE`; `statistics` are added to.

    Raises TrainingError, which names the examples, for examples that do not fit together.
    """
    for group in group_examples(entries, Grouper(kind, sizes, statistics)):
        try:
            merged = group.merge(kind, compress)
        except Nnet3Error as error:
            raise TrainingError(f"{group}: {error}") from error
        yield group.key, merged
