"""CheckedLengths: it refuses the sets of lengths that the checker refuses, and soon looks at no set any more."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given, settings, strategies as st

import nnet3
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
from tests.driver.ragged_requests import ragged_request
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
    counted = np.flatnonzero(ragged.regions.last >= ragged.regions.first + SEQUENCES)
    assume(len(counted))
    if not is_right:
        last = ragged.regions.last.copy()
        last[counted[int(which * (len(counted) - 1))]] -= SEQUENCES
        ragged.regions = replace(ragged.regions, last=last)
    checked = CheckedLengths(ragged)
    for missing in map(sorted, sets):
        try:
            made = restricted(ragged, missing)
        except NotRaggedError:
            continue
        expected = passes(lambda made=made: check_computation(made))  # type: ignore[misc]
        assert passes(lambda these=missing, made=made: checked.check(these, made)) == expected  # type: ignore[misc]


@pytest.fixture
def looked_at(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The numbers of commands of the programs that are checked, one after the other."""
    found = list[int]()

    def check(computation: NnetComputation) -> None:
        found.append(len(computation.commands))
        check_computation(computation)

    monkeypatch.setattr(ragged_check, "check_computation", check)
    return found


def test_a_few_checks_do_for_all_sets(looked_at: list[int]) -> None:
    ragged = ragged_of(recurrence(-1, "late")[0])
    checked, rng = CheckedLengths(ragged), np.random.default_rng(1)
    for _ in range(40):
        missing = np.sort(rng.integers(LENGTH, size=SEQUENCES)).tolist()
        checked.check(missing, restricted(ragged, missing))
    assert 1 <= len(looked_at) <= 4


def test_a_few_checks_do_where_kernels_precompute_of_all_rows(looked_at: list[int]) -> None:
    """Lengths are checked ahead, and one program of each form."""
    nnet = nnet3.Nnet.from_config("""
        input-node name=input dim=3
        component name=conv type=TdnnComponent input-dim=3 output-dim=4 time-offsets=-1,0,1
        component-node name=conv component=conv input=input
        output-node name=output input=conv
    """)
    cache, rng = nnet3.ComputationCache(), np.random.default_rng(1)
    for number in range(40):
        lengths = [20, *rng.integers(3, 20, size=5).tolist()]
        program = cache.compile(nnet, ragged_request(nnet, lengths, margin=1))
        assert number < 20 or program.is_lazy
    assert cache.counts.restricted == 40
    assert 1 <= len(looked_at) <= 8


def test_lengths_are_checked_with_the_longest_of_the_set(monkeypatch: pytest.MonkeyPatch) -> None:
    """What kernels precompute for it is used again: there is none for other lengths or numbers of sequences."""
    ragged = ragged_of(recurrence(1, "plain")[0])
    checked, made = CheckedLengths(ragged), list[list[int]]()

    def noting(program: RaggedProgram, missing: list[int], *_: object, is_lazy: bool) -> NnetComputation:
        made.append(missing)
        return restricted(program, missing, is_lazy=is_lazy)

    monkeypatch.setattr(ragged_check, "restricted", noting)
    for missing in ([2, 3, 3, 5, 5], [2, 2, 4, 5, 5], [2, 2, 2, 2, 7], [0, 0, 0, 0, 8], [1, 1, 1, 1, 1]):
        checked.check(missing, restricted(ragged, missing))
    assert made == [[2, 2, 3, 4, 5], [2, 2, 2, 6, 7], [0, 0, 0, 1, 8]]
