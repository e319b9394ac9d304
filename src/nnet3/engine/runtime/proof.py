"""prove_plan: a plan computes the values of its program, shown over a finite field, in the plan's memory.

The calls of the plan run on elements at the addresses of its views, so that matrices with shared memory, rows
moved by strides or by an index, and numbers found by arithmetic are proved together. The meanings of calls are
given here; an opcode without a meaning is an error. Not shown: the work of PyTorch and native code in a call.
"""

from __future__ import annotations

import numpy as np

from nnet3.engine.ir.commands import (
    AcceptInput,
    AddRowRanges,
    AddToRowsMulti,
    Command,
    CompressMatrix,
    CopyRows,
    CopyRowsMulti,
    DeallocMatrix,
    MatrixAdd,
    MatrixCopy,
    ProvideOutput,
    SetConst,
)
from nnet3.engine.ir.computation import NnetComputation
from nnet3.engine.ir.objects import many_objects
from nnet3.engine.ir.proof.columns import Columns
from nnet3.engine.ir.proof.equal import add_columns, differences
from nnet3.engine.ir.proof.machine import Machine
from nnet3.engine.ir.proof.program_machine import ProgramMachine
from nnet3.engine.ir.proof.randoms import Randoms
from nnet3.engine.ir.proof.seeds import by_each_seed
from nnet3.engine.runtime.plan import Plan
from nnet3.engine.runtime.plan_machine import KERNEL_CALLS, PROGRAM, Meaning, PlanMachine, PlannedCall, PlannedProgram
from nnet3.errors import ProofError

_OTHER_UNDEFINED = 2


@by_each_seed
@many_objects()
def prove_plan(computation: NnetComputation, plan: Plan, seed: int = 0) -> None:
    """Raise ProofError unless the plan computes the values of the program.

    The error names the call, or the output and its rows. Values left undefined by the program are not compared.
    """
    computation = computation.made()  # what is lazy stays so
    columns = Columns()
    try:
        program = PlannedProgram(computation, plan, MEANINGS)
        for each in (computation, program.views):
            add_columns(columns, PROGRAM, each)
        for view in program.iterations:
            columns.use(program.span(view))
        columns.settle()
        randoms = Randoms(columns, seed)
        plain = ProgramMachine(computation, PROGRAM, randoms)
        with np.errstate(over="ignore"):
            plain.run()
            machine = PlanMachine(program, randoms)
            machine.run()
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


def _only_view(call: PlannedCall) -> int:
    """Returns the sub-matrix of a call with one view. Raises ValueError for a call with other integers."""
    (view,) = call.args
    return int(view) + 1


def _copies(program: PlannedProgram, call: PlannedCall) -> list[Command]:
    scale = call.number if call.opcode in ("scaled copy", "scaled add", "add each") else 1.0
    kind, half = MatrixAdd if "add" in call.opcode else MatrixCopy, len(call.args) // 2
    if half > 1 and not call.opcode.endswith("each"):
        raise ProofError(f"it has {len(call.args)} views")
    return [kind(dest + 1, source + 1, scale) for dest, source in zip(call.args[:half], call.args[half:], strict=True)]


def _sum(program: PlannedProgram, call: PlannedCall) -> list[Command]:
    dest, terms = call.args
    shape = program.shape(terms)
    if len(shape) != 2 or len(program.shape(dest)) != 1:
        raise ProofError(f"view {dest} is to have the sums of view {terms}, which has the rows {shape}")
    firsts = np.arange(shape[0]) * shape[1]
    ranges = program.views.new_range_table(np.stack([firsts, firsts + shape[1]], axis=1))
    return [SetConst(dest + 1, 0.0), AddRowRanges(dest + 1, terms + 1, ranges)]


def _cat(program: PlannedProgram, call: PlannedCall) -> list[Command]:
    dest, *sources = call.args
    if any(len(program.shape(view)) != 1 for view in call.args):
        raise ProofError(f"view {dest} or one of those that are joined there has no plain rows")
    pairs = [(source + 1, row) for source in sources for row in range(*program.shape(source))]
    return [CopyRowsMulti(dest + 1, program.views.new_multi_table(np.array(pairs, np.int64).reshape(-1, 2)))]


def _zero_rows(program: PlannedProgram, call: PlannedCall) -> list[Command]:
    dest, index = call.args
    kept = np.arange(program.num_rows(dest))
    kept[program.rows(index, dest)] = -1
    return [CopyRows(dest + 1, dest + 1, program.views.new_index_table(kept))]


def _select_rows(program: PlannedProgram, call: PlannedCall) -> list[Command]:
    dest, source, index = call.args
    rows = program.rows(index, source, program.num_rows(dest))
    return [CopyRows(dest + 1, source + 1, program.views.new_index_table(rows))]


def _to_rows(program: PlannedProgram, call: PlannedCall) -> list[Command]:
    dest, index, source = call.args
    rows, views = program.rows(index, dest, program.num_rows(source)), program.views
    if call.opcode == "add to rows":
        pairs = np.stack([np.full(len(rows), dest + 1), rows], axis=1)
        return [AddToRowsMulti(source + 1, views.new_multi_table(pairs), call.number)]
    if len(np.unique(rows)) < len(rows):
        raise ProofError(f"index table {index} names a row twice")
    pairs = np.stack([np.full(program.num_rows(dest), dest + 1), np.arange(program.num_rows(dest))], axis=1)
    pairs[rows, 0], pairs[rows, 1] = source + 1, np.arange(len(rows))
    return [CopyRowsMulti(dest + 1, views.new_multi_table(pairs))]


#: The commands on views that do what calls of an opcode do.
MEANINGS: dict[str, Meaning] = {
    **dict.fromkeys(KERNEL_CALLS, lambda program, call: [program.kernel_command(call)]),
    **dict.fromkeys(("zero", "fill"), lambda _, call: [SetConst(_only_view(call), call.number)]),
    **dict.fromkeys(("copy", "scaled copy", "add", "scaled add", "copy each", "add each"), _copies),
    **dict.fromkeys(("copy to rows", "add to rows"), _to_rows),
    "undefined": lambda _, call: [DeallocMatrix(_only_view(call))],
    "scale": lambda _, call: [MatrixCopy(_only_view(call), _only_view(call), call.number)],
    "positive": lambda program, call: [*_copies(program, call), CompressMatrix(call.args[0] + 1)],
    "sum": _sum,
    "cat": _cat,
    "zero rows": _zero_rows,
    "select rows": _select_rows,
    "accept": lambda program, call: [AcceptInput(call.args[0] + 1, program.plan.texts[call.args[1]])],
    "provide": lambda program, call: [ProvideOutput(call.args[0] + 1, program.plan.texts[call.args[1]])],
}
