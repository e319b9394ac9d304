"""Random functions of kernels: the same for the same columns, and linear where they are said to be."""

from __future__ import annotations

import numpy as np
import pytest

from nnet3.engine.ir.kernel import InputPromises, KernelInfo, slice_name
from nnet3.engine.ir.proof import field
from nnet3.engine.ir.proof.columns import Columns, ColumnSpan
from nnet3.engine.ir.proof.randoms import Randoms, input_span, output_span, signs, slice_of
from tests.ir.toy_kernels import KERNELS, WIDE, WIDE_SLICE

_WIDE = ColumnSpan(("input", "wide", 0), 0, 6)


def randoms(seed: int = 0) -> Randoms:
    columns = Columns()
    columns.use(_WIDE)
    columns.use(ColumnSpan(_WIDE.space, 3, 3))
    columns.settle()
    return Randoms(columns, seed)


def values(*shape: int, seed: int = 1) -> field.Elements:
    return np.random.default_rng(seed).integers(0, field.PRIME, (*shape, 2), np.uint64)


def test_a_slice_has_the_columns_of_its_kernel() -> None:
    whole, sliced = KERNELS[WIDE], KERNELS[WIDE_SLICE]
    assert slice_of(whole).is_whole
    assert slice_of(sliced) == ("wide", 3, 6, True, False)
    assert input_span(whole, 0, 6) == _WIDE
    assert input_span(sliced, 0, 3) == ColumnSpan(_WIDE.space, 3, 3)
    assert input_span(sliced, 1, 3) == output_span(whole, 1, 3) == output_span(sliced, 2, 3)
    assert input_span(sliced, 2, 3) == output_span(sliced, 0, 3)  # packed weights are read as they were written


def test_a_slice_without_a_sum_takes_packed_weights_as_its_second_input() -> None:
    sliced = KernelInfo(slice_name("wide", 0, 3, adds=False), (InputPromises(),) * 2)
    assert input_span(sliced, 1, 3).space == ("packed", "wide")


def test_what_passes_on_its_derivative_has_the_columns_of_the_output() -> None:
    info = KernelInfo("sum", (InputPromises(passes_deriv=True), InputPromises()))
    assert input_span(info, 0, 4).space == ("output", "sum")
    assert input_span(info, 1, 4).space == ("input", "sum", 1)


def test_random_elements_belong_to_columns() -> None:
    made = randoms()
    whole = made.of_blocks(("weights",), _WIDE)
    assert whole.shape == (2, 2)
    assert (made.of_blocks(("weights",), ColumnSpan(_WIDE.space, 3, 3)) == whole[1:]).all()
    assert (made.of_blocks(("weights",), _WIDE, _WIDE).shape) == (2, 2, 2)
    assert (randoms().of_blocks(("weights",), _WIDE) == whole).all()
    assert not (randoms(seed=1).of_blocks(("weights",), _WIDE) == whole).any()
    assert (made.of_rows(("rows",), 5)[:3] == made.of_rows(("rows",), 3)).all()
    assert (made.numbers(5)[4] == made.number(4)).all()
    assert len(np.unique(made.numbers(5), axis=0)) == 5


def test_digests_are_linear() -> None:
    made, one, other = randoms(), values(4, 2), values(4, 2, seed=2)
    for digest in (made.digest, made.digest_of_matrix):
        both = digest(("k",), field.reduced(one + other), _WIDE)
        assert (both == field.reduced(digest(("k",), one, _WIDE) + digest(("k",), other, _WIDE))).all()
    assert (made.digest_of_matrix(("k",), one, _WIDE) != made.digest_of_matrix(("k",), one[::-1], _WIDE)).any()
    assert (made.digest(("k",), one, _WIDE) == made.digest(("k",), one[::-1], _WIDE)[::-1]).all()


def test_functions_of_elements_differ_between_blocks() -> None:
    made, rows = randoms(), values(3)
    blocks = made.hashed_for_blocks(rows, ("value",), _WIDE)
    assert blocks.shape == (3, 2, 2)
    assert (blocks[:, 0] != blocks[:, 1]).any(axis=-1).all()
    assert (made.hashed(rows, "f") != made.hashed(rows, "g")).any(axis=-1).all()


@pytest.mark.parametrize("zeros", [0, 3])
def test_signs_stay_as_they_are(zeros: int) -> None:
    numbers = values(200)
    numbers[:zeros] = 0
    made = signs(numbers)
    assert (signs(made) == made).all()
    assert not made[:zeros].any()
    assert made[zeros:].any(axis=-1).all()
    assert (made[zeros:] != numbers[zeros:]).any(axis=-1).all(), "a sign does not say what the value was"
    changed = field.reduced(numbers + field.ONE)
    assert (signs(changed) != made).any(axis=-1).all()
    assert made.max() < field.PRIME
