"""The random programs are valid, and varied enough to be worth the name."""

from __future__ import annotations

from collections import Counter
from random import Random

from hypothesis import given, settings

from nnet3.engine.ir.checker import check_computation
from nnet3.engine.ir.commands import PropagateAgain, Repeat
from nnet3.engine.ir.computation import NnetComputation
from nnet3.engine.ir.passes.pipeline import PIPELINE
from tests.effort import draws
from tests.ir.programs import command_types, run
from tests.ir.random_programs import ProgramWriter, programs


@settings(max_examples=draws(60))
@given(programs())
def test_random_programs_are_valid(computation: NnetComputation) -> None:
    check_computation(computation)
    run(computation).check_equals(run(computation))


def test_random_programs_are_varied() -> None:
    computations = [ProgramWriter(Random(seed)).program() for seed in range(150)]
    kinds = Counter(type(command) for computation in computations for command in computation.commands)
    assert command_types() - set(kinds) == {Repeat, PropagateAgain}  # which come after or with the passes
    # These want size, another kernel, a lower peak, a buffer that steps share.
    others = {"compress_signs", "keep_inputs", "rematerialize", "write_where_copied"}
    for one in (p for p in PIPELINE if p.name not in others):
        changed = [c for c in computations if one.function(c) is not c]
        assert len(changed) > 8, one.name
