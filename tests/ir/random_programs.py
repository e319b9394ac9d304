"""Random valid computations: any command on any blocks, as long as nothing undefined is read and nothing overlaps.

They have a forward and a backward segment. Matrices live from beginning to end; some lie outside; some are temporaries
that are used again and again.
"""

from __future__ import annotations

from random import Random

import numpy as np
from hypothesis import strategies as st

from nnet3.engine.ir import commands as cmd
from nnet3.engine.ir.computation import NnetComputation
from nnet3.engine.ir.program_tables import IoInfo, MatrixInfo
from tests.ir.random_commands import CommandWriter
from tests.ir.toy_kernels import DIM, KERNELS


def programs() -> st.SearchStrategy[NnetComputation]:
    # A seed, because recording every random choice for shrinking takes ten times as long as all else.
    return st.integers(0, 2**32 - 1).map(lambda seed: ProgramWriter(Random(seed)).program())


class ProgramWriter(CommandWriter):
    """Writes a program from the first allocation to the last deallocation."""

    def __init__(self, random: Random):
        super().__init__(random, NnetComputation(kernels=list(KERNELS), need_model_derivative=True))

    def program(self) -> NnetComputation:
        self._outside("W", writable=False)
        self._outside("gradient", writable=True)
        self._allocate(rows=6)  # room for a block of any size
        for _ in range(self.random.randint(2, 5)):
            self._allocate()
        for _ in range(3):
            self._allocate_temporary()
        self._allocate_wide()
        c = self.c
        x, out, x_deriv, out_deriv = (self._allocate() for _ in range(4))
        c.inputs, c.outputs = [IoInfo("input", x, x_deriv)], [IoInfo("output", out, out_deriv)]
        self._accept(x, "input")
        self.compute(self.random.randint(3, 12), backward=False)
        self._provide(out, "output")
        c.commands.append(cmd.SegmentMarker())
        self._accept(out_deriv, "output")
        self.compute(self.random.randint(3, 12), backward=True)
        self._provide(x_deriv, "input")
        kept = {m for m in (out, x_deriv) if self.random.random() < 0.5}
        c.commands += [cmd.DeallocMatrix(m) for m in self._allocated if m not in kept]
        return c

    # ---- memory and the outside world ----

    def _outside(self, name: str, *, writable: bool) -> None:
        rows = self.random.randint(2, 6)
        info = MatrixInfo(name, False, None) if self.random.random() < 0.5 else None
        matrix = self.c.new_outside(name, rows, DIM * self.random.randint(1, 2), writable, info)
        self.add_matrix(matrix, defined=True, writable=writable)

    def _allocate(self, rows: int = 0) -> int:
        matrix = self.c.new_matrix(rows or self.random.randint(2, 6), DIM * self.random.randint(1, 2))
        zeroed = self.random.random() < 0.6
        self.c.commands.append(cmd.AllocMatrix(matrix, zeroed))
        self.add_matrix(matrix, defined=zeroed, writable=True)
        return matrix

    def _allocate_temporary(self) -> None:
        matrix = self.c.new_matrix(4, DIM)
        zeroed = self.random.random() < 0.3
        self.c.commands.append(cmd.AllocMatrix(matrix, zeroed))
        self.add_matrix(matrix, defined=zeroed, writable=True, temporary=True)

    def _allocate_wide(self) -> None:
        matrix = self.c.new_matrix(2, 2 * DIM)
        self.c.commands.append(cmd.AllocMatrix(matrix, zeroed=False))
        self.defined[self.c.submatrices[matrix].matrix] = np.zeros((2, 2 * DIM), dtype=bool)
        self.wide.append(matrix)

    @property
    def _allocated(self) -> list[int]:
        return [command.matrix for command in self.c.commands if isinstance(command, cmd.AllocMatrix)]

    def _accept(self, matrix: int, name: str) -> None:
        self.c.commands.append(cmd.AcceptInput(matrix, name))
        self._define(matrix)

    def _provide(self, matrix: int, name: str) -> None:
        if not self._is_defined(matrix):
            self.c.commands.append(cmd.SetConst(matrix, 1.0))
            self._define(matrix)
        self.c.commands.append(cmd.ProvideOutput(matrix, name))
