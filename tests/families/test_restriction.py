"""Restricting to lengths: loops lose iterations, sequences without rows go, what all have stays as it is."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pytest

from nnet3 import cn
from nnet3.base.index import N, T
from nnet3.engine.driver import ComputationCache
from nnet3.engine.families.ragged_program import RaggedProgram
from nnet3.engine.families.restriction import restricted
from nnet3.engine.ir import commands as cmd
from nnet3.engine.ir.checker import check_computation
from nnet3.engine.ir.computation import NnetComputation
from nnet3.engine.ir.program_tables import MatrixInfo
from nnet3.engine.ir.repeats import unrolled

LENGTH, SEQUENCES = 48, 6


@pytest.fixture(scope="module")
def ragged() -> RaggedProgram:
    """A recurrent layer over six sequences of 48 frames, with gradients, of a family: its recurrence is a loop."""
    x, labels = cn.input("x", 2), cn.input("labels", 2)
    out = cn.macros.affine(cn.macros.lstm(x, 2).h, 2, name="out")
    network = cn.Network(cn.cross_entropy_with_softmax(labels, out), cache=ComputationCache())
    batch = cn.sequences([np.ones((2, LENGTH))] * SEQUENCES)
    program = network.program({"x": batch, "labels": batch})

    def distances(info: MatrixInfo) -> np.ndarray:
        assert info.indexes is not None
        return LENGTH - 1 - info.indexes[:, T].astype(np.int64)

    return RaggedProgram(program, distances)


def at(ragged: RaggedProgram, lengths: Sequence[int]) -> NnetComputation:
    program = restricted(ragged, [LENGTH - length for length in lengths])
    check_computation(program)
    return program


def rows_given(program: NnetComputation) -> np.ndarray:
    (info,) = {id(i): i for m, i in program.matrix_info.items() if i.node == "x" and not i.is_deriv}.values()
    assert info.indexes is not None
    return np.bincount(info.indexes[:, N])


@pytest.mark.parametrize("lengths", [[48, 40, 40, 7, 1], [33] * 6, [5], [48, 47, 46, 45, 44, 43]])
def test_inputs_have_the_rows_of_these_lengths(ragged: RaggedProgram, lengths: list[int]) -> None:
    program = at(ragged, lengths)
    assert rows_given(program).tolist() == lengths
    assert [program.submatrices[io.value].num_rows for io in program.inputs] == [sum(lengths)] * 2


def test_a_loop_has_as_many_iterations_as_the_longest_sequence_needs(ragged: RaggedProgram) -> None:
    iterations = [
        [command.iterations for command in at(ragged, lengths).commands if isinstance(command, cmd.Repeat)]
        for lengths in ([48, 3], [40, 40, 2], [20])
    ]
    assert len(iterations[0]) == 2  # forward and backward
    fewer = [np.subtract(one, other).tolist() for one, other in pairwise(iterations)]
    assert fewer == [[8, 8], [20, 20]]


def test_all_lengths_give_the_program_that_it_is_made_of(ragged: RaggedProgram) -> None:
    program = at(ragged, [LENGTH] * SEQUENCES)
    assert [type(c) for c in unrolled(program).commands] == [type(c) for c in ragged.computation.commands]
    assert [m.num_rows for m in program.matrices] == [m.num_rows for m in ragged.computation.matrices]
