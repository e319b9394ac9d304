"""The corpus makes every pass do something, and every way in which programs and plans are made of others."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from unittest import mock

import pytest

from nnet3.engine.driver.proving import PROVE
from nnet3.engine.ir.computation import NnetComputation
from nnet3.engine.ir.passes import pipeline
from nnet3.engine.ir.passes.pipeline import PIPELINE, Pass
from tests.effort import nightly
from tools.plant.cases import Case, forget_plans
from tools.plant.corpus import corpus
from tools.plant.program_cases import OptimizedPrograms

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(scope="module")
def cases() -> list[Case]:
    return corpus()


@pytest.fixture(autouse=True)
def _nothing_is_proved() -> Iterator[None]:
    with mock.patch.dict(os.environ, {PROVE: "0"}):
        yield


def noting(one: Pass, changes: Counter[str]) -> Pass:
    def function(computation: NnetComputation) -> NnetComputation:
        result = one.function(computation)
        changes[one.name] += result is not computation
        return result

    return replace(one, function=function)


@nightly
def test_each_pass_changes_programs(cases: list[Case], monkeypatch: pytest.MonkeyPatch) -> None:
    changes = Counter[str]()
    monkeypatch.setattr(pipeline, "PIPELINE", tuple(noting(each, changes) for each in PIPELINE))
    names = {each.name for each in PIPELINE}
    by_hand = [case for case in cases if isinstance(case, OptimizedPrograms)]
    for case in (case for case in cases if case not in by_hand and "several" not in case.name):
        if not all(changes[name] for name in names):
            case.programs()
    for case in by_hand:
        case.programs()
    assert {name for name in names if changes[name]} == names


def test_names_of_cases_are_their_own(cases: list[Case]) -> None:
    assert max(Counter(case.name for case in cases).values()) == 1


@nightly
@pytest.mark.parametrize("name", ["LSTM, plain, lag 1", "feedforward, several lengths"])
def test_programs_and_plans_are_made_of_others(cases: list[Case], name: str) -> None:
    """Continued from short ones, or restricted; then plans are had by arithmetic, and made anew when forgotten."""
    (case,) = (case for case in cases if case.name == name)
    programs = case.programs()
    assert sum(program.member is not None or program.row_numbers is not None for program in programs) >= 2
    plans = case.plans(programs)
    assert any(one.has_calls_of(other) for one in plans for other in plans if one is not other)
    forget_plans(programs)
    assert not any(program.attachments for program in programs)
