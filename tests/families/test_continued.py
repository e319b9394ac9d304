"""Continued tables: two members say what all others are, or are refused."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest
from hypothesis import given, strategies as st

from nnet3.base.index import NO_TIME
from nnet3.engine.families.continued import Continued, ContinuedTwice, NotAffineError, continued
from nnet3.engine.families.number_table import NumberTable, table_of

#: Tables of row numbers as programs have them, by the number of frames.
TABLES: dict[str, Callable[[int], np.ndarray]] = {
    "all frames": lambda n: np.arange(n),
    "every third, from the second": lambda n: 1 + 3 * np.arange(n),
    "backwards": lambda n: np.arange(n)[::-1],
    "two ranges": lambda n: np.concatenate([np.arange(n - 2), n + np.arange(n + 4)]),
    "two sequences to one time each": lambda n: np.arange(2 * n).reshape(2, n).T.ravel(),
    "one time each to three sequences": lambda n: np.arange(3 * n).reshape(n, 3).T.ravel(),
    "none at the ends": lambda n: np.concatenate([[-1, -1], np.arange(n), [-1]]),
    "none between": lambda n: np.where(np.arange(n * 3) % 3 == 2, -1, np.arange(n * 3)),
    "the last row again and again": lambda n: np.concatenate([np.arange(n), np.full(5, n - 1)]),
    "nothing": lambda n: np.arange(0),
    "always the same": lambda n: np.array([5, 1, 4, 1]),
    "always as many": lambda n: np.array([0, n, 2 * n, n - 1]),
}


@pytest.mark.parametrize("apart", [1, 2, 31])
@pytest.mark.parametrize("name", TABLES)
def test_tables_of_all_lengths(name: str, apart: int) -> None:
    table = TABLES[name]
    family = continued([[table_of(table(n))] for n in (16, 16 + apart)], apart)
    for n in (16, 17, 18, 40, 111):
        assert family.at(n - 16)[0].values[:, 0].tolist() == table(n).tolist()
        assert family.lengths(n - 16).tolist() == [len(table(n))]


@pytest.mark.parametrize("rows_per_frame", [1, 3])
@pytest.mark.parametrize("step", [0, 1, 3, -2])
def test_rows_that_all_change_alike_go_on_as_others_do(step: int, rows_per_frame: int) -> None:
    def family(*, even: bool) -> Continued:
        tables = [table_of(200 + step * np.arange(rows_per_frame * n)) for n in (16, 18)]
        for table in tables:
            assert table.is_even
            vars(table)["is_even"] = even
        return continued([[table] for table in tables], 2)

    for one, other in zip(family(even=True).tables, family(even=False).tables, strict=True):
        assert (one.values.tolist(), one.labels.tolist()) == (other.values.tolist(), other.labels.tolist())


def test_numbers_between_which_are_no_integers_are_refused() -> None:
    with pytest.raises(NotAffineError, match="it does not go on by integers"):
        continued([[table_of(np.array([7, n // 2]))] for n in (16, 19)], 3)


@given(st.lists(st.sampled_from(sorted(TABLES)), max_size=6))
def test_tables_do_not_disturb_each_other(names: list[str]) -> None:
    family = continued([[table_of(TABLES[name](n)) for name in names] for n in (16, 17, 18)])
    assert [table.values[:, 0].tolist() for table in family.at(23)] == [TABLES[name](39).tolist() for name in names]


def test_indexes_with_places_of_no_time() -> None:
    def indexes(n: int) -> np.ndarray:
        times = np.where(np.arange(3 * n) % 3 == 1, NO_TIME, np.arange(3 * n) - 20)
        return np.stack([np.zeros(3 * n, int), times, np.zeros(3 * n, int)], axis=1)

    family = continued([[table_of(indexes(n))] for n in (16, 17)])
    assert np.array_equal(family.at(30)[0].values, indexes(46))


@pytest.mark.parametrize(
    ("table", "largest"),
    [
        (lambda n: np.concatenate([np.full(3, NO_TIME), 2**20 * np.arange(n)]), 2**11 - 16),
        (lambda n: np.concatenate([np.full(3, 2**31), np.arange(n)]), -1),
    ],
)
def test_numbers_have_32_bits(table: Callable[[int], np.ndarray], largest: int) -> None:
    """Those of NO_TIME are as large as can be, and stay."""
    tables = [[table_of(table(n), np.zeros(3 + n, int))] for n in (16, 17)]
    if largest < 0:
        with pytest.raises(NotAffineError, match="more than 32 bits"):
            continued(tables)
        return
    family = continued(tables)
    family.check_size(largest)
    with pytest.raises(NotAffineError, match="more than 32 bits"):
        family.check_size(largest + 1)


@pytest.mark.parametrize(
    ("table", "reason"),
    [
        (lambda n: np.arange(n) ** 2, "does not repeat alike"),
        (lambda n: np.array([n * n, 0]), "not affine"),
        (lambda n: np.arange(n) // (n - 10), "not"),
        (lambda n: n * np.arange(n), "not affine"),  # the step from row to row is another one
    ],
)
def test_what_is_not_affine_is_refused(table: Callable[[int], np.ndarray], reason: str) -> None:
    members = [[table_of(np.arange(n)), table_of(table(n))] for n in (16, 17, 18)]
    with pytest.raises(NotAffineError, match=reason) as error:
        continued(members)
    assert error.value.table == 1


def test_tables_of_another_length_or_width_are_refused() -> None:
    """Though what there is of them agrees."""
    family = continued([[table_of(np.zeros(n, int))] for n in (16, 17)])
    family.check(10, [table_of(np.zeros(26, int))])
    for other in (0, 20, 27):
        with pytest.raises(NotAffineError, match="another length"):
            family.check(10, [table_of(np.zeros(other, int))])
    with pytest.raises(NotAffineError, match="more columns"):
        continued([[table_of(np.zeros((n, n - 15), int))] for n in (16, 17)])


def test_empty_tables_keep_their_columns() -> None:
    assert continued([[table_of(np.zeros((0, 3), int))] for _ in range(2)]).at(5)[0].values.shape == (0, 3)


def test_equal_tables_are_made_once() -> None:
    members = []
    for n in (16, 17):
        table = table_of(np.arange(n))
        members.append([table, table_of(np.arange(2 * n)), table])
    first, _, last = continued(members).at(4)
    assert first is last


def test_labels_have_to_agree() -> None:
    def table(n: int, label: int) -> NumberTable:
        labels = np.array([7, *[1, 2] * n, label])
        return NumberTable(np.arange(len(labels))[:, None], labels)

    family = continued([[table(n, 9)] for n in (8, 9, 10)])
    assert family.at(4)[0].labels.tolist() == table(12, 9).labels.tolist()
    with pytest.raises(NotAffineError):
        continued([[table(8, 9)], [table(9, 9)], [table(10, 8)]])


def test_numbers_beyond_32_bits_are_refused() -> None:
    family = continued([[table_of(np.array([n * 10**6, n - 20]))] for n in (16, 17)])
    assert family.at(2000)[0].values.ravel().tolist() == [2016 * 10**6, 1996]
    for far in (3000, -3000):
        with pytest.raises(NotAffineError, match="more than 32 bits"):
            family.at(far)


#: Tables of requests for n sequences, by the number of frames and of sequences.
TABLES_OF_SEQUENCES: dict[str, Callable[[int, int], np.ndarray]] = {
    "by time": lambda f, n: np.arange(f * n),
    "by sequence": lambda f, n: np.arange(f * n).reshape(f, n).T.ravel(),
    "two frames later": lambda f, n: np.arange(2 * n, (f + 1) * n),
    "backwards": lambda f, n: np.arange(f * n).reshape(f, n)[::-1].ravel(),
    "one row for all": lambda f, n: np.tile(np.arange(n), f),
    "the last row again": lambda f, n: np.concatenate([np.arange(f * n), np.tile(np.arange((f - 1) * n, f * n), 3)]),
    "none before": lambda f, n: np.concatenate([np.full(2 * n, -1), np.arange(f * n)]),
    "none before by sequence": lambda f, n: np.concatenate(
        [np.full((n, 2), -1), np.arange(f * n).reshape(n, f)], axis=1
    ).ravel(),
    "three frames at once": lambda f, n: np.arange(f // 3 * 3 * n).reshape(-1, 3, n).swapaxes(1, 2).ravel(),
    "sizes": lambda f, n: np.array([f * n, 7, f, n, 2 * f * n - 3 * n + f]),
    "as many as sequences": lambda f, n: f * np.arange(n),
    "as many as frames": lambda f, n: n * np.arange(f),
    "indexes by time": lambda f, n: np.stack([np.tile(np.arange(n), f), np.repeat(np.arange(f), n) - 5], axis=1),
    "indexes by sequence": lambda f, n: np.stack([np.repeat(np.arange(n), f), np.tile(np.arange(f), n) - 5], axis=1),
}


def continued_twice(table: Callable[[int, int], Sequence[NumberTable]]) -> ContinuedTwice:
    return ContinuedTwice([continued([table(f, n) for f in (48, 51)]) for n in (4, 5)])


@pytest.mark.parametrize("name", TABLES_OF_SEQUENCES)
def test_tables_of_all_lengths_and_all_numbers_of_sequences(name: str) -> None:
    table = TABLES_OF_SEQUENCES[name]
    family = continued_twice(lambda f, n: [table_of(table(f, n))])
    for f, n in ((48, 4), (51, 4), (48, 5), (51, 5), (54, 7), (90, 4), (300, 64), (48, 100)):
        found = family.at(n - 4).at((f - 48) // 3)[0].values
        assert np.array_equal(found, table(f, n).reshape(len(found), -1)), (f, n)


@given(st.lists(st.sampled_from(sorted(TABLES_OF_SEQUENCES)), max_size=6))
def test_tables_of_sequences_do_not_disturb_each_other(names: list[str]) -> None:
    family = continued_twice(lambda f, n: [table_of(TABLES_OF_SEQUENCES[name](f, n)) for name in names])
    for name, found in zip(names, family.at(5).at(7), strict=True):
        assert np.array_equal(found.values, TABLES_OF_SEQUENCES[name](69, 9).reshape(len(found.values), -1))


def test_tables_that_are_equal_for_one_number_of_sequences() -> None:
    """Four sequences have two tables in common, five have not."""

    def tables(f: int, n: int) -> list[NumberTable]:
        found = [table_of(np.arange(f * n)), table_of(np.arange(f * 4))]
        return [found[0]] * 2 if n == 4 else found

    assert [len(table.values) for table in continued_twice(tables).at(3).at(1)] == [51 * 7, 51 * 4]


@pytest.mark.parametrize(
    ("table", "reason"),
    [
        (lambda f, n: np.arange(f * n * n), "in sequences"),
        (lambda f, n: np.array([n * n * f]), "in sequences"),
        (lambda f, n: np.arange(f)[: f // n], "alike|affine|short"),
    ],
)
def test_what_is_not_affine_in_sequences_is_refused(table: Callable[[int, int], np.ndarray], reason: str) -> None:
    with pytest.raises(NotAffineError, match=reason) as error:
        ContinuedTwice(
            [continued([[table_of(np.arange(f)), table_of(table(f, n))] for f in (48, 51)]) for n in (4, 5, 6)]
        )
    assert error.value.table == 1
