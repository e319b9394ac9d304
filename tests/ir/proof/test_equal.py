"""A proof finds programs equal, or different, as an interpreter of numbers does."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from random import Random

import pytest
from hypothesis import given, settings

from nnet3.engine.ir import commands as cmd
from nnet3.engine.ir.checker import check_computation
from nnet3.engine.ir.computation import NnetComputation
from nnet3.engine.ir.declarations import Role
from nnet3.engine.ir.passes.pipeline import PIPELINE, optimize
from nnet3.engine.ir.proof.equal import PassResult, prove_equal
from nnet3.errors import ComputationCheckError, ProofError
from tests.effort import draws
from tests.ir.programs import recurrence, run, training_step
from tests.ir.random_programs import ProgramWriter, programs

_SEEDS = range(2)


def is_proved(one: NnetComputation, other: NnetComputation) -> bool:
    """Returns the verdict, which is the same for two seeds."""
    (verdict,) = {not message for message in (difference(one, other, seed) for seed in _SEEDS)}
    return verdict


def difference(one: NnetComputation, other: NnetComputation, seed: int = 0) -> str:
    try:
        prove_equal([PassResult("", one), PassResult("changed", other)], seed)
    except ProofError as error:
        return str(error)
    return ""


def is_equal_in_numbers(one: NnetComputation, other: NnetComputation) -> bool:
    try:
        for seed in range(2):
            run(one, seed).check_equals(run(other, seed))
    except (AssertionError, ValueError):  # a ValueError: one has more statistics than the other
        return False
    return True


@settings(max_examples=draws(8))
@given(programs())
def test_each_pass_is_proved_on_random_programs(computation: NnetComputation) -> None:
    for one in PIPELINE:
        changed = one.function(computation)
        assert changed is computation or difference(computation, changed) == "", one.name
    optimize(computation, prove=True)


# ---- changes, of which some matter ----


def swapped(random: Random, commands: list[cmd.Command]) -> None:
    at = random.randrange(len(commands) - 1)
    commands[at : at + 2] = commands[at : at + 2][::-1]


def dropped(random: Random, commands: list[cmd.Command]) -> None:
    del commands[random.randrange(len(commands))]


def scaled(random: Random, commands: list[cmd.Command]) -> None:
    at = random.choice([at for at, each in enumerate(commands) if hasattr(each, "scale")])
    commands[at] = replace(commands[at], scale=-commands[at].scale)


def overwritten(random: Random, commands: list[cmd.Command]) -> None:
    """An addition becomes a copy."""
    at = random.choice([at for at, each in enumerate(commands) if isinstance(each, cmd.MatrixAdd)])
    commands[at] = cmd.MatrixCopy(commands[at].dest, commands[at].source, commands[at].scale)


def repeated(random: Random, commands: list[cmd.Command]) -> None:
    at = random.randrange(len(commands))
    commands.insert(at, commands[at])


CHANGES: list[Callable[[Random, list[cmd.Command]], None]] = [swapped, dropped, scaled, overwritten, repeated]


def changed_programs(seed: int) -> list[tuple[str, NnetComputation, NnetComputation]]:
    """Returns valid programs, each beside one that differs in a command that computes, and is valid too."""
    random = Random(seed)
    computation = ProgramWriter(random).program()
    found = []
    for change in CHANGES:
        computing = [each for each in computation.commands if each.role is Role.COMPUTE]
        first = computation.commands.index(computing[0])
        commands = list(computation.commands)
        try:
            middle = commands[first:-1]
            change(random, middle)
            other = replace(computation, commands=[*commands[:first], *middle, commands[-1]])
            check_computation(other)
        except (ComputationCheckError, IndexError):
            continue
        found.append((change.__name__, computation, other))
    return found


def test_verdicts_are_those_of_an_interpreter() -> None:
    """Never is a program called equal that gives other numbers. Rarely do numbers not show what is different.

    A value that is clipped, a memo that the interpreter's kernel does not read, an update in other groups of rows.
    """
    verdicts: Counter[tuple[str, bool, bool]] = Counter()
    for seed in range(draws(18)):
        for name, one, other in changed_programs(seed):
            verdicts[name, is_equal_in_numbers(one, other), is_proved(one, other)] += 1
    wrong = {key: count for key, count in verdicts.items() if not key[1] and key[2]}
    assert wrong == {}
    too_strict = sum(count for (_, equal, proved), count in verdicts.items() if equal and not proved)
    equal = sum(count for (_, is_equal, _), count in verdicts.items() if is_equal)
    different = verdicts.total() - equal
    assert equal > draws(5)
    assert different > draws(5)
    assert too_strict <= equal // 8, verdicts


# ---- what an error says ----


def test_the_first_pass_that_differs_is_named() -> None:
    one = training_step()
    other = replace(one, commands=[each for each in one.commands if not isinstance(each, cmd.AddRows)])
    results = [PassResult("", one), PassResult("good", one), PassResult("bad", other), PassResult("worse", one)]
    with pytest.raises(ProofError, match=r"^after pass 'bad': output 'output' differs in 4 rows: 0, 1, 2, 3$"):
        prove_equal(results)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda each: isinstance(each, cmd.ProvideOutput) and each.name == "input", "output 'input' is missing"),
        (lambda each: isinstance(each, cmd.Backprop) and each.kernel == 0, "output 'input' differs in 4 rows"),
        (lambda each: isinstance(each, cmd.AcceptInput) and each.name == "output", "output 'input' differs in 4 rows"),
    ],
)
def test_what_is_left_out_is_said(change: Callable[[cmd.Command], bool], message: str) -> None:
    one = training_step()
    other = replace(one, commands=[each for each in one.commands if not change(each)])
    assert message in difference(one, other)
    assert message.replace("missing", "new") in difference(other, one)


def test_updates_are_compared() -> None:
    one = training_step()
    without = [replace(each, update=False) if isinstance(each, cmd.Backprop) else each for each in one.commands]
    assert "update of kernel 'affine' is missing" in difference(one, replace(one, commands=without))


def test_rows_beyond_the_first_few_are_counted() -> None:
    one, other = recurrence(10), recurrence(10)
    other.commands = [each for each in other.commands if not isinstance(each, cmd.AcceptInput) or each.name != "input"]
    assert "output 'output' differs in 20 rows: 0, 1, 2, 3, 4, 5, 6, 7, ..." in difference(one, other)


def test_a_long_recurrence_is_proved() -> None:
    computation = recurrence(40)
    optimized = optimize(computation, prove=True)
    assert is_proved(computation, optimized)
    assert len(optimized.commands) < len(computation.commands)
