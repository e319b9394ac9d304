"""A trial: what is said of a bug, by a process that was forked from one that has compiled everything before it."""

from __future__ import annotations

import gc
import os
import resource
import select
import signal
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch

from nnet3.engine.ir.checker import check_computation
from nnet3.engine.ir.computation import NnetComputation
from nnet3.engine.runtime import Plan
from nnet3.errors import ComputationCheckError, ProofError
from tools.mutation.child import MOST_MEMORY
from tools.mutation.equivalent import read_equivalents
from tools.mutation.mutant import Mutant
from tools.plant.cases import Case
from tools.plant.covering import Covering
from tools.plant.planting import ROOT, NotImportedError, plant
from tools.plant.rooms import Stage, room_of
from tools.plant.wrong import missed

PROOF, CHECKER, ERROR, NUMBERS, TESTS = "proof", "checker", "error", "numbers", "tests"
NOT_RUN, SAME, EQUAL, MISSED, HOLE = "not run", "no change", "equal", "not noticed", "HOLE"
#: The first five notice a bug: numbers one of native code, which tests compare with PyTorch, tests one of proofs.
STATES = (PROOF, CHECKER, ERROR, NUMBERS, TESTS, NOT_RUN, SAME, EQUAL, MISSED, HOLE)
_NOTICED = (PROOF, CHECKER, ERROR, NUMBERS, TESTS)
_MOST_SECONDS = 120  # of processor time
_HOW_TO_TEST = "-x", "--assert=plain", "-p", "no:cacheprovider", "-p", "no:hypothesispytest"
#: Bugs of proofs that change nothing which can be noticed, each with the reason.
EQUALS = Path(__file__).with_name("equal.txt")
_RUNS = "runs"


class Verdict(NamedTuple):
    state: str
    detail: str = ""


@dataclass
class _Known:
    """What is made of a case without bugs, and how long that takes."""

    case: Case
    programs: list[NnetComputation]
    numbers: list[torch.Tensor] = field(default_factory=list)
    plans: list[Plan] = field(default_factory=list)
    native: list[torch.Tensor] = field(default_factory=list)
    seconds: dict[Stage, float] = field(default_factory=dict)


@dataclass
class _Running:
    """A process that tries a bug, and what it has said of it so far."""

    bug: Mutant
    process: int
    said: bytes = b""


class Trial:
    """Makes everything of all cases once, without bugs; then tries each bug in a process of its own.

    A bug is tried with the cases that execute a line of it, the quickest first, until it is noticed. Programs are
    proved if the environment says so.
    """

    def __init__(self, cases: Sequence[Case], bugs: Sequence[Mutant], most_seconds: float = float("inf")) -> None:
        """`most_seconds`: of processor time, as cases take it without bugs; after that a bug is tried with no other."""
        self._bugs, self._most_seconds, self._equals = list(bugs), most_seconds, read_equivalents(EQUALS)
        self._stages = dict.fromkeys(stage for bug in bugs for stage in room_of(bug).stages)
        paths = {stage: {bug.path for bug in bugs if stage in room_of(bug).stages} for stage in self._stages}
        self._covering = {stage: Covering(paths[stage]) for stage in self._stages}
        self._known = [self._made_twice(number, case) for number, case in enumerate(cases)]
        for covering in self._covering.values():
            covering.settle()
        if missed():
            raise SystemExit(f"the proof takes for right what is wrong: {', '.join(missed())}")

    def _made_twice(self, number: int, case: Case) -> _Known:
        """Makes a case as it is, and again while the lines are noted that this executes."""
        begin = time.process_time()
        programs = case.programs()
        known = _Known(case, programs, case.numbers(programs))
        for stage in self._stages:
            begin = begin if stage is Stage.PROGRAMS else time.process_time()
            if stage is Stage.PLANS:
                known.plans = case.plans(programs)
            elif stage is Stage.NATIVE:
                known.native = case.native_numbers(programs)
            known.seconds[stage] = time.process_time() - begin
            with self._covering[stage].of(number):
                again = next(_STAGES[stage](known), _RUNS)
            if not again.startswith(SAME):
                raise SystemExit(f"{case.name} gives something else when it is made again: {again}")
        return known

    def all(self, workers: int) -> Iterator[tuple[Mutant, Verdict]]:
        """Yields bugs with what is said of them, as they are done, `workers` at a time."""
        waiting, running = self._bugs.copy(), dict[int, _Running]()
        while waiting or running:
            while waiting and len(running) < workers:
                reading, writing = os.pipe()
                process = os.fork()
                if not process:
                    self._be_child(waiting[0], writing)
                os.close(writing)
                running[reading] = _Running(waiting.pop(0), process)
            for reading in select.select(list(running), [], [])[0]:
                said = os.read(reading, 2**16)
                running[reading].said += said
                if not said:
                    os.close(reading)
                    done = running.pop(reading)
                    status = os.waitstatus_to_exitcode(os.waitpid(done.process, 0)[1])
                    verdict = _verdict(done.bug, done.said.decode().splitlines(), status)
                    yield done.bug, self._known_to_be_equal(done.bug) if verdict.state == MISSED else verdict

    def _known_to_be_equal(self, bug: Mutant) -> Verdict:
        """Returns the verdict on a bug of proofs that nobody notices."""
        reason = self._equals.get((bug.path, *bug.change))
        return Verdict(MISSED) if reason is None else Verdict(EQUAL, reason)

    def _be_child(self, bug: Mutant, writing: int) -> None:
        """Write lines of a state and a detail, of each case that says anything; never return."""
        signal.setitimer(signal.ITIMER_PROF, _MOST_SECONDS)
        gc.disable()  # a search would copy all that was forked
        resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 1)
        os.dup2(null, 2)
        try:
            plant(bug)
            for line in self._said_of(bug):
                os.write(writing, f"{' '.join(line.split())}\n".encode())
        except NotImportedError:
            pass
        except BaseException as error:
            os.write(writing, f"{ERROR}: {type(error).__name__}: {' '.join(str(error).split())}\n".encode())
        os._exit(0)

    def _said_of(self, bug: Mutant) -> Iterator[str]:
        """Yields what each case says of a bug, until one notices it.

        A bug of the proof is noticed if it raises a false alarm, or misses something wrong, or if a test of it fails.
        """
        if room_of(bug).is_proof:
            try:
                found = missed()
            except ProofError as error:
                yield f"{PROOF}: {error}"
                return
            if found:
                yield f"{PROOF}: misses: {', '.join(found)}"
                return
        for stage in room_of(bug).stages:
            known = [self._known[number] for number in self._covering[stage].cases_of(bug)]
            seconds = 0.0
            for each in sorted(known, key=lambda each: each.seconds[stage]):
                if seconds > self._most_seconds:
                    break
                seconds += each.seconds[stage]
                for line in _lines(_STAGES[stage], each):
                    yield line
                    if line.startswith(_NOTICED):
                        return
        tests = room_of(bug).tests
        if tests and pytest.main([*_HOW_TO_TEST, str(ROOT / tests)]) == pytest.ExitCode.TESTS_FAILED:
            yield TESTS


