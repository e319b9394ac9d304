"""Native code of a link that becomes that of another plan: what works on views that stay is kept, others move along."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from nnet3 import cn
from nnet3.engine.driver import ComputationCache
from nnet3.engine.runtime import native_bound_runs
from tests.families.minibatches import minibatch, recurrence
from tests.native.native_code import needs_native_code

pytestmark = needs_native_code


def counted(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Calls whose operations are asked for."""
    calls: list[object] = []
    ask: Callable[[Any], Any] = native_bound_runs.operations_of

    def noting(call: Any) -> Any:
        calls.append(call)
        return ask(call)

    monkeypatch.setattr(native_bound_runs, "operations_of", noting)
    return calls


def test_a_set_of_lengths_that_ends_as_the_one_before_asks_for_no_operations(monkeypatch: pytest.MonkeyPatch) -> None:
    criterion, outputs = recurrence(1, "plain")
    net, alone = cn.Network(criterion, outputs, cache=ComputationCache()), cn.Network(criterion, outputs)
    alone.optimize = False
    # One longest sequence each, and less of all than in the first two sets, so that nothing but the last frame moves.
    sets = [(23, *[22 - number] * 11) for number in range(13)]
    compared = 0, 10, 11, 12
    expected = {number: alone.gradients(minibatch(net, sets[number])) for number in compared}
    calls = counted(monkeypatch)
    asked = []
    for number, lengths in enumerate(sets):
        calls.clear()
        found = net.gradients(minibatch(net, lengths))
        asked.append(len(calls))
        for name, gradient in expected.get(number, {}).items():
            size = np.abs(gradient).max() + 1e-3
            np.testing.assert_allclose(found[name] / size, gradient / size, atol=2e-5, err_msg=name)
    # Operations on all rows of a matrix, which has more or fewer in each set, are made anew.
    assert len(set(asked[10:])) == 1
    assert asked[-1] < asked[0] / 2
