"""Kernels depend in a proof on what they declare, and on nothing else."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from nnet3.engine.ir import commands as cmd
from nnet3.engine.ir.commands import Command
from nnet3.engine.ir.computation import NnetComputation
from nnet3.engine.ir.kernel import InputPromises, KernelInfo, slice_name
from nnet3.engine.ir.program_tables import IoInfo, MatrixInfo
from nnet3.engine.ir.proof.equal import PassResult, prove_equal
from nnet3.errors import ProofError
from tests.ir.programs import index_table

X, Y, DX, DY = 1, 2, 3, 4
_ROWS, _COLS = 4, 3
APART = {"row_by_row": True, "rows_apart": True, "backprop_rows_apart": True}


def program(kernel: KernelInfo, *commands: Command, tables: tuple[list[int], ...] = ()) -> NnetComputation:
    """input -> kernel 0 -> output, with further commands in the place of the kernel's; 3 and 4 are derivatives."""
    c = NnetComputation(kernels=[kernel], need_model_derivative=True, num_memos=2)
    for _ in range(4):
        c.new_matrix(_ROWS, _COLS)
    for first, count in ((0, 2), (2, 2)):  # halves of rows: 5 to 8 are X, Y, DX, DY above, 9 to 12 below
        for matrix in (X, Y, DX, DY):
            c.new_submatrix(matrix, first, count)
    for table in tables:
        index_table(c, table)
    c.inputs, c.outputs = [IoInfo("input", X, DX)], [IoInfo("output", Y, DY)]
    c.commands = [
        *(cmd.AllocMatrix(m, zeroed=True) for m in (X, Y, DX, DY)),
        cmd.AcceptInput(X, "input"),
        cmd.AcceptInput(DY, "output"),
        *commands,
        cmd.ProvideOutput(Y, "output"),
        cmd.ProvideOutput(DX, "input"),
    ]
    return c


UPPER, LOWER = (5, 6, 7, 8), (9, 10, 11, 12)


def forward(x: int = X, y: int = Y, memo: int = -1, **fields: Any) -> Command:
    return cmd.Propagate(0, "node", (x,), y, memo=memo, **fields)


def backward(dy: int = DY, dx: int = DX, *, x: int = 0, y: int = 0, memo: int = -1, update: bool = True) -> Command:
    return cmd.Backprop(0, "node", (x,), y, dy, (dx,), (0,), update=update, memo=memo)


def difference(kernel: KernelInfo, one: list[Command], other: list[Command], tables: tuple[list[int], ...] = ()) -> str:
    """Returns what a proof says of two programs, "" if it finds them equal. Three seeds must agree."""
    found = set()
    for seed in range(3):
        try:
            prove_equal([PassResult("", program(kernel, *each, tables=tables)) for each in (one, other)], seed)
            found.add("")
        except ProofError as error:
            found.add(str(error))
    (message,) = found
    return message


HALVES = [forward(*half[:2]) for half in (UPPER, LOWER)]
BACK_IN_HALVES = [backward(half[3], half[2]) for half in (UPPER, LOWER)]


def test_rows_may_be_computed_in_pieces_if_they_are_apart() -> None:
    apart = KernelInfo("k", **APART)
    assert difference(apart, [forward()], HALVES) == ""
    for mixing in (replace(apart, rows_apart=False), KernelInfo("k")):
        assert "output 'output' differs in 4 rows" in difference(mixing, [forward()], HALVES)


def test_derivatives_may_be_computed_in_pieces_if_their_rows_are_apart() -> None:
    apart = KernelInfo("k", **APART)
    assert difference(apart, [backward()], BACK_IN_HALVES) == ""
    for mixing in (replace(apart, backprop_rows_apart=False), KernelInfo("k")):
        assert "output 'input' differs in 4 rows" in difference(mixing, [backward()], BACK_IN_HALVES)


def test_an_update_is_of_all_rows_together() -> None:
    """As natural gradients are; and statistics count calls, or look at some of them."""
    learning, counting, storing = (
        KernelInfo("k", **APART, **{promise: True}) for promise in ("updatable", "counts_backward", "stores_stats")
    )
    for info in (learning, counting, storing):
        assert "update of kernel 'k' differs" in difference(info, [backward()], BACK_IN_HALVES)
        assert difference(info, BACK_IN_HALVES, BACK_IN_HALVES[::-1]) == ""
    for info in (learning, counting, KernelInfo("k", stores_stats=True)):
        assert "update of kernel 'k' is missing" in difference(info, [backward()], [backward(update=False)])
    assert difference(KernelInfo("k"), [backward()], [backward(update=False)]) == ""


