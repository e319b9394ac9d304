"""CompilerDraws: rows are found round by round, and a computation that is compiled draws nothing again."""

from __future__ import annotations

from nnet3 import Nnet
from nnet3.training.examples.c_random import CRandom
from nnet3.training.rnnlm.compiler_draws import CompiledRows, CompilerDraws

_AFFINE = """input-node name=input dim=2
component name=affine type=AffineComponent input-dim=2 output-dim=2
component-node name=affine component=affine input=input
output-node name=output input=affine
"""
_LOOP = """input-node name=input dim=2
component name=affine type=AffineComponent input-dim=4 output-dim=2
component name=trunc type=BackpropTruncationComponent dim=2
component-node name=affine component=affine input=Append(input, IfDefined(Offset(trunc, {offset})))
component-node name=trunc component=trunc input=affine
output-node name=output input=affine
"""


class _Counting(CRandom):
    """Counts its draws."""

    count = 0

    def draw(self) -> int:
        self.count += 1
        return super().draw()


def test_rows_are_found_from_the_output_back() -> None:
    sizes = CompiledRows(Nnet.from_config(_AFFINE).parts, 1, 3).sizes
    assert sizes[:2] == [9, 12]  # the input and output of 3 times, rows of the kernel, rows of its input
    assert set(sizes[2:]) == {12}
    # what is computable goes the same way forward: input row, kernel row, output row, one round each
    assert len(sizes) == 6


def test_a_recurrence_has_a_step_for_each_depth() -> None:
    every = CompiledRows(Nnet.from_config(_LOOP.format(offset=-1)).parts, 2, 5)
    assert sorted(every.rows_of_steps()) == [2] * 4  # nobody needs trunc(4), and nobody has trunc(-1)
    third = CompiledRows(Nnet.from_config(_LOOP.format(offset=-3)).parts, 2, 8)
    assert sorted(third.rows_of_steps()) == [4, 6]  # trunc at t = 0, 1, 2, then at 3, 4


def test_only_what_is_new_is_compiled() -> None:
    random = _Counting(0)
    draws = CompilerDraws(Nnet.from_config(_LOOP.format(offset=-1)), random)

    def drawn(num_sequences: int, num_times: int) -> int:
        before = random.count
        draws.compile(num_sequences, num_times)
        return random.count - before

    assert drawn(8, 5) > 16
    assert drawn(8, 5) == 0
    assert drawn(6, 5) == 16  # two numbers for input and output of four steps
    assert drawn(2, 5) == 0
    assert drawn(1, 5) > 0
    assert drawn(8, 6) > 20
