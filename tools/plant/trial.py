"""A trial: what is said of a bug, by a process that was forked from one that has compiled everything before it."""

from __future__ import annotations

import gc
import os
import resource
import select
import signal
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FunctionType
from typing import NamedTuple

import numpy as np
import torch

from nnet3.errors import ProofError
from nnet3.ir.computation import NnetComputation
from nnet3.ir.proof import equal
from nnet3.ir.proof.equal import PassResult, prove_equal
from tools.mutation.child import MOST_MEMORY
from tools.mutation.mutant import Mutant
from tools.plant.corpus import Case
from tools.plant.wrong_programs import WRONG, program

PROOF, ERROR, SAME, EQUAL, HOLE, MISSED = "proof", "error", "no program", "equal", "HOLE", "not noticed"
STATES = (PROOF, ERROR, SAME, EQUAL, MISSED, HOLE)
OF_PROOF = "nnet3/ir/proof/"  # where a bug is one of the proof itself
_BY_NUMPY = "ir/proof/machine.py"
_MOST_SECONDS = 60
ROOT = Path(__file__).resolve().parents[2]
_RUNS = "runs"


class Verdict(NamedTuple):
    state: str
    detail: str = ""


@dataclass
class _Known:
    """What is compiled of a case without bugs."""

    case: Case
    programs: list[NnetComputation]
    numbers: list[torch.Tensor]


@dataclass
class _Running:
    """A process that tries a bug, and what it has said of it so far."""

    bug: Mutant
    process: int
    said: bytes = b""


class Trial:
    """Compiles cases once, without bugs; then tries each bug in a process of its own.

    Programs are proved if the environment says so.
    """

    def __init__(self, cases: Sequence[Case]) -> None:
        self._known = list[_Known]()
        for case in cases:
            programs = case.programs()
            numbers = case.numbers(programs)
            again = case.programs()
            if not (_same_programs(programs, again) and _same_numbers(numbers, case.numbers(again))):
                raise SystemExit(f"{case.name} gives another program, or other numbers, when it is compiled again")
            self._known.append(_Known(case, programs, numbers))
        missed = missed_programs()
        if missed:
            raise SystemExit(f"the proof takes wrong programs for right ones: {', '.join(missed)}")

    def all(self, bugs: Sequence[Mutant], workers: int) -> Iterator[tuple[Mutant, Verdict]]:
        """Yields bugs with what is said of them, as they are done, `workers` at a time."""
        waiting, running = list(bugs), dict[int, _Running]()
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
                    yield done.bug, _verdict(done.bug, done.said.decode().splitlines(), status)

    def _be_child(self, bug: Mutant, writing: int) -> None:
        """Write lines of a state and a detail, of each case that says anything; never return."""
        signal.alarm(_MOST_SECONDS)
        gc.disable()  # a search would copy all that was forked
        resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 1)
        os.dup2(null, 2)
        try:
            self._plant(bug)
            said = self._of_proof() if OF_PROOF in bug.path else self._of_programs()
            for line in said:
                os.write(writing, f"{' '.join(line.split())}\n".encode())
        except BaseException as error:
            os.write(writing, f"{ERROR}: {type(error).__name__}: {' '.join(str(error).split())}\n".encode())
        os._exit(0)

    def _plant(self, bug: Mutant) -> None:
        """Give the functions of the file, wherever they are kept, the code of the file with the bug."""
        if bug.path.endswith(_BY_NUMPY):  # native code would prove without it
            vars(equal)["library"] = lambda: None
        codes = defaultdict[str, list[CodeType]](list)
        for code in _codes(compile(bug.mutated, str(ROOT / bug.path), "exec")):
            codes[code.co_qualname].append(code)
        functions = _functions(bug.path)
        if not functions:
            raise LookupError(f"nobody has imported {bug.path}")
        for function in functions:
            alike = codes[function.__code__.co_qualname]
            if len(alike) == 1:
                function.__code__ = alike[0]

    def _of_programs(self) -> Iterator[str]:
        for known in self._known:
            name = known.case.name
            try:
                programs = known.case.programs()
            except ProofError as error:
                yield f"{PROOF}: {name}: {error}"
                return
            except Exception as error:
                yield f"{ERROR}: {name}: {type(error).__name__}: {error}"
                return
            if _same_programs(programs, known.programs):
                continue
            yield f"{_RUNS}: {name}"
            try:
                is_equal = _same_numbers(known.numbers, known.case.numbers(programs))
            except Exception as error:
                yield f"{ERROR}: {name}, when it is run: {type(error).__name__}: {error}"
                return
            yield f"{EQUAL if is_equal else HOLE}: {name}"

    def _of_proof(self) -> Iterator[str]:
        """The proof has a bug: does it raise a false alarm, or miss a wrong program?"""
        missed = missed_programs()
        if missed:
            yield f"{PROOF}: misses: {', '.join(missed)}"
        else:
            yield from (line for line in self._of_programs() if line.startswith((PROOF, ERROR)))


def missed_programs() -> list[str]:
    """Returns which wrong programs, made by hand, the proof takes for right ones."""
    missed = []
    for name, body in WRONG.items():
        right = PassResult("", program(body, wrong=False))
        prove_equal([right, right])
        try:
            prove_equal([right, PassResult("wrong", program(body, wrong=True))])
        except ProofError:
            continue
        missed.append(name)
    return missed


def _verdict(bug: Mutant, lines: Sequence[str], status: int) -> Verdict:
    if status:
        died = f"the process ended with {status}"
        return Verdict(HOLE if lines and lines[-1].startswith(_RUNS) else ERROR, f"{died}; {'; '.join(lines[-1:])}")
    by_state = {line.split(":", 1)[0]: line.split(":", 1)[1].strip() for line in reversed(lines)}
    for state in (HOLE, PROOF, ERROR, EQUAL):
        if state in by_state:
            return Verdict(state, by_state[state])
    return Verdict(MISSED if OF_PROOF in bug.path else SAME)


def _functions(path: str) -> list[FunctionType]:
    """Returns all functions there are that are written in a file."""
    gc.unfreeze()  # frozen objects are not among those that are listed
    functions = (each for each in gc.get_objects() if type(each) is FunctionType)
    return [function for function in functions if function.__code__.co_filename.endswith(path)]


def _codes(code: CodeType) -> Iterator[CodeType]:
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield each
            yield from _codes(each)


def _same_programs(one: Sequence[NnetComputation], other: Sequence[NnetComputation]) -> bool:
    return [*map(str, one)] == [*map(str, other)]


def _same_numbers(one: Sequence[torch.Tensor], other: Sequence[torch.Tensor]) -> bool:
    return len(one) == len(other) and all(
        a.shape == b.shape and np.allclose(a, b, rtol=1e-9, atol=1e-9, equal_nan=True)
        for a, b in zip(one, other, strict=True)
    )
