"""What a kernel goes backward with decides which matrices can share a place."""

from __future__ import annotations

from nnet3.engine.ir.parser import parse_computation
from nnet3.engine.ir.passes.pipeline import optimize
from tests.ir.passes.text_cases import FOLDER, cases
from tests.ir.programs import run


def test_what_comes_next_works_in_place() -> None:
    (case,) = cases(FOLDER / "keep_inputs.txt")
    before = parse_computation(case.before)
    after = optimize(before, check_between=True)
    run(after).check_equals(run(before))
    assert run(after).peak_elements < run(optimize(before, disabled={"keep_inputs"})).peak_elements
