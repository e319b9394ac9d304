"""prove_plan: a plan computes the values of its program, shown over a finite field, in the plan's memory.

The calls of the plan run on elements at the addresses of its views, so that matrices with shared memory, rows
moved by strides or by an index, and numbers found by arithmetic are proved together. The meanings of calls are
given here; an opcode without a meaning is an error. Not shown: the work of PyTorch and native code in a call.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from nnet3.engine.ir.computation import NnetComputation
from nnet3.engine.ir.objects import many_objects
from nnet3.engine.ir.proof import field
from nnet3.engine.ir.proof.columns import Columns
from nnet3.engine.ir.proof.equal import add_columns, differences
from nnet3.engine.ir.proof.field import Elements
from nnet3.engine.ir.proof.machine import Machine
from nnet3.engine.ir.proof.program_machine import ProgramMachine
from nnet3.engine.ir.proof.randoms import Randoms, signs
from nnet3.engine.ir.proof.seeds import by_each_seed
from nnet3.engine.runtime.plan import Plan
from nnet3.engine.runtime.plan_machine import KERNEL_CALLS, PROGRAM, Meaning, PlanMachine, PlannedProgram
from nnet3.errors import ProofError

_OTHER_UNDEFINED = 2

MEANINGS: dict[str, Meaning] = dict.fromkeys(KERNEL_CALLS, lambda machine, args, number: machine.kernel())


@by_each_seed
@many_objects()
def prove_plan(computation: NnetComputation, plan: Plan, seed: int = 0) -> None:
    """Raise ProofError unless the plan computes the values of the program.

    The error names the call, or the output and its rows. Values left undefined by the program are not compared.
    """
    computation = computation.made()  # what is lazy stays so
    columns = Columns()
    try:
        program = PlannedProgram(computation, plan)
        add_columns(columns, PROGRAM, computation)
        program.add_columns(columns)
        columns.settle()
        randoms = Randoms(columns, seed)
        plain = ProgramMachine(computation, PROGRAM, randoms)
        with np.errstate(over="ignore"):
            plain.run()
            machine = PlanMachine(program, randoms)
            machine.run_by(MEANINGS)
            found = next(differences(plain, machine), None)
            if found is not None:
                _forget_undefined(plain, ProgramMachine(computation, PROGRAM, randoms, _OTHER_UNDEFINED), machine)
                found = next(differences(plain, machine), None)
    except ProofError as error:
        found = str(error)
    if found is not None:
        raise ProofError(
            f"the plan of a program in {plan.dtype} does not compute what the program computes: {found}. It is not "
            "run. Please report it with the network and the request"
        )


def _forget_undefined(plain: ProgramMachine, again: ProgramMachine, machine: Machine) -> None:
    """Let elements be equal that the program computes from memory which nobody has written."""
    again.run()
    pairs = (plain.outputs, again.outputs, machine.outputs), (plain.effects, again.effects, machine.effects)
    for one, other, planned in pairs:
        for what, values in one.items():
            if what in planned and planned[what].shape == values.shape:
                planned[what] = np.where(values == other[what], planned[what], values)


# ---- what calls do ----


def _meaning(*opcodes: str) -> Callable[[Meaning], Meaning]:
    def register(function: Meaning) -> Meaning:
        MEANINGS.update(dict.fromkeys(opcodes, function))
        return function

    return register


def _pair(machine: PlanMachine, dest: int, source: int) -> Elements:
    """Returns the elements of view `source`, which go to view `dest` element by element."""
    machine.check_apart([dest + 1], [source + 1], {(source + 1, dest + 1)})
    shapes = [machine.memory.shape(view, machine.iteration) for view in (dest, source)]
    if shapes[0] != shapes[1]:
        raise ProofError(f"view {dest} has the rows {shapes[0]}, view {source} {shapes[1]}")
    return machine.read(source + 1)


@_meaning("zero", "fill")
def _fill(machine: PlanMachine, args: Sequence[int], number: float) -> None:
    machine.check_apart([args[0] + 1], [], set())
    machine.write(args[0] + 1, field.element(number))


@_meaning("undefined")
def _undefined(machine: PlanMachine, args: Sequence[int], number: float) -> None:
    machine.memory.forget(machine.memory.cells(args[0], machine.iteration))


@_meaning("scale")
def _scale(machine: PlanMachine, args: Sequence[int], number: float) -> None:
    machine.check_apart([args[0] + 1], [], set())
    machine.write(args[0] + 1, field.scaled(machine.read(args[0] + 1), number))


@_meaning("copy", "scaled copy", "add", "scaled add")
def _copy_or_add(machine: PlanMachine, args: Sequence[int], number: float) -> None:
    is_scaled, adds = machine.opcode.startswith("scaled"), machine.opcode.endswith("add")
    values = field.scaled(_pair(machine, *args), number if is_scaled else 1.0)
    (machine.add if adds else machine.write)(args[0] + 1, values)


@_meaning("positive")
def _positive(machine: PlanMachine, args: Sequence[int], number: float) -> None:
    machine.write(args[0] + 1, signs(_pair(machine, *args)))


@_meaning("sum")
def _sum(machine: PlanMachine, args: Sequence[int], number: float) -> None:
    dest, terms = (each + 1 for each in args)
    machine.check_apart([dest], [terms], set())
    shape, values = machine.memory.shape(terms - 1, machine.iteration), machine.read(terms)
    if len(shape) != 2 or shape[:1] != machine.memory.shape(dest - 1, machine.iteration):
        raise ProofError(f"view {dest - 1} is to have the sums of view {terms - 1}, which has the rows {shape}")
    machine.write(dest, field.total(values.reshape(*shape, *values.shape[1:]).swapaxes(0, 1)))


@_meaning("cat")
def _cat(machine: PlanMachine, args: Sequence[int], number: float) -> None:
    dest, *sources = (each + 1 for each in args)
    machine.check_apart([dest], sources, set())
    values = np.concatenate([machine.read(source) for source in sources])
    if len(values) != machine.num_rows(dest) or any(
        len(machine.memory.shape(each, machine.iteration)) > 1 for each in args
    ):
        raise ProofError(f"view {dest - 1} has {machine.num_rows(dest)} rows for the {len(values)} that are joined")
    machine.write(dest, values)


@_meaning("copy each", "add each")
def _each(machine: PlanMachine, args: Sequence[int], number: float) -> None:
    half = len(args) // 2
    machine.check_apart([each + 1 for each in args[:half]], [each + 1 for each in args[half:]], set())
    for dest, source in zip(args[:half], args[half:], strict=True):
        values = _pair(machine, dest, source)
        if machine.opcode == "copy each":
            machine.write(dest + 1, values)
        else:
            machine.add(dest + 1, field.scaled(values, number))


@_meaning("zero rows")
def _zero_rows(machine: PlanMachine, args: Sequence[int], number: float) -> None:
    dest, index = args[0] + 1, args[1]
    values = machine.read(dest)
    values[machine.rows(index, -1, dest)] = 0
    machine.write(dest, values)


@_meaning("select rows")
def _select_rows(machine: PlanMachine, args: Sequence[int], number: float) -> None:
    dest, source, index = args[0] + 1, args[1] + 1, args[2]
    machine.check_apart([dest], [source], set())
    machine.write(dest, machine.read(source)[machine.rows(index, machine.num_rows(dest), source)])


@_meaning("copy to rows", "add to rows")
def _to_rows(machine: PlanMachine, args: Sequence[int], number: float) -> None:
    dest, index, source = args[0] + 1, args[1], args[2] + 1
    machine.check_apart([dest], [source], set())
    values, rows = machine.read(dest), machine.rows(index, machine.num_rows(source), dest)
    if machine.opcode == "add to rows":
        np.add.at(values, rows, field.scaled(machine.read(source), number))
    elif len(np.unique(rows)) < len(rows):
        raise ProofError(f"index table {index} names a row twice")
    else:
        values[rows] = machine.read(source)
    machine.write(dest, field.reduced(values))


@_meaning("accept")
def _accept(machine: PlanMachine, args: Sequence[int], number: float) -> None:
    name = machine.plan.texts[args[1]]
    machine.check_apart([args[0] + 1], [], set())
    machine.check_port(args[0] + 1, name, is_provided=False)
    machine.accept(args[0] + 1, name)


@_meaning("provide")
def _provide(machine: PlanMachine, args: Sequence[int], number: float) -> None:
    name = machine.plan.texts[args[1]]
    machine.check_port(args[0] + 1, name, is_provided=True)
    machine.provide(args[0] + 1, name)
