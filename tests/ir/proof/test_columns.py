"""Cuts are carried over links to a fixed point."""

from __future__ import annotations

from random import Random

from hypothesis import given, settings, strategies as st

from nnet3.engine.ir.proof.columns import Columns, ColumnSpan
from tests.effort import draws

_WIDTH = 12


def random_spans(random: Random, count: int) -> list[tuple[ColumnSpan, ColumnSpan]]:
    """Returns pairs of spans of equal width in a few spaces; some of them lie in the same one, and overlap."""
    pairs = []
    for _ in range(count):
        width = random.randint(1, _WIDTH)
        one, other = (ColumnSpan(random.choice("abcdef"), random.randint(0, _WIDTH - width), width) for _ in range(2))
        pairs.append((one, other))
    return pairs


class SlowCuts:
    """Boundaries between columns, one by one, in classes that are joined: where one of a class is cut, all are."""

    def __init__(self) -> None:
        self.class_of = {(space, at): (space, at) for space in "abcdef" for at in range(_WIDTH + 1)}
        self.cut: set[tuple[str, int]] = set()

    def link(self, one: ColumnSpan, other: ColumnSpan) -> None:
        self.use(one)
        self.use(other)
        for column in range(one.width + 1):
            kept, lost = (self.class_of[span.space, span.first + column] for span in (one, other))
            self.class_of |= {place: kept for place, name in self.class_of.items() if name == lost}

    def use(self, span: ColumnSpan) -> None:
        self.cut |= {(span.space, span.first), (span.space, span.first + span.width)}

    def cuts(self, space: str) -> list[int]:
        classes = {self.class_of[place] for place in self.cut}
        return [at for at in range(_WIDTH + 1) if self.class_of[space, at] in classes]


@settings(max_examples=draws(150))
@given(st.integers(0, 2**32 - 1), st.integers(1, 12))
def test_cuts_are_those_of_a_walk_column_by_column(seed: int, count: int) -> None:
    random = Random(seed)
    columns, slow = Columns(), SlowCuts()
    for space in "abcdef":
        columns.use(ColumnSpan(space, 0, _WIDTH))
        slow.use(ColumnSpan(space, 0, _WIDTH))
    for one, other in random_spans(random, count):
        columns.link(one, other)
        slow.link(one, other)
    columns.settle()
    for space in "abcdef":
        cuts = slow.cuts(space)
        whole = ColumnSpan(space, 0, _WIDTH)
        assert [*columns.cuts(whole).tolist(), _WIDTH] == cuts
        assert columns.num_blocks(space) == len(cuts) - 1
        assert columns.blocks(whole) == slice(0, len(cuts) - 1)


def test_a_copy_cuts_both_matrices_alike() -> None:
    columns = Columns()
    columns.use(ColumnSpan("m1", 0, 10))
    columns.use(ColumnSpan("m2", 0, 9))
    columns.link(ColumnSpan("m1", 0, 5), ColumnSpan("m2", 3, 5))
    columns.use(ColumnSpan("m2", 3, 2))
    columns.settle()
    assert columns.cuts(ColumnSpan("m1", 0, 10)).tolist() == [0, 2, 5]
    assert columns.cuts(ColumnSpan("m2", 0, 9)).tolist() == [0, 3, 5, 8]
    assert columns.blocks(ColumnSpan("m2", 3, 5)) == slice(1, 3)
    assert columns.num_blocks("m1") == 3
    assert columns.num_blocks("never seen") == 0


def test_a_shift_within_a_matrix_cuts_every_step() -> None:
    """Columns [0, 6) are those of [2, 8): a cut at 1 is one at 3, 5 and 7."""
    columns = Columns()
    columns.use(ColumnSpan("m", 0, 9))
    columns.use(ColumnSpan("m", 0, 1))
    columns.link(ColumnSpan("m", 0, 6), ColumnSpan("m", 2, 6))
    columns.settle()
    assert columns.cuts(ColumnSpan("m", 0, 9)).tolist() == [0, 1, 2, 3, 4, 5, 6, 7, 8]


def test_columns_behind_the_last_cut_are_of_no_block() -> None:
    """As where a matrix begins of which only the first columns are looked at."""
    columns = Columns()
    columns.use(ColumnSpan("a", 0, 2))
    columns.use(ColumnSpan("a", 0, 3))
    columns.settle()
    assert columns.num_blocks("a") == 2
    for span, blocks in (((0, 6), (0, 2)), ((2, 4), (1, 2)), ((3, 3), (2, 2)), ((4, 2), (2, 2))):
        found = columns.blocks(ColumnSpan("a", *span))
        assert (found.start, found.stop) == blocks
