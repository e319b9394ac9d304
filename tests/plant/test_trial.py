"""`make plant`: bugs of a pass and of the proof are noticed, and one that no proof looks for is a hole."""

from __future__ import annotations

import os
from pathlib import Path
from unittest import mock

import pytest

from nnet3.driver.proving import PROVE
from nnet3.ir.computation import NnetComputation
from nnet3.native.library import library
from nnet3.options import CompileOptions
from tests.random_networks import computable_request, random_network
from tools.mutation.mutant import Mutant
from tools.plant.bugs import bugs_of
from tools.plant.corpus import NnetCase
from tools.plant.trial import EQUAL, HOLE, PROOF, SAME, Trial, missed_programs
from tools.plant.wrong_programs import WRONG

ROOT = Path(__file__).resolve().parents[2]
MACHINE, TAPE = "src/nnet3/ir/proof/machine.py", "src/nnet3/ir/proof/tape.py"
SIZING = "src/nnet3/ir/passes/move_sizing.py"
ZEROING = "src/nnet3/ir/passes/remove_unneeded_zeroing.py"


def bug(path: str, before: str, after: str) -> Mutant:
    text = (ROOT / path).read_text()
    assert text.count(before) == 1
    start = text.index(before)
    line = text.count("\n", 0, start) + 1
    return Mutant(path, text, start, start + len(before), after, "planted", line, line, (line, line))


class Unproved(NnetCase):
    """Of which no program is proved."""

    def programs(self) -> list[NnetComputation]:
        with mock.patch.dict(os.environ, {PROVE: "0"}):
            return super().programs()


def states(kind: type[NnetCase], *bugs: Mutant) -> dict[str, str]:
    made = random_network(11)  # it needs zeros
    nnet = made.nnet()
    request = computable_request(nnet, made.request)
    assert request is not None
    trial = Trial([kind("needs zeros", nnet, [request], CompileOptions())])
    return {each.replacement: verdict.state for each, verdict in trial.all(bugs, 2)}


ZEROES_NOTHING = bug(ZEROING, "and not needs_zeros[matrix]", "")
MOVES_NO_ALLOCATION = bug(SIZING, "place[number], turn[number] = analysis.first_access[matrix], _BEFORE", "pass")


def check_noticed(adds: Mutant, undefined: Mutant) -> None:
    """Check that bugs of a pass and of the proof are noticed: sums that overwrite; undefined memory that is zero."""
    found = states(NnetCase, ZEROES_NOTHING, MOVES_NO_ALLOCATION, adds, undefined)
    assert found == {each.replacement: PROOF for each in (ZEROES_NOTHING, adds, undefined)} | {"pass": EQUAL}


def test_bugs_of_a_pass_and_of_the_proof_are_noticed() -> None:
    check_noticed(
        bug(MACHINE, "field.reduced(place + values)", "values"),
        bug(MACHINE, "self._undefined.next(shape)", "np.zeros(shape, np.uint64)"),
    )


@pytest.mark.skipif(library() is None, reason="there is no native code")
def test_bugs_of_the_proof_by_native_code_are_noticed() -> None:
    check_noticed(
        bug(TAPE, "_recording.add(self.read(submatrix), values)", "_recording.write(self.read(submatrix), values)"),
        bug(TAPE, "_recording.randomize(place, self.randoms.asked(_UNDEFINED))", "_recording.write(place, field.ZERO)"),
    )


def test_what_nothing_notices_is_said() -> None:
    same = bug(ZEROING, "if not analysis.begins_as_zeros.any():", "if False:")
    assert states(NnetCase, same) == {"if False:": SAME}
    assert states(Unproved, ZEROES_NOTHING) == {"": HOLE}


def test_wrong_programs_are_wrong() -> None:
    assert missed_programs() == []
    assert len(WRONG) == 10


def test_bugs_of_a_file_are_of_many_kinds_and_inside_functions() -> None:
    text = (ROOT / MACHINE).read_text()
    bugs = bugs_of(MACHINE, text, 12, seed=0)
    assert len({each.kind for each in bugs}) > 9
    assert all(each.compiles and each.mutated != text for each in bugs)
