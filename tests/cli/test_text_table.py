"""Tables of text: as wide as they need to be, the last column folded."""

from __future__ import annotations

from nnet3.cli.text_table import Column, format_table


def test_columns_are_as_wide_as_their_widest_text() -> None:
    columns = [Column("a", ["xyz", ""]), Column("size", ["1", "23"], right=True), Column("what", ["one", ""])]
    assert [*format_table(columns, 80)] == [
        "a    size  what",
        "xyz     1  one",
        "       23",
    ]


def test_the_last_column_is_folded_under_itself() -> None:
    columns = [Column("ab", ["x"]), Column("last", ["one two-three four five six seven eight nine"])]
    assert [*format_table(columns, 30)] == [
        "ab  last",
        "x   one two-three four five",
        "    six seven eight nine",
    ]
    assert [*format_table(columns, 28)][1:] == [
        "x   one two-three four five",  # 24 columns at least
        "    six seven eight nine",
    ]
    assert [*format_table(columns, 27)] == [*format_table(columns, 28)] == [*format_table(columns, 1)]
    assert [*format_table(columns, 29)] != [*format_table([columns[0], Column("last", ["one " * 7])], 29)]
    assert [*format_table([Column("last", ["a bc " * 10])], 24)] == [
        "last",
        "a bc a bc a bc a bc a bc",
        "a bc a bc a bc a bc a bc",
    ]


def test_a_table_of_no_rows_has_titles() -> None:
    assert [*format_table([Column("a", []), Column("b", [])], 80)] == ["a  b"]
