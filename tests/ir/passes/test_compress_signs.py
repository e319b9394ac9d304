"""Values of which the backward pass needs signs only take one byte an element between the two passes."""

from __future__ import annotations

import pytest

from nnet3.ir import commands as cmd
from nnet3.ir.checker import check_computation
from nnet3.ir.computation import NnetComputation
from nnet3.ir.passes import compress_signs as module
from nnet3.ir.passes.compress_signs import compress_signs
from tests.ir.programs import lines, recurrence, run, training_step
from tests.ir.toy_kernels import RECTIFIER, SIGMOID


@pytest.fixture(autouse=True)
def _no_matrix_is_too_small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_FEWEST_COLUMNS", 1)


def rectified(c: NnetComputation) -> NnetComputation:
    """The same with a rectifier in the place of the sigmoid."""
    c.kernels[SIGMOID] = RECTIFIER
    return c


def test_a_matrix_of_signs_is_compressed_between_its_uses() -> None:
    before = rectified(training_step())
    after = compress_signs(before)
    check_computation(after)
    added = [line for line in lines(after) if line not in lines(before)]
    assert added == ["m5.compress()", "m5.decompress()"]
    text = lines(after)
    assert text.index("m5.compress()") == text.index("m6 += m5") + 1, "after the last that reads the value"
    assert "rectifier.Backprop" in text[text.index("m5.decompress()") + 1]
    run(after).check_equals(run(before))
    assert compress_signs(after) is after


def test_all_steps_of_a_recurrence_share_one_matrix() -> None:
    before = rectified(recurrence(4))
    after = compress_signs(before)
    check_computation(after)
    kinds = [type(command) for command in after.commands]
    assert kinds.count(cmd.CompressMatrix) == kinds.count(cmd.DecompressMatrix) <= 1
    run(after).check_equals(run(before))


def test_a_value_that_is_read_otherwise_stays() -> None:
    c = rectified(training_step())
    (marker,) = (n for n, command in enumerate(c.commands) if isinstance(command, cmd.SegmentMarker))
    value = next(command.output for command in c.commands if isinstance(command, cmd.Backprop) and command.output)
    other = next(command.source for command in c.commands if isinstance(command, cmd.ProvideOutput))
    assert other != value
    c.commands.insert(marker + 3, cmd.MatrixAdd(8, value))
    assert compress_signs(c) is c


def test_other_kernels_and_small_matrices_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = training_step()
    assert compress_signs(plain) is plain
    monkeypatch.setattr(module, "_FEWEST_COLUMNS", 1000)
    small = rectified(training_step())
    assert compress_signs(small) is small