def _lines(make: Callable[[_Known], Iterator[str]], known: _Known) -> Iterator[str]:
    """Yields what is said of a case, with its name; errors are among it."""
    try:
        for line in make(known):
            yield f"{line}: {known.case.name}"
    except ProofError as error:
        yield f"{PROOF}: {known.case.name}: {error}"
    except ComputationCheckError as error:
        yield f"{CHECKER}: {known.case.name}: {error}"
    except Exception as error:
        yield f"{ERROR}: {known.case.name}: {type(error).__name__}: {error}"


def _of_programs(known: _Known) -> Iterator[str]:
    programs = known.case.programs()
    if [*map(str, programs)] == [*map(str, known.programs)]:
        yield SAME
        return
    yield _RUNS
    for each in programs:
        check_computation(each)
    yield EQUAL if _same_numbers(known.numbers, known.case.numbers(programs)) else HOLE


def _of_plans(known: _Known) -> Iterator[str]:
    plans = known.case.plans(known.programs)
    if [*map(_text, plans)] == [*map(_text, known.plans)]:
        yield SAME
        return
    yield _RUNS
    yield EQUAL if _same_numbers(known.numbers, known.case.numbers_again(known.programs)) else HOLE


def _of_native_code(known: _Known) -> Iterator[str]:
    found = known.case.native_numbers(known.programs)
    yield SAME if _same_numbers(known.native, found, 1e-3) else NUMBERS


_STAGES: dict[Stage, Callable[[_Known], Iterator[str]]] = {
    Stage.PROGRAMS: _of_programs,
    Stage.PLANS: _of_plans,
    Stage.NATIVE: _of_native_code,
}


def _verdict(bug: Mutant, lines: Sequence[str], status: int) -> Verdict:
    if status:
        died = f"the process ended with {status}; {'; '.join(lines[-1:])}"
        is_hole = lines and lines[-1].startswith(_RUNS) and status != -signal.SIGPROF
        return Verdict(HOLE if is_hole else ERROR, died)
    by_state = defaultdict[str, str](str)
    for line in reversed(lines):
        state, _, detail = line.partition(":")
        by_state[state] = detail.strip()
    is_proof = room_of(bug).is_proof
    for state in (HOLE, *_NOTICED, EQUAL):
        if state in by_state and not (is_proof and state in (HOLE, EQUAL)):
            return Verdict(state, by_state[state])
    return Verdict(NOT_RUN if not lines and not is_proof else MISSED if is_proof else SAME)


def _text(plan: Plan) -> tuple[str, dict[str, Any]]:
    header, arrays = plan.to_data()
    return repr(header), {name: (array.dtype.str, array.shape, array.tobytes()) for name, array in arrays.items()}


def _same_numbers(one: Sequence[torch.Tensor], other: Sequence[torch.Tensor], rtol: float = 1e-9) -> bool:
    return len(one) == len(other) and all(
        a.shape == b.shape and np.allclose(a, b, rtol=rtol, atol=rtol, equal_nan=True)
        for a, b in zip(one, other, strict=True)
    )
