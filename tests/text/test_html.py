"""Pieces of HTML: texts are escaped, columns stand where they should."""

from __future__ import annotations

import doctest

from nnet3.base.text import html
from nnet3.base.text.html import folded, table


def test_the_examples() -> None:
    assert doctest.testmod(html).failed == 0


def test_nothing_in_a_text_is_markup() -> None:
    hostile = "<script>x</script>&"
    for made in (folded(hostile, hostile), table([hostile], [[hostile]])):
        assert "<script" not in made
        assert made.count("&lt;script&gt;x&lt;/script&gt;&amp;") == 2


def test_columns_stand_left_or_right() -> None:
    made = table(["a", "b"], [["c", "1"]])
    assert '<td style="text-align: left">c</td><td style="text-align: right">1</td>' in made
