"""Strings as arrays, against lists."""

from __future__ import annotations

import numpy as np

from nnet3.base.kaldi_io.lattice import Strings, no_strings
from nnet3.speech.lattices.strings import chained, common_lengths, first_values, hashes, without_first
from tests.asr.toy_lattices import strings_of
from tests.seeds import RANDOM

Lists = list[list[int]]


def lists_of(strings: Strings) -> Lists:
    return [part.tolist() for part in np.split(strings.values, strings.offsets[1:-1])] if len(strings.lengths) else []


def random_lists(count: int) -> Lists:
    return [RANDOM.integers(0, 3, RANDOM.integers(0, 6)).tolist() for _ in range(count)]


def test_parts_and_wholes() -> None:
    for count in (1, 2, 7):
        first, second, numbers = random_lists(count), random_lists(count), RANDOM.integers(0, count, 5)
        a, b = strings_of(first), strings_of(second)
        assert lists_of(a[numbers]) == [first[n] for n in numbers]
        assert lists_of(chained(a, b)) == [x + y for x, y in zip(first, second, strict=True)]
        assert lists_of(Strings.joined([a, no_strings(2), b])) == [*first, [], [], *second]
        counts = np.array([RANDOM.integers(0, len(each) + 1) for each in first])
        assert lists_of(without_first(a, counts)) == [each[n:] for each, n in zip(first, counts, strict=True)]
        assert lists_of(first_values(a, counts)) == [each[:n] for each, n in zip(first, counts, strict=True)]


def _common(lists: Lists) -> int:
    count = min(map(len, lists))
    return next((n for n in range(count) if len({each[n] for each in lists}) > 1), count)


def test_what_groups_have_in_common() -> None:
    for _ in range(20):
        lists, starts = random_lists(9), np.array([0, 1, 4, 6])
        groups = [lists[a:b] for a, b in zip(starts, [*starts[1:], 9], strict=True)]
        expected = [_common(group) for group in groups]
        assert common_lengths(strings_of(lists), starts).tolist() == expected


def test_equal_strings_have_equal_hashes_and_others_do_not() -> None:
    lists = [*random_lists(60), [], [0], [0, 0], [1, 0], [0, 1]]
    numbers = hashes(strings_of(lists)).tolist()
    for a, left in zip(numbers, lists, strict=True):
        assert [b == a for b in numbers] == [right == left for right in lists]
