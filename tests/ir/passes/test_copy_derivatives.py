"""Derivatives that a kernel passes on become copies, of which none is left where both can lie in one place."""

from __future__ import annotations

import pytest

from nnet3.ir import commands as cmd
from nnet3.ir.computation import NnetComputation
from nnet3.ir.kernel import InputPromises, KernelInfo
from nnet3.ir.passes.copy_derivatives import copy_derivatives
from nnet3.ir.passes.share_copies import share_copies
from tests.ir.passes.two_kernels import OUT, A, B, C, X, affine, program
from tests.ir.programs import lines, run
from tests.ir.toy_kernels import SUM


def backprop(written: tuple[int, int], added: tuple[int, int]) -> NnetComputation:
    """A sum whose terms are A and B; its derivative is C. What they get goes to the output."""
    back = cmd.Backprop(SUM, "sum", (0, 0), 0, C, written, added, update=True)
    read = [affine(A, OUT), cmd.MatrixAdd(OUT, B)]
    return program(affine(X, A), affine(X, B), affine(X, C), back, *read)


@pytest.mark.parametrize(
    ("written", "added", "found"),
    [
        ((A, B), (0, 0), ["m2 = m4", "m3 = m4"]),
        ((A, 0), (0, B), ["m2 = m4", "m3 += m4"]),
        ((0, B), (0, 0), ["m3 = m4"]),
    ],
)
def test_derivatives_are_copies(written: tuple[int, int], added: tuple[int, int], found: list[str]) -> None:
    computation = backprop(written, added)
    result = copy_derivatives(computation)
    assert [line for line in lines(result) if line.startswith(("m2 ", "m3 ")) and "m4" in line] == found
    assert not any("Backprop" in line for line in lines(result))
    run(result).check_equals(run(computation))
    assert copy_derivatives(result) is result


def test_copies_that_nobody_changes_are_shared() -> None:
    result = share_copies(copy_derivatives(backprop((A, B), (0, 0))))
    assert not any(isinstance(command, cmd.MatrixCopy) for command in result.commands)
    run(result).check_equals(run(backprop((A, B), (0, 0))))


def test_what_a_kernel_has_to_compute_stays() -> None:
    """The first term is a column that is repeated: no promise."""
    computation = backprop((A, B), (0, 0))
    promises = InputPromises(accumulates_deriv=True), InputPromises(accumulates_deriv=True, passes_deriv=True)
    computation.kernels[SUM] = KernelInfo("sum", promises, row_by_row=True)
    result = copy_derivatives(computation)
    wanted = ["sum.Backprop(([], []), [], m4, (&m2, [])) [update]", "m3 = m4"]
    assert [line for line in lines(result) if line in wanted] == wanted
    run(result).check_equals(run(computation))


def test_a_kernel_that_runs_several_times_stays() -> None:
    computation = backprop((A, B), (0, 0))
    computation.commands.insert(11, next(c for c in computation.commands if isinstance(c, cmd.Backprop)))
    assert copy_derivatives(computation) is computation
