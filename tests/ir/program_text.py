"""Programs written in full and read again: the same text, and the same program but for the numbers of what it uses."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import numpy as np

from nnet3.engine.ir.computation import NnetComputation
from nnet3.engine.ir.declarations import Command, Declaration, OperandField, Reference, Table
from nnet3.engine.ir.parser import parse_computation
from nnet3.engine.ir.program_tables import KernelRows, MatrixInfo


def read_again(computation: NnetComputation) -> NnetComputation:
    """The computation of the full text, which has this text, and is the same in all that is executed."""
    text = computation.text(full=True)
    found = parse_computation(text)
    assert found.text(full=True).splitlines() == text.splitlines()
    assert contents(found) == contents(computation)
    return found


def contents(c: NnetComputation) -> dict[str, Any]:
    """All that a run looks at, with the blocks, rows and kernels themselves in the place of their numbers."""
    named = {int(line[1 : line.index("(")]) for line in c.introductions(full=True)}
    return {
        "matrices": {number: c.matrices[number] for number in named},
        "info": {number: _info(info) for number, info in c.matrix_info.items() if number in named},
        "outside": {bound.name: (_block(c, bound.submatrix), bound.writable) for bound in c.outside},
        "inputs": [(io.name, _block(c, io.value), _block(c, io.deriv)) for io in c.inputs],
        "outputs": [(io.name, _block(c, io.value), _block(c, io.deriv)) for io in c.outputs],
        "precomputed": [{name: _array(array) for name, array in (entry or {}).items()} for entry in c.precomputed],
        "precomputed_rows": [_kernel_rows(rows) for rows in c.precomputed_rows],
        "rest": (c.num_memos, c.need_model_derivative, c.fingerprint),
        "commands": [_command(c, command) for command in c.commands],
    }


def _array(array: np.ndarray) -> Hashable:
    return array.dtype.str, array.shape, array.tobytes()


def _info(info: MatrixInfo) -> Hashable:
    return info.node, info.is_deriv, None if info.indexes is None else tuple(map(tuple, info.indexes.tolist()))


def _kernel_rows(rows: KernelRows) -> Hashable:
    return rows._replace(inputs=rows.inputs.tolist(), outputs=rows.outputs.tolist())


def _block(c: NnetComputation, number: int) -> Hashable:
    return c.submatrices[number], c.iterations[number].tobytes() if number in c.iterations else None


def _command(c: NnetComputation, command: Command) -> list[Hashable]:
    found: list[Hashable] = [type(command).__name__]
    for name, declared, several in command.schema.fields:
        value = getattr(command, name)
        found += [(name, _value(c, declared, each)) for each in (value if several else (value,))]
    return found


def _value(c: NnetComputation, declared: Declaration, value: Any) -> Hashable:
    if isinstance(declared, OperandField):
        return _block(c, value)
    if isinstance(declared, Reference) and declared.to == "kernels":
        return c.kernels[value]
    if not isinstance(declared, Table):
        return value
    rows = getattr(c, declared.tables)[value].tolist()
    if declared.tables == "multi_tables":
        return tuple((-1, -1) if sub == -1 else (_block(c, sub), row) for sub, row in rows)
    if declared.tables == "range_tables":
        return tuple((first, end) if end > first else "nothing" for first, end in rows)
    return tuple(rows)
