"""CheckedLengths: it refuses the sets of lengths that the checker refuses, and soon looks at no set any more."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given, settings, strategies as st

from nnet3 import cn
from nnet3.cn.node import Node
from nnet3.engine.families import ragged_check
from nnet3.engine.families.ragged_check import CheckedLengths
from nnet3.engine.families.ragged_program import RaggedProgram
from nnet3.engine.families.ragged_rows import NotRaggedError
from nnet3.engine.families.restriction import restricted
from nnet3.engine.ir.checker import check_computation
from nnet3.engine.ir.computation import NnetComputation
from nnet3.engine.ir.program_tables import MatrixInfo
from nnet3.errors import ComputationCheckError, NetworkError
from tests.cn.random_graphs import networks
from tests.effort import draws
from tests.families.minibatches import minibatch, recurrence

LENGTH, SEQUENCES = 9, 5
SETS = st.lists(st.lists(st.integers(0, LENGTH - 1), min_size=1, max_size=SEQUENCES), min_size=1, max_size=8)


def distances(info: MatrixInfo) -> np.ndarray:
    assert info.indexes is not None
    return np.asarray(LENGTH - 1 - info.indexes[:, 1].astype(np.int64))


def ragged_of(criterion: Node) -> RaggedProgram:
    network = cn.Network(criterion)
    return RaggedProgram(network.program(minibatch(network, [LENGTH] * SEQUENCES)), distances)


def passes(check: Callable[[], None]) -> bool:
    try:
        check()
    except ComputationCheckError:
        return False
    return True


@settings(max_examples=draws(10))
@given(st.one_of(networks().map(lambda made: made[0]), st.just(None)), SETS, st.floats(0, 1), st.booleans())
def test_it_refuses_what_the_checker_refuses(
    criterion: Node | None, sets: list[list[int]], which: float, is_right: bool
) -> None:
    """Of programs that are right, and of those in which one sub-matrix lacks the rows of its last step."""
    try:
        ragged = ragged_of(recurrence(1, "plain")[0] if criterion is None else criterion)
    except (NetworkError, NotRaggedError):
        assume(False)
    counted = np.flatnonzero(ragged.slots.last >= ragged.slots.first + SEQUENCES)
    assume(len(counted))
    if not is_right:
        last = ragged.slots.last.copy()
        last[counted[int(which * (len(counted) - 1))]] -= SEQUENCES
        ragged.slots = replace(ragged.slots, last=last)
    checked = CheckedLengths(ragged)
    for shorter in map(sorted, sets):
        try:
            made = restricted(ragged, shorter)
        except NotRaggedError:
            continue
        expected = passes(lambda made=made: check_computation(made))  # type: ignore[misc]
        assert passes(lambda these=shorter, made=made: checked.check(these, made)) == expected  # type: ignore[misc]


def test_a_few_checks_do_for_all_sets(monkeypatch: pytest.MonkeyPatch) -> None:
    ragged, looked_at = ragged_of(recurrence(-1, "late")[0]), list[int]()

    def check(computation: NnetComputation) -> None:
        looked_at.append(len(computation.commands))
        check_computation(computation)

    monkeypatch.setattr(ragged_check, "check_computation", check)
    checked, rng = CheckedLengths(ragged), np.random.default_rng(1)
    for _ in range(40):
        shorter = np.sort(rng.integers(LENGTH, size=SEQUENCES)).tolist()
        checked.check(shorter, restricted(ragged, shorter))
    assert 1 <= len(looked_at) <= 4
