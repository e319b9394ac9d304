"""`make plant`: bugs of a pass, of plans and of the proof are noticed, and one that no proof looks for is a hole."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from unittest import mock

from nnet3.engine.driver.proving import PROVE
from nnet3.engine.ir.computation import NnetComputation
from nnet3.engine.runtime import Plan, plan_of
from tests.effort import nightly
from tests.native.native_code import needs_native_code
from tests.random_networks import computable_request, random_network
from tests.spliced_recurrences import affine_loop
from tools.mutation.equivalent import read_equivalents
from tools.mutation.mutant import Mutant
from tools.plant.bugs import bugs_of
from tools.plant.cases import NnetCase, forget_plans
from tools.plant.planting import ROOT
from tools.plant.trial import CHECKER, EQUAL, EQUALS, HOLE, NOT_RUN, NUMBERS, PROOF, SAME, Trial
from tools.plant.wrong import missed
from tools.plant.wrong_programs import WRONG

MACHINE, TAPE = "src/nnet3/engine/ir/proof/machine.py", "src/nnet3/engine/ir/proof/tape.py"
MEMORY = "src/nnet3/engine/runtime/plan_memory.py"
OUTLINE = "src/nnet3/engine/runtime/unplaced_plan.py"
OPERATIONS = "src/nnet3/base/native/operations.py"
SIZING = "src/nnet3/engine/ir/passes/move_sizing.py"


def bug(path: str, before: str, after: str) -> Mutant:
    text = (ROOT / path).read_text()
    assert text.count(before) == 1
    start = text.index(before)
    line = text.count("\n", 0, start) + 1
    return Mutant(path, text, start, start + len(before), after, "planted", line, line, (line, line))


class Unproved(NnetCase):
    """Of which no program is proved, and no plan."""

    def programs(self) -> list[NnetComputation]:
        with mock.patch.dict(os.environ, {PROVE: "0"}):
            return super().programs()

    def plans(self, programs: Sequence[NnetComputation]) -> list[Plan]:
        forget_plans(programs)
        with mock.patch.dict(os.environ, {PROVE: "0"}):
            return [plan_of(program, "float64") for program in programs]


def states(kind: type[NnetCase], *bugs: Mutant) -> dict[str, str]:
    made = random_network(11)  # it needs zeros
    nnet = made.nnet()
    request = computable_request(nnet, made.request)
    assert request is not None
    trial = Trial([kind("needs zeros", nnet, [request])], bugs)
    with mock.patch.dict(os.environ, {PROVE: "all"}):
        return {each.replacement: verdict.state for each, verdict in trial.all(2)}


ENDS_EARLY = bug(SIZING, "analysis.last_access[matrix], _AFTER", "analysis.first_access[matrix], _AFTER")
MOVES_NO_ALLOCATION = bug(
    SIZING, "position[number], iteration[number] = analysis.first_access[matrix], _BEFORE", "pass"
)


def check_noticed(adds: Mutant, undefined: Mutant) -> None:
    """Check that bugs of a pass and of the proof are noticed: sums that overwrite; undefined memory that is zero."""
    found = states(NnetCase, ENDS_EARLY, MOVES_NO_ALLOCATION, adds, undefined)
    assert found == {each.replacement: PROOF for each in (ENDS_EARLY, adds, undefined)} | {"pass": EQUAL}


def test_bugs_of_a_pass_and_of_the_proof_are_noticed() -> None:
    check_noticed(
        bug(MACHINE, "field.reduced(target + values)", "values"),
        bug(MACHINE, "self._undefined.next(shape)", "np.zeros(shape, np.uint64)"),
    )


@needs_native_code
@nightly
def test_bugs_of_the_proof_by_native_code_are_noticed() -> None:
    check_noticed(
        bug(TAPE, "_recording.add(self.read(submatrix), values)", "_recording.write(self.read(submatrix), values)"),
        bug(
            TAPE, "_recording.randomize(target, self.randoms.asked(_UNDEFINED))", "_recording.write(target, field.ZERO)"
        ),
    )


@nightly
def test_what_nothing_notices_is_said() -> None:
    same = bug(SIZING, "if len(order) == analysis.num_commands and", "if False and")
    unreached = bug(SIZING, "return computation\n", "return None\n")
    assert states(NnetCase, same, unreached) == {"if False and": SAME, "return None\n": NOT_RUN}
    assert states(Unproved, ENDS_EARLY) == {ENDS_EARLY.replacement: CHECKER}


#: All matrices lie in one place.
PACKS_ALL_AT_ONCE = bug(OUTLINE, "offsets[matrices], num_bytes = pack(", "_, num_bytes = pack(")


@nightly
def test_bugs_of_plans_are_noticed() -> None:
    """And one of their proof, for which memory that nobody has written is zeros."""
    believes = bug(MEMORY, "self._marks[cells.first] != cells.marks", "self._marks[cells.first] == -2")
    found = states(NnetCase, PACKS_ALL_AT_ONCE, believes)
    assert found == {PACKS_ALL_AT_ONCE.replacement: PROOF, believes.replacement: PROOF}
    elsewhere = bug(OUTLINE, "offsets[number] = start * ALIGNMENT", "offsets[number] = 0")
    assert states(Unproved, elsewhere) == {elsewhere.replacement: HOLE}


@needs_native_code
@nightly
def test_numbers_notice_bugs_of_native_operations() -> None:
    made = affine_loop((-1, 0), -1)
    other = bug(OPERATIONS, "_by_element(Code.TANH, dest, source)", "_by_element(Code.SIGMOID, dest, source)")
    fails = bug(OPERATIONS, "return _by_element(Code.TANH_BACK, dest, gradient, value, addend)", "return None")
    trial = Trial([NnetCase("loop", made.nnet(), [made.request])], [other, fails])
    assert [verdict.state for _, verdict in trial.all(1)] == [NUMBERS, NOT_RUN]


def test_what_is_wrong_by_hand_is_not_missed() -> None:
    assert missed() == []
    assert len(WRONG) == 12


def test_equal_bugs_are_bugs() -> None:
    """Each entry names a bug that can still be planted, so that the list does not outlive the code."""
    entries = list(read_equivalents(EQUALS))
    with mock.patch.object(Mutant, "compiles", True):  # asked of thousands
        bugs = {
            (path, *each.change): each
            for path in dict.fromkeys(path for path, *_ in entries)
            for each in bugs_of(path, (ROOT / path).read_text(), sys.maxsize, seed=0)
        }
    for entry in entries:
        assert entry in bugs, entry
        assert bugs[entry].compiles


def test_bugs_of_a_file_are_of_many_kinds_and_inside_functions() -> None:
    text = (ROOT / MACHINE).read_text()
    bugs = bugs_of(MACHINE, text, 12, seed=0)
    assert len({each.kind for each in bugs}) > 9
    assert all(each.compiles and each.mutated != text for each in bugs)
