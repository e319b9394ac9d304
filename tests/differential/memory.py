"""The memory that a program needs, whatever its plan: the largest sum of what lives at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from nnet3.engine.ir.computation import NnetComputation
from nnet3.engine.ir.declarations import Life
from nnet3.engine.ir.passes import pipeline

_CHANGES = {Life.BEGINS: 4, Life.ENDS: -4, Life.COMPRESSES: -3, Life.DECOMPRESSES: 3}  # of the bytes of an element


def peak_bytes(computation: NnetComputation, sizes: NnetComputation | None = None) -> int:
    """With matrices in float32; what is compressed takes one byte a number.

    Matrices are as large as those in which `sizes` has the same sub-matrices, by default their own size.
    """
    sizes, now, peak = sizes or computation, 0, 0
    for command in computation.commands:
        for name, life in command.schema.lives:
            matrix = sizes.matrices[sizes.submatrices[getattr(command, name)].matrix]
            now += matrix.num_rows * matrix.num_cols * _CHANGES[life]
        peak = max(peak, now)
    return peak


def memory_problems(
    lowered: NnetComputation,
    run: Callable[[pipeline.Pass, NnetComputation], NnetComputation] = lambda one, program: one.function(program),
) -> Iterator[str]:
    """Yields the passes, alone or after those before them, that need more memory than they state."""
    chained = lowered
    for each in pipeline.PIPELINE:
        for before in (lowered, chained) if chained is not lowered else (lowered,):
            after = run(each, before)
            added = after.matrices[len(before.matrices) :] if each.adds_matrices else []
            allowed = peak_bytes(before, after if each.joins_matrices else None)
            allowed += sum(4 * m.num_rows * m.num_cols for m in added)
            if peak_bytes(after) > allowed:
                yield f"{each.name}: {peak_bytes(before)} -> {peak_bytes(after)} bytes, allowed {allowed}"
        chained = after
