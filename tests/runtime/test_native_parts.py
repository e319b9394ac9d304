"""Native code of a link that becomes that of another plan: what works on views that stay is kept, others move along."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from nnet3 import cn
from nnet3.driver import ComputationCache
from nnet3.native.operations import ADDRESSES, NUM_MATRICES
from nnet3.runtime import native_parts
from nnet3.runtime.loop_turns import STAYS
from nnet3.runtime.native_parts import _StraightRun
from nnet3.runtime.native_runs import NativeRun
from tests.families.minibatches import minibatch, recurrence
from tests.native.native_code import needs_native_code

pytestmark = needs_native_code


def run_on(*addresses: list[int]) -> NativeRun:
    rows = [(7, 3, 5, 2, 0, *own, *[0] * (NUM_MATRICES - len(own)), *range(NUM_MATRICES)) for own in addresses]
    return NativeRun([(row, STAYS) for row in rows], 1)


#: Where the memory of views 0 to 3 begins and ends; view 2 lies in view 1.
STRETCHES = np.array([[1000, 1100], [2000, 2100], [2040, 2080], [3000, 3100]])


@pytest.mark.parametrize(
    ("moves", "expected"),
    [
        ([0, 0, 0, 8], [[1000, 2000, 3008], [1004, 2040, 0]]),
        ([16, 400, 400, 0], [[1016, 2400, 3000], [1020, 2440, 0]]),
        ([0, 400, 0, 0], None),  # 2040 may be of view 1 or of view 2
    ],
)
def test_addresses_move_with_the_views_in_which_they_lie(moves: list[int], expected: list[list[int]] | None) -> None:
    run = run_on([1000, 2000, 3000], [1004, 2040])
    straight = _StraightRun(run, [{0, 1, 3}, {0, 1, 2}])
    before = run.addresses.copy()
    assert straight.move(STRETCHES, np.array(moves)) is (expected is not None)
    assert run.addresses.shape == run._arrays[0][:, ADDRESSES].shape
    found = run.addresses[:, :3].tolist()
    assert found == (before[:, :3].tolist() if expected is None else expected)


def test_views_of_other_operations_do_not_count() -> None:
    """Memory is lent to several matrices, one after the other."""
    run = run_on([2000], [2040])
    straight = _StraightRun(run, [{1}, {2}])
    assert straight.move(STRETCHES, np.array([0, 400, 8, 0]))
    assert run.addresses[:, 0].tolist() == [2400, 2048]


def counted(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Calls whose operations are asked for."""
    calls: list[object] = []
    ask: Callable[[Any], Any] = native_parts.operations_of

    def noting(call: Any) -> Any:
        calls.append(call)
        return ask(call)

    monkeypatch.setattr(native_parts, "operations_of", noting)
    return calls


def test_a_set_of_lengths_that_ends_as_the_one_before_asks_for_no_operations(monkeypatch: pytest.MonkeyPatch) -> None:
    criterion, outputs = recurrence(1, "plain")
    net, alone = cn.Network(criterion, outputs, cache=ComputationCache()), cn.Network(criterion, outputs)
    alone.optimize = False
    # One longest sequence each, and less of all than in the first two sets, so that nothing but the last frame moves.
    sets = [(47, *[46 - number] * 11) for number in range(13)]
    expected = [alone.gradients(minibatch(net, lengths)) for lengths in sets]
    calls = counted(monkeypatch)
    asked = []
    for lengths, gradients in zip(sets, expected, strict=True):
        calls.clear()
        found = net.gradients(minibatch(net, lengths))
        asked.append(len(calls))
        for name, gradient in gradients.items():
            size = np.abs(gradient).max() + 1e-3
            np.testing.assert_allclose(found[name] / size, gradient / size, atol=2e-5, err_msg=name)
    # Operations on all rows of a matrix, which has more or fewer in each set, are made anew.
    assert len(set(asked[10:])) == 1
    assert asked[-1] < asked[0] / 2
