"""All passes, alone and together: equal results, valid computations, nothing left to do in the end."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

from nnet3.engine.ir.checker import check_computation
from nnet3.engine.ir.commands import Propagate
from nnet3.engine.ir.computation import NnetComputation
from nnet3.engine.ir.passes import pipeline
from nnet3.engine.ir.passes.pipeline import PIPELINE, Pass, optimize, prove_results
from nnet3.engine.ir.proof.equal import PassResult
from nnet3.errors import ComputationCheckError, Nnet3Error, ProofError
from tests.call_count import count_calls
from tests.effort import draws
from tests.ir.programs import lines, recurrence, run, training_step
from tests.ir.random_programs import programs


@pytest.mark.parametrize("one", PIPELINE, ids=[p.name for p in PIPELINE])
@settings(max_examples=draws(12))
@given(computation=programs())
def test_every_pass_keeps_results_and_is_done_after_once(one: Pass, computation: NnetComputation) -> None:
    before = str(computation)
    result = one.function(computation)
    assert str(computation) == before, "the argument is not changed"
    check_computation(result)
    run(result).check_equals(run(computation))
    again = one.function(result)
    assert one.function(again) is again
    may = one.name in ("share_copies", "work_in_place", "postpone_derivatives")
    assert again is result or may, "what has failed together may do alone"


@settings(max_examples=draws(60))
@given(programs())
def test_all_passes_together(computation: NnetComputation) -> None:
    result = optimize(computation, check_between=True)
    run(result).check_equals(run(computation))
    assert run(result).peak_elements <= run(computation).peak_elements + _collected(result, computation)


def _collected(result: NnetComputation, computation: NnetComputation) -> int:
    """The elements of matrices that a pass has added."""
    return sum(m.num_rows * m.num_cols for m in result.matrices[len(computation.matrices) :])


@pytest.mark.parametrize("make", [training_step, lambda: recurrence(4)], ids=["step", "recurrence"])
def test_hand_built_programs(make: type) -> None:
    computation = make()
    result = optimize(computation, check_between=True)
    run(result).check_equals(run(computation))
    assert optimize(result) is result


def test_passes_have_their_order() -> None:
    assert [p.name for p in PIPELINE] == [
        "hoist_products",
        "postpone_derivatives",
        "write_where_copied",
        "dead_code",
        "keep_inputs",
        "share_copies",
        "work_in_place",
        "compress_signs",
        "pack_weights",
        "rematerialize",
        "move_sizing",
    ]


def test_with_all_passes_disabled_nothing_changes() -> None:
    computation = recurrence(3)
    assert optimize(computation, disabled={p.name for p in PIPELINE}) is computation


def test_levels_are_nested() -> None:
    """Level 0 runs nothing, 1 what is cheap, 4 all; each keeps results."""
    computation = recurrence(3)
    ran: list[list[str]] = []
    for level in range(5):
        names: list[str] = []
        result = optimize(computation, dump=lambda name, _, names=names: names.append(name), level=level)
        run(result).check_equals(run(computation))
        ran.append(names[1:])
    assert ran[0] == []
    assert ran[1] == ["dead_code", "move_sizing"]
    assert [name for name in ran[3] if name in ran[2]] == ran[2]
    assert [name for name in ran[4] if name in ran[3]] == ran[3]
    assert ran[4] == [p.name for p in PIPELINE]
    assert optimize(computation, level=0) is computation


def test_a_level_leaves_out_disabled_passes() -> None:
    names: list[str] = []
    optimize(recurrence(3), {"dead_code"}, dump=lambda name, _: names.append(name), level=1)
    assert names == ["", "move_sizing"]


def test_an_unknown_pass_is_refused() -> None:
    with pytest.raises(Nnet3Error, match="what is optimized must be a computation, got None"):
        optimize(None)  # type: ignore[arg-type]
    with pytest.raises(Nnet3Error, match=r"no pass is called 'move_sizes': did you mean 'move_sizing'\?"):
        optimize(training_step(), disabled=["move_sizes"])
    with pytest.raises(Nnet3Error, match="no pass is called 'x': the passes are hoist_products, postpone_deriv"):
        optimize(training_step(), disabled=["x"])


def test_dump_sees_the_computation_after_each_pass() -> None:
    seen: list[tuple[str, int]] = []
    computation = training_step()
    optimize(computation, disabled=["move_sizing"], dump=lambda name, c: seen.append((name, lines(c).count("m6 = m5"))))
    assert seen == [
        ("", 0),
        ("hoist_products", 0),
        ("postpone_derivatives", 0),
        ("write_where_copied", 0),
        ("dead_code", 0),
        ("keep_inputs", 0),
        ("share_copies", 0),
        ("work_in_place", 0),
        ("compress_signs", 0),
        ("pack_weights", 0),
        ("rematerialize", 0),
    ]


def test_a_failure_names_the_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    def lose_first_allocation(computation: NnetComputation) -> NnetComputation:
        result = computation.copy()
        del result.commands[0]
        return result

    monkeypatch.setattr(pipeline, "PIPELINE", (*PIPELINE, Pass("clumsy", lose_first_allocation)))
    optimize(training_step())
    with pytest.raises(ComputationCheckError, match="after pass 'clumsy': c0: m1 = user input"):
        optimize(training_step(), check_between=True)


def test_programs_whose_results_are_kept_in_a_list_are_proved_together(monkeypatch: pytest.MonkeyPatch) -> None:
    def lose_an_operation_of_five_steps(computation: NnetComputation) -> NnetComputation:
        if all(matrix.num_rows < 2 * 5 for matrix in computation.matrices):
            return computation
        result = computation.copy()
        del result.commands[max(k for k, each in enumerate(result.commands) if isinstance(each, Propagate))]
        return result

    def results() -> list[PassResult]:
        found = list[PassResult]()
        for steps in (3, 5):
            optimize(recurrence(steps), prove=found)
        return found

    prove_results(results())
    monkeypatch.setattr(pipeline, "PIPELINE", (*PIPELINE, Pass("careless", lose_an_operation_of_five_steps)))
    with pytest.raises(ProofError, match="after pass 'careless'"):
        prove_results(results())


def test_a_broken_argument_is_no_fault_of_a_pass() -> None:
    computation = training_step()
    del computation.commands[0]
    with pytest.raises(ComputationCheckError, match="before the first pass: c9: m1 = user input"):
        optimize(computation, check_between=True)


def test_cost_grows_with_the_program_and_not_with_its_square() -> None:
    small, large = recurrence(50), recurrence(500)
    calls = count_calls(optimize, large) / count_calls(optimize, small)
    checks = count_calls(check_computation, large) / count_calls(check_computation, small)
    commands = len(large.commands) / len(small.commands)
    assert calls < 1.1 * commands
    assert checks < 1.1 * commands
