"""Backward passes reading the kernel's input instead of the output, where the input is kept anyway.

After a rectifier, whose derivative needs the signs of its output, batch-norm can go backward with the rectifier's
output. Batch-norm's own output need not be kept: the next kernel can work in its place. The only cost in memory: signs
of the rectifier's output are not enough.
"""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from nnet3.engine.ir.analysis import WRITE, Analysis, analyse
from nnet3.engine.ir.commands import Backprop, Command, Propagate, SegmentMarker, with_values
from nnet3.engine.ir.computation import NnetComputation
from nnet3.engine.ir.passes.recurrent_steps import step_of


def keep_inputs(computation: NnetComputation) -> NnetComputation:
    """Give backward passes the input of their forward passes, if after the marker only they would read the output.

    Applies only where further commands use the input's matrix later. A computation with several markers is left alone.
    """
    if not any(info.backprop_takes_input for info in computation.kernels):
        return computation
    analysis = analyse(computation)
    markers = analysis.accesses.numbers_of_class.get(SegmentMarker, [])
    changed = _changed(analysis, markers[0]) if len(markers) == 1 else {}
    if not changed:
        return computation
    result = computation.copy()
    result.commands = [changed.get(number, command) for number, command in enumerate(computation.commands)]
    return result


def _changed(analysis: Analysis, marker: int) -> dict[int, Command]:
    """Returns the commands that are to read an input, by number: all readers of a matrix of outputs, or none."""
    computation, chosen = analysis.computation, list[tuple[int, int, Backprop, Propagate]]()
    for number in analysis.accesses.numbers_of_class.get(Backprop, []):
        command = step_of(computation, number, Backprop)
        if computation.kernels[command.kernel].backprop_takes_input and command.output and command.memo >= 0:
            maker = analysis.accesses.memo_makers[command.memo]
            forward = step_of(computation, maker, Propagate)
            is_used_later = analysis.last_access[computation.submatrices[forward.inputs[0]].matrix] > number
            if forward.output == command.output and is_used_later:
                chosen.append((number, maker, command, forward))
    values = np.array([(forward.inputs[0], forward.output) for *_, forward in chosen], np.int64).reshape(-1)
    makers = np.repeat(np.array([maker for _, maker, *_ in chosen], np.int64), 2)
    next_writes = analysis.next_access(values, makers + 1, WRITE).reshape(-1, 2).min(axis=1).tolist()
    found: dict[int, dict[int, Command]] = defaultdict(dict)
    for (number, _, command, forward), next_write in zip(chosen, next_writes, strict=True):
        if next_write > number:
            matrix = computation.submatrices[command.output].matrix
            found[matrix][number] = with_values(command, inputs=forward.inputs, output=0)
    is_after = analysis.accesses.command > marker
    matrices, readers = analysis.matrix_of_access[is_after].tolist(), analysis.accesses.command[is_after].tolist()
    unwanted = {m for m, number in zip(matrices, readers, strict=True) if number not in found.get(m, ())}
    return {number: each for matrix in found.keys() - unwanted for number, each in found[matrix].items()}
