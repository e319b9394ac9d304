"""Families as text: formulas that give the numbers of every member."""

from __future__ import annotations

import re

from hypothesis import given, strategies as st

from nnet3.families.text import formula, formulas

SMALL = st.integers(-9, 9)


def value(text: str, frames: int, sequences: int) -> float:
    """The value of a formula: `3N T - T/2`."""
    product = re.sub(r"(?<=[\dN]) ?(?=[NT])", " * ", text)
    return eval(product, {"T": frames, "N": sequences})


@given(SMALL, SMALL, SMALL, SMALL, st.integers(1, 30), st.integers(1, 5), st.integers(1, 9), st.integers(1, 3))
def test_a_formula_holds_for_every_shape(
    a: int, b: int, c: int, d: int, frames: int, by: int, sequences: int, more: int
) -> None:
    def wanted(frames: int, sequences: int) -> int:
        return a + b * frames + c * sequences + d * frames * sequences

    shapes = [(t, n) for n in (sequences, sequences + more) for t in (frames, frames + by)]
    text = formula([wanted(*shape) for shape in shapes], shapes)
    for shape in (*shapes, (1, 1), (100, 7)):
        assert value(text, *shape) == wanted(*shape), text


def test_one_number_of_sequences_gives_formulas_in_frames_alone() -> None:
    shapes = [(8, 1), (10, 1)] * 2
    assert formula([4, 5, 4, 5], shapes) == "T/2"
    assert formula([4, 4, 4, 4], shapes) == "4"
    assert formula([4, 2, 4, 2], shapes) == "-T + 12"


def test_names_keep_their_digits_and_lines_of_another_form_say_their_shape() -> None:
    texts = [f"tdnn1.affine(0:{n}) 2.5\n{'x' * n}" for n in (3, 4)] * 2
    assert formulas(texts, [(3, 1), (4, 1)] * 2) == "tdnn1.affine(0:T) 2.5\nxxx  [at T = 3, N = 1]"


def test_formulas_hold_for_the_other_texts_too() -> None:
    """The third entry of a cut list is of another frame for every N."""
    shapes = [(8, 2), (9, 2), (8, 3), (9, 3), (13, 5)]

    def text(frames: int, n: int) -> str:
        return f"m[0:{n * frames - 1}]\n[{', '.join(str(i % n * frames + i // n) for i in range(4))}, ...]"

    lines = formulas([text(*shape) for shape in shapes], shapes).splitlines()
    assert lines == ["m[0:N T - 1]", "[0, 8, 1, 9, ...]  [at T = 8, N = 2]"]