def test_an_update_depends_on_the_values_that_are_needed() -> None:
    """Also where no derivative is asked for."""
    update = [cmd.Backprop(0, "node", (X,), 0, DY, (0,), (0,), update=True), cmd.SetConst(X, 0.0)]
    changed = [cmd.MatrixCopy(Y, X), cmd.MatrixCopy(X, Y, 2.0), cmd.SetConst(Y, 0.0), *update]
    needed, useless = (
        KernelInfo("k", (InputPromises(backprop_needs_value=is_needed),), **APART, updatable=True)
        for is_needed in (True, False)
    )
    assert "update of kernel 'k' differs" in difference(needed, update, changed)
    assert difference(useless, update, changed) == ""


def test_what_is_linear_can_be_given_sums() -> None:
    def scaled(before: bool) -> list[Command]:  # W (a x) + b = a (W x + b) + (1 - a) b
        if before:
            return [cmd.MatrixCopy(DX, X, 0.5), forward(DX), cmd.SetConst(DX, 0.0)]
        half = [forward(), cmd.MatrixCopy(DY, Y, 0.5), cmd.SetConst(DX, 0.0), forward(DX)]
        return [*half, *_plus_half()]

    linear = KernelInfo("k", (InputPromises(is_linear=True),), **APART)
    assert difference(linear, scaled(True), scaled(False)) == ""
    assert "output 'output' differs in 4 rows" in difference(KernelInfo("k", **APART), scaled(True), scaled(False))


def _plus_half() -> list[Command]:
    """Y = DY + Y / 2, by way of DX, which is zero afterwards."""
    return [cmd.MatrixCopy(DX, Y, 0.5), cmd.MatrixCopy(Y, DX), cmd.MatrixAdd(Y, DY), cmd.SetConst(DX, 0.0)]


def test_derivatives_are_linear_unless_a_kernel_says_that_they_are_not() -> None:
    def scaled(before: bool) -> list[Command]:
        if before:
            return [cmd.MatrixCopy(Y, DY, 0.5), backward(Y, update=False)]
        return [backward(DY, Y, update=False), cmd.MatrixCopy(DX, Y, 0.5), cmd.MatrixCopy(Y, DY, 0.5)]

    assert difference(KernelInfo("k", **APART), scaled(True), scaled(False)) == ""
    assert difference(KernelInfo("k"), scaled(True), scaled(False)) == ""
    clipping = KernelInfo("k", **APART, backprop_is_linear=False)
    assert "output 'input' differs in 4 rows" in difference(clipping, scaled(True), scaled(False))


@pytest.mark.parametrize("rows_apart", [True, False])
def test_a_derivative_depends_on_the_values_that_are_needed(rows_apart: bool) -> None:
    def after(value: float, *, x: int = X, y: int = 0) -> list[Command]:
        return [cmd.SetConst(Y, value), backward(x=x, y=y), cmd.SetConst(Y, 0.0)]

    base = {**APART, "rows_apart": rows_apart, "backprop_rows_apart": rows_apart}
    none, own = KernelInfo("k", **base), KernelInfo("k", **base, backprop_needs_output=True)
    of_input = KernelInfo("k", (InputPromises(backprop_needs_value=True),), **base)
    assert difference(none, after(1.0, x=Y), after(2.0, x=Y)) == ""
    assert "output 'input' differs" in difference(of_input, after(1.0, x=Y), after(2.0, x=Y))
    assert "output 'input' differs" in difference(own, after(1.0, y=Y), after(2.0, y=Y))
    assert difference(of_input, after(1.0, y=Y), after(2.0, y=Y)) == ""


def test_signs_are_all_that_is_seen_of_an_output_if_a_kernel_says_so() -> None:
    def after(*compress: Command) -> list[Command]:
        return [forward(), *compress, backward(y=Y), cmd.SetConst(Y, 0.0)]

    compress = (cmd.CompressMatrix(Y), cmd.DecompressMatrix(Y))
    whole = KernelInfo("k", **APART, backprop_needs_output=True)
    signs = replace(whole, backprop_needs_sign_only=True)
    assert difference(signs, after(), after(*compress)) == ""
    assert "output 'input' differs in 4 rows" in difference(whole, after(), after(*compress))


def test_a_memo_must_be_there_and_be_of_the_same_rows() -> None:
    kernel = KernelInfo("k", **APART, uses_memo=True)
    good = [forward(memo=0), backward(memo=0)]
    assert difference(kernel, good, good) == ""
    missing = [forward(memo=0), backward(memo=1)]
    assert "memo 1 is not there, where one of 4 rows is used" in difference(kernel, good, missing)
    before = [*good, backward(memo=-1, update=False)]  # as noted, but for the memo
    assert "memo 1 is not there" in difference(kernel, before, [*before, backward(memo=1, update=False)])
    shorter = [forward(*UPPER[:2], memo=0), forward(*LOWER[:2]), backward(memo=0)]
    assert "memo 0 has 2 rows, where one of 4 rows is used" in difference(kernel, good, shorter)
    other = [forward(memo=0), cmd.MatrixCopy(DX, X, 2.0), forward(DX, memo=1), forward(), backward(memo=1)]
    assert "output 'input' differs in 4 rows" in difference(kernel, good, other)


