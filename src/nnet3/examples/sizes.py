"""Rules that say how many examples make a minibatch: `64,128`, `1:64`, `128=64/256=40,30`."""

from __future__ import annotations

from dataclasses import dataclass

from nnet3.errors import ArgumentError

_FORM = (
    "a rule of minibatch sizes is a list of sizes and ranges such as 64,128 or 1:64, or several by the size of the "
    "example, such as 128=64/256=40,30"
)


@dataclass(frozen=True)
class MinibatchSizes:
    """Ranges of minibatch sizes, both ends included, for sizes of examples (their largest number of rows).

    A single rule is for all sizes. Of several the one with the nearest size is taken, the first of two equally near.
    """

    rules: tuple[tuple[int, tuple[tuple[int, int], ...]], ...]

    @classmethod
    def parse(cls, text: str) -> MinibatchSizes:
        """Reads the rules in `text`. Raises ArgumentError if there are none."""
        parts = text.split("/")
        rules = []
        for part in parts:
            size, equals, ranges = part.rpartition("=")
            if len(parts) > 1 and not equals:
                raise ArgumentError(f"'{text}': with several rules each needs a size of example; {_FORM}")
            rules.append((_number(size, text) if equals else 0, _parse_ranges(ranges, text)))
        if len({size for size, _ in rules}) < len(rules):
            raise ArgumentError(f"'{text}': the sizes of examples must be different; {_FORM}")
        return cls(tuple(rules))

    def times(self, count: int) -> MinibatchSizes:
        """Returns the rules for `count` minibatches of these sizes together."""
        return MinibatchSizes(
            tuple((size, tuple((first * count, last * count) for first, last in ranges)) for size, ranges in self.rules)
        )

    def largest(self, size_of_example: int) -> int:
        """Returns the largest minibatch of examples of this size."""
        return max(last for _, last in self._ranges(size_of_example))

    def largest_within(self, size_of_example: int, available: int) -> int:
        """Returns the largest minibatch that so many examples can make; 0 if there is none."""
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
            raise ArgumentError(f"'{whole}': the range {item} is empty; {_FORM}")
        ranges.append(bounds)
    return tuple(ranges)


def _number(text: str, whole: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 10 and int(text) > 0):
        raise ArgumentError(f"'{whole}': expected a number > 0, got '{text}'; {_FORM}")
    return int(text)
