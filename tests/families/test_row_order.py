"""The order of a user's rows: programs that are not made yet know the rows of all that is in them."""

from __future__ import annotations

import numpy as np
import pytest

import nnet3
from nnet3.engine.driver.proving import PROVE
from nnet3.engine.families.row_order import with_row_order
from tests.driver.ragged_requests import ragged_request
from tests.families.networks import BLSTM, TDNN


@pytest.mark.parametrize(
    ("config", "train", "by_time"), [(TDNN, False, True), (TDNN, True, False), (BLSTM, True, False)]
)
def test_numbers_of_rows_are_those_of_the_program_that_is_made(
    config: str, train: bool, by_time: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(PROVE, "forms")  # proofs make programs
    nnet, cache, looked_at = nnet3.Nnet.from_config(config, seed=1), nnet3.ComputationCache(), 0
    for lengths in ([9, 30, 17], [30, 9, 9], [17, 30, 30], [14, 8, 30]):
        program = cache.compile(nnet, ragged_request(nnet, lengths, train=train, by_time=by_time))
        rows, is_lazy = program.row_numbers, program.is_lazy
        assert rows is not None
        looked_at += is_lazy
        blocks = np.array([block[1:3] for block in program.submatrices])
        np.testing.assert_array_equal(rows.blocks[1:], blocks[1:])
        np.testing.assert_array_equal(rows.matrices[1:], [matrix.num_rows for matrix in program.matrices[1:]])
        for kind in ("index_tables", "precomputed"):
            known, made = getattr(rows, kind), getattr(program, kind)
            assert len(known) == len(made)
            for one, other in zip(known, made, strict=True):
                np.testing.assert_equal(one, other)
    assert looked_at > 1


def test_rows_in_order_stay() -> None:
    nnet = nnet3.Nnet.from_config(TDNN, seed=1)
    program = nnet3.compile(nnet, ragged_request(nnet, [3, 3]))
    rows = ragged_request(nnet, [3, 3]).outputs[0].indexes
    assert with_row_order(program, {("output", False): rows}, {"output": rows}) is program
