"""Arithmetic modulo 2^31 - 1, against Python's integers."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, strategies as st

from nnet3.engine.ir.proof import field
from nnet3.engine.ir.proof.field import PRIME
from nnet3.engine.ir.proof.seeds import PROVE_SEED

_ELEMENT = st.one_of(st.sampled_from([0, 1, PRIME - 1, PRIME - 2]), st.integers(0, PRIME - 1))


def elements(*shape: int, seed: int = 0) -> field.Elements:
    """Returns random elements with zeros and the largest number among them."""
    rng = np.random.default_rng(seed)
    values = rng.integers(0, PRIME, (*shape, 2), np.uint64)
    return np.where(rng.random(values.shape) < 0.3, rng.choice([0, 1, PRIME - 1], values.shape), values).astype("u8")


@given(_ELEMENT, _ELEMENT)
def test_products_are_exact(one: int, other: int) -> None:
    product = field.product(np.array([one, other], "u8"), np.array([other, other], "u8"))
    assert product.tolist() == [one * other % PRIME, other * other % PRIME]


@given(st.floats(-1e6, 1e6, allow_nan=False))
def test_a_float_is_the_fraction_that_it_is(number: float) -> None:
    numerator, denominator = number.as_integer_ratio()
    element = int(field.element(number)[0])
    assert 0 <= element < PRIME
    assert (element * denominator - numerator) % PRIME == 0
    assert (field.scaled(field.ONE, number) == element).all()


def test_a_scale_that_is_undone_leaves_nothing() -> None:
    values = elements(20)
    for scale in (0.1, -0.5, 3.0, 1e-3):
        back = field.reduced(field.scaled(values, scale) + field.scaled(values, -scale))
        assert not back.any()


@pytest.mark.parametrize("blocks", [1, 2, 4, 5, 40])
def test_combinations_are_exact(blocks: int) -> None:
    values, coefficients = elements(6, blocks, seed=1), elements(blocks, 3, seed=2)
    made = field.combined(values, coefficients)
    for row, output, half in np.ndindex(6, 3, 2):
        terms = (int(values[row, b, half]) * int(coefficients[b, output, half]) for b in range(blocks))
        assert int(made[row, output, half]) == sum(terms) % PRIME


def test_a_combination_of_nothing_is_zero() -> None:
    assert not field.combined(elements(3, 0), elements(0, 2)).any()


def test_sums_are_exact() -> None:
    values = elements(50, 2, seed=3)
    ranges = np.array([[0, 50], [3, 3], [7, 8], [49, 50]], np.int32)
    sums = field.sums_of_ranges(values, ranges)
    for made, (first, end) in zip(sums, ranges, strict=True):
        assert (made == field.total(values[first:end])).all()
        assert made[1, 0] == sum(map(int, values[first:end, 1, 0])) % PRIME


def test_random_elements_depend_on_all_numbers_and_on_nothing_else() -> None:
    base, rows, columns = field.key("weights", 3), np.arange(40)[:, None], np.arange(50)
    drawn = field.drawn(base, rows, columns)
    assert drawn.shape == (40, 50, 2)
    assert drawn.max() < PRIME
    assert len(np.unique(drawn)) == drawn.size  # 4000 of 2^31: equal ones would be a chance of 1 in 270
    assert (field.drawn(base, rows[7:9], columns[5:]) == drawn[7:9, 5:]).all()
    assert not (field.drawn(field.key("weights", 4), rows, columns) == drawn).all(axis=-1).any()
    assert field.key("a", "b") != field.key("ab")


def test_keys_are_the_same_in_every_process() -> None:
    text = "from nnet3.engine.ir.proof.field import key; print(key('weights', 3))"
    printed = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True).stdout
    assert int(printed) == int(field.key("weights", 3))


def test_the_environment_gives_other_elements(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(PROVE_SEED, "")
    keys = [field.key("weights", 3)]
    for seed in ("1", "2", "any text"):
        monkeypatch.setenv(PROVE_SEED, seed)
        keys.append(field.key("weights", 3))
    assert len(set(keys)) == 4


def test_a_function_of_elements_is_not_linear_and_zero_is_not_zero() -> None:
    """A function that took zero to zero stopped derivatives wherever a value was zero, and hid what they were."""
    base = field.key("f")
    values = elements(400, seed=4)
    made = field.hashed(values, base)
    assert made.max() < PRIME
    assert field.hashed(np.zeros((1, 2), "u8"), base).all()
    sums = field.hashed(field.reduced(values[:200] + values[200:]), base)
    assert not (sums == field.reduced(made[:200] + made[200:])).all(axis=-1).any()
    assert not (field.hashed(values, field.key("g")) == made).all(axis=-1).any()
    assert (field.hashed(values[::-1], base)[::-1] == made).all()


def test_both_numbers_of_an_element_count() -> None:
    values = elements(100, seed=5)
    for half in (0, 1):
        changed = values.copy()
        changed[:, half] = (changed[:, half] + np.uint64(1)) % np.uint64(PRIME)
        made = field.hashed(changed, field.key("f"))
        assert (made != field.hashed(values, field.key("f"))).all()