def test_a_memo_depends_on_all_rows_unless_they_are_apart() -> None:
    def kept(*before: Command) -> list[Command]:
        """Backward for all rows, of which those below got no derivative; their input is changed before."""
        silent = cmd.SetConst(LOWER[3], 0.0)
        after = [silent, backward(memo=0), cmd.SetConst(Y, 0.0), cmd.SetConst(LOWER[2], 0.0)]
        return [*before, forward(memo=0), *after]

    changed = kept(cmd.SetConst(LOWER[0], 1.0))
    apart = KernelInfo("k", **APART, uses_memo=True)
    assert difference(apart, kept(), changed) == ""
    mixing = replace(apart, rows_apart=False, backprop_rows_apart=False)
    assert "output 'input' differs in 2 rows: 0, 1" in difference(mixing, kept(), changed)


def test_random_kernels_draw_in_the_order_of_their_calls() -> None:
    random = KernelInfo("k", **APART, is_random=True)
    turned = HALVES[::-1]
    assert difference(random, [forward()], HALVES) == ""
    assert "output 'output' differs in 4 rows" in difference(random, HALVES, turned)
    assert difference(KernelInfo("k", **APART), HALVES, turned) == ""
    again = [forward(), forward()]
    assert "output 'output' differs in 4 rows" in difference(random, [forward()], again)


def test_run_again_gives_what_the_memo_remembers() -> None:
    random = KernelInfo("k", **APART, is_random=True, uses_memo=True, repeats_forward=True)
    once = [forward(memo=0)]
    again = cmd.PropagateAgain(0, "node", (X,), Y, memo=0)
    assert difference(random, once, [*once, cmd.SetConst(Y, 0.0), again]) == ""
    drawn = [*once, forward(memo=1)]
    assert "output 'output' differs in 4 rows" in difference(random, once, drawn)


def test_indexes_tell_rows_apart() -> None:
    """A kernel that is not row by row may be given its rows in another order only if it knows nothing of them."""
    iteration = [2, 3, 0, 1]
    turned: list[Command] = [cmd.CopyRows(DX, X, 0), forward(DX), cmd.SetConst(DX, 0.0)]
    kernel = KernelInfo("k", needs_indexes=True)
    assert "output 'output' differs in 4 rows" in difference(kernel, [forward()], turned, (iteration,))


def test_derivatives_without_samples_have_rows_with_numbers() -> None:
    """Those of a parameter that is transposed, for instance; those of samples may stand in any order."""
    iteration = [2, 3, 0, 1]
    plain, turned = [backward()], [backward(dx=X), cmd.CopyRows(DX, X, 0)]
    kernel = KernelInfo("k")
    assert difference(kernel, plain, turned, (iteration,)) == ""
    without = [program(kernel, *commands, tables=(iteration,)) for commands in (plain, turned)]
    for each in without:
        each.matrix_info = {matrix: MatrixInfo("node", is_deriv=True, indexes=None) for matrix in (X, DX)}
    with pytest.raises(ProofError, match="output 'input' differs in 4 rows"):
        prove_equal([PassResult("", each) for each in without])


def test_statistics_are_of_all_that_was_computed() -> None:
    """Some types look at every second call: what they store of halves is not what they store of all rows."""
    kernel = KernelInfo("k", **APART, stores_stats=True)
    stored = [forward(*half[:2], store_stats=True) for half in (UPPER, LOWER)]
    whole = [forward(store_stats=True)]
    assert difference(kernel, stored, stored[::-1]) == ""
    for others in (stored, [forward(), stored[0]]):
        assert "statistics of kernel 'k' differs" in difference(kernel, whole, others)
    assert "statistics of kernel 'k' is missing" in difference(kernel, whole, [forward()])


def test_parts_of_a_product_add_up_to_it() -> None:
    whole = KernelInfo("k", (InputPromises(is_linear=True),), **APART, has_slices=True)

    over = InputPromises(is_linear=True, propagate_in_place=True)

    def parts(first: int, *, adds: bool = True) -> NnetComputation:
        c = program(whole)
        c.kernels += [
            KernelInfo(slice_name("k", 0, first, adds=False), whole.inputs, **APART),
            KernelInfo(slice_name("k", first, _COLS, adds=adds), (*whole.inputs, over)[: 1 + adds], **APART),
        ]
        left, right = c.new_submatrix(X, 0, _ROWS, 0, first), c.new_submatrix(X, 0, _ROWS, first, _COLS - first)
        inputs = (right, Y) if adds else (right,)
        made = [cmd.Propagate(1, "node", (left,), Y), cmd.Propagate(2, "node", inputs, Y)]
        return replace(c, commands=[*c.commands[:-2], *made, *c.commands[-2:]])

    one = PassResult("", program(whole, forward()))
    for first in (1, 2):
        prove_equal([one, PassResult("cut", parts(first))])
    with pytest.raises(ProofError, match="after pass 'cut': output 'output' differs in 4 rows"):
        prove_equal([one, PassResult("cut", parts(1, adds=False))])
