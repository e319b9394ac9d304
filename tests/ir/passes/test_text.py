"""The programs in `text/`: each pass makes of the first program the second, which computes the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from nnet3.engine.ir.checker import check_computation
from nnet3.engine.ir.parser import parse_computation
from nnet3.engine.ir.passes.pipeline import PIPELINE
from nnet3.engine.ir.proof.equal import PassResult, prove_equal
from tests.ir.passes import rewrite, text_cases
from tests.ir.passes.text_cases import Case, all_cases, result

CASES = all_cases()


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_a_pass_makes_the_second_program_of_the_first(case: Case) -> None:
    assert result(case).splitlines() == case.after.splitlines()
    before = parse_computation(case.before)
    text = before.text(full=True)
    after = case.step.function(before)
    assert before.text(full=True) == text, "the argument is not changed"
    check_computation(before)
    check_computation(after)
    prove_equal([PassResult("", before), PassResult(case.step.name, after)])
    assert case.step.function(after) is after, "there is nothing left to do"


def test_every_pass_has_a_file() -> None:
    assert {case.step.name for case in CASES} == {p.name for p in PIPELINE}


def test_no_case_is_there_twice() -> None:
    assert len({case.before.split("\n", 1)[1] + case.step.name for case in CASES}) == len(CASES)


def test_files_are_written_anew_but_not_in_ci(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "dead_code.txt").write_text(
        "# A constant that nobody reads.\nm1(2, 3)\nm1 = zeros(2, 3)\nm1.set(1)\nm1 = []\n---\nunchanged\n"
    )
    monkeypatch.setattr(rewrite, "FOLDER", tmp_path)
    monkeypatch.setenv("CI", "true")
    with pytest.raises(SystemExit, match="at home"):
        rewrite.main()
    monkeypatch.delenv("CI")
    rewrite.main()
    (case,) = text_cases.cases(tmp_path / "dead_code.txt")
    assert case.after == ""
