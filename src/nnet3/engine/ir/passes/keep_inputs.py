"""Backward passes reading the kernel's input instead of the output, where the input is kept anyway.

After a rectifier, whose derivative needs the signs of its output, batch-norm can go backward with the rectifier's
output. Batch-norm's own output need not be kept: the next kernel can work in its place. The only cost in memory: signs
of the rectifier's output are not enough.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

import numpy as np

from nnet3.engine.ir.analysis import WRITE, Analysis, analyse
from nnet3.engine.ir.commands import Backprop, Propagate, SegmentMarker, with_values
from nnet3.engine.ir.computation import NnetComputation


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


def _changed(analysis: Analysis, marker: int) -> dict[int, Backprop]:
    """Returns the commands that are to read an input, by number: all readers of a matrix of outputs, or none."""
    found: dict[int, dict[int, Backprop]] = defaultdict(dict)
    for number, command in _with_inputs(analysis):
        output = analysis.computation.commands[number].output  # type: ignore[attr-defined]
        found[analysis.computation.submatrices[output].matrix][number] = command
    is_after = analysis.accesses.command > marker
    readers = zip(
        analysis.matrix_of_access[is_after].tolist(), analysis.accesses.command[is_after].tolist(), strict=True
    )
    unwanted = {matrix for matrix, number in readers if number not in found.get(matrix, ())}
    return {number: each for matrix in found.keys() - unwanted for number, each in found[matrix].items()}


def _with_inputs(analysis: Analysis) -> Iterator[tuple[int, Backprop]]:
    """Yields the commands, by number, with the kernel's input in the place of its output where that is allowed."""
    computation, chosen = analysis.computation, list[tuple[int, int, Propagate]]()
    for number in analysis.accesses.numbers_of_class.get(Backprop, []):
        command = computation.commands[number]
        assert isinstance(command, Backprop)
        if computation.kernels[command.kernel].backprop_takes_input and command.output and command.memo >= 0:
            maker = analysis.accesses.memo_makers[command.memo]
            forward = computation.commands[maker]
            assert isinstance(forward, Propagate)
            is_used_later = analysis.last_access[computation.submatrices[forward.inputs[0]].matrix] > number
            if forward.output == command.output and is_used_later:
                chosen.append((number, maker, forward))
    values = np.array([(forward.inputs[0], forward.output) for *_, forward in chosen], np.int64).reshape(-1)
    makers = np.repeat(np.array([maker for _, maker, _ in chosen], np.int64), 2)
    writes = analysis.next_access(values, makers + 1, WRITE).reshape(-1, 2).min(axis=1).tolist()
    for (number, _, forward), write in zip(chosen, writes, strict=True):
        if write > number:
            yield number, with_values(computation.commands[number], inputs=forward.inputs, output=0)  # type: ignore[misc]
