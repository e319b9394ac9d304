"""Computations for tests: written by hand with `Program`, or drawn at random by hypothesis."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from nnet3.engine.ir import commands as cmd
from nnet3.engine.ir.computation import NnetComputation
from nnet3.engine.ir.kernel import InputPromises, KernelInfo
from nnet3.engine.ir.program_tables import IoInfo, MatrixInfo
from nnet3.engine.runtime import plan

PRODUCT = KernelInfo("product", inputs=(InputPromises(backprop_needs_value=True),) * 2, row_by_row=True)


class Program:
    """A computation that grows command by command."""

    def __init__(self) -> None:
        self.computation = NnetComputation()

    def add(self, *commands: cmd.Command) -> Program:
        self.computation.commands += commands
        return self

    def matrix(self, rows: int, cols: int, node: str = "", *, zeroed: bool = False, is_deriv: bool = False) -> int:
        """A matrix allocated now; with a node's name, rows are t = 0, 1, 2... of sequence 0."""
        indexes = np.array([(0, t, 0) for t in range(rows)], dtype=np.int32)
        number = self.computation.new_matrix(rows, cols, MatrixInfo(node, is_deriv, indexes) if node else None)
        self.add(cmd.AllocMatrix(number, zeroed=zeroed))
        return number

    def part(self, matrix: int, row: int, rows: int, col: int = 0, cols: int | None = None) -> int:
        return self.computation.new_submatrix(matrix, row, rows, col, cols)

    def index_table(self, rows: list[int]) -> int:
        return self.computation.new_index_table(np.array(rows, dtype=np.int32))

    def multi_table(self, pairs: list[tuple[int, int]]) -> int:
        return self.computation.new_multi_table(np.array(pairs, dtype=np.int32).reshape(-1, 2))

    def range_table(self, ranges: list[tuple[int, int]]) -> int:
        return self.computation.new_range_table(np.array(ranges, dtype=np.int32).reshape(-1, 2))

    def kernel(self, info: KernelInfo) -> int:
        self.computation.kernels.append(info)
        return len(self.computation.kernels) - 1

    def input(self, name: str, rows: int, cols: int) -> int:
        matrix = self.matrix(rows, cols, name)
        self.computation.inputs.append(IoInfo(name, matrix, 0))
        self.add(cmd.AcceptInput(matrix, name))
        return matrix

    def output(self, name: str, matrix: int) -> None:
        self.computation.outputs.append(IoInfo(name, matrix, 0))
        self.add(cmd.ProvideOutput(matrix, name))


class RandomProgram:
    """Draws a valid program: everything read has been written, memory is freed now and then."""

    def __init__(self, draw: st.DrawFn) -> None:
        self.draw, self.program = draw, Program()
        self.computation = self.program.computation
        self.live: list[int] = []  # whole matrices that are defined
        self.product = self.program.kernel(PRODUCT)
        self.iterations = 1  # of the Repeat that is being written

    def build(self) -> NnetComputation:
        for number in range(self.draw(st.integers(1, 3))):
            self.live.append(self.program.input(f"in{number}", *self.size()))
        steps = [self.grow, self.write_part, self.move_rows, self.kernel, self.free, self.compress, self.repeat]
        for _ in range(self.draw(st.integers(1, 15))):
            self.draw(st.sampled_from(steps))()
        for number, matrix in enumerate(self.live):
            self.program.output(f"out{number}", matrix)
        return self.computation

    def size(self) -> tuple[int, int]:
        return self.draw(st.integers(1, 30)), self.draw(st.integers(1, 3))

    def scale(self) -> float:
        return self.draw(st.sampled_from([1.0, -1.0, 0.5]))

    def grow(self) -> int:
        """A new matrix: zeros, a constant, or a copy."""
        kind = self.draw(st.sampled_from(["zeros", "constant", "copy"]))
        source = self.draw(st.sampled_from(self.live)) if self.live else 0
        if kind == "copy" and source:
            block = self.computation.submatrices[source]
            matrix = self.program.matrix(block.num_rows, block.num_cols)
            self.program.add(cmd.MatrixCopy(matrix, source, self.scale()))
        else:
            matrix = self.program.matrix(*self.size(), zeroed=kind == "zeros")
            if kind != "zeros":
                self.program.add(cmd.SetConst(matrix, 0.25))
        self.live.append(matrix)
        return matrix

    def part_of(self, matrix: int, cols: int) -> int | None:
        """A block of a matrix with this many columns."""
        block = self.computation.submatrices[matrix]
        if block.num_cols < cols:
            return None
        row = self.draw(st.integers(0, block.num_rows - 1))
        rows = self.draw(st.integers(1, block.num_rows - row))
        col = self.draw(st.integers(0, block.num_cols - cols))
        return self.program.part(matrix, row, rows, col, cols)

    def pair(self) -> tuple[int, int] | None:
        """Blocks of equal width in two different matrices."""
        if len(self.live) < 2:
            return None
        first, second = self.draw(st.permutations(self.live))[:2]
        cols = min(self.computation.submatrices[m].num_cols for m in (first, second))
        parts = self.part_of(first, cols), self.part_of(second, cols)
        return None if None in parts else parts  # type: ignore[return-value]

    def write_part(self) -> None:
        pair = self.pair()
        if pair is None:
            return
        dest, source = pair
        rows = min(self.computation.submatrices[s].num_rows for s in pair)
        command = self.draw(st.sampled_from([cmd.MatrixCopy, cmd.MatrixAdd]))
        to, of = (self.moving(self.program.part(s, 0, rows)) for s in (dest, source))
        self.program.add(command(to, of, self.scale()))

    def move_rows(self) -> None:
        pair = self.pair()
        if pair is None:
            return
        dest, source = pair
        dest_rows, source_rows = (self.computation.submatrices[s].num_rows for s in pair)
        kind = self.draw(st.sampled_from(["rows", "gather", "scatter", "ranges"]))
        if kind == "ranges":
            bounds = [sorted(self.draw(st.tuples(*[st.integers(0, source_rows)] * 2))) for _ in range(dest_rows)]
            table = self.program.range_table([(first, end) for first, end in bounds])
            self.program.add(cmd.AddRowRanges(self.moving(dest), self.moving(source), table, self.scale()))
        elif kind == "scatter":
            rows = self.draw(st.permutations(range(dest_rows)))[:source_rows]
            pairs = [(dest, row) if self.draw(st.booleans()) else (-1, -1) for row in rows]
            table = self.program.multi_table(pairs + [(-1, -1)] * (source_rows - len(pairs)))
            self.program.add(cmd.AddToRowsMulti(self.moving(source), table, self.scale()))
        else:
            self.gather(kind, dest, source)

    def gather(self, kind: str, dest: int, source: int) -> None:
        dest_rows, source_rows = (self.computation.submatrices[s].num_rows for s in (dest, source))
        start, step = self.draw(st.integers(0, source_rows - 1)), self.draw(st.integers(0, 2))
        rows = [min(start + step * i, source_rows - 1) for i in range(dest_rows)]
        if self.draw(st.booleans()):
            rows = self.draw(st.lists(st.integers(-1, source_rows - 1), min_size=dest_rows, max_size=dest_rows))
        if kind == "rows":
            command = self.draw(st.sampled_from([cmd.CopyRows, cmd.AddRows]))
            self.program.add(
                command(self.moving(dest), self.moving(source), self.program.index_table(rows), self.scale())
            )
        else:
            multi = self.draw(st.sampled_from([cmd.CopyRowsMulti, cmd.AddRowsMulti]))
            table = self.program.multi_table([(source, row) if row >= 0 else (-1, -1) for row in rows])
            self.program.add(multi(self.moving(dest), table, self.scale()))

    def kernel(self) -> None:
        """product(a, b), where b has the size of a."""
        if not self.live:
            return
        first = self.draw(st.sampled_from(self.live))
        block = self.computation.submatrices[first]
        second = self.program.matrix(block.num_rows, block.num_cols)
        output = self.program.matrix(block.num_rows, block.num_cols)
        self.program.add(cmd.SetConst(second, 0.5), cmd.Propagate(self.product, "product", (first, second), output))
        self.program.add(cmd.DeallocMatrix(second))
        self.live.append(output)

    def repeat(self) -> None:
        """A few commands that move on from iteration to iteration."""
        iterations, start = self.draw(st.integers(1, 5)), len(self.computation.commands)
        self.iterations = iterations
        for _ in range(self.draw(st.integers(1, 4))):
            self.draw(st.sampled_from([self.write_part, self.move_rows]))()
        self.iterations = 1
        length = len(self.computation.commands) - start
        if length:
            self.computation.commands.insert(start, cmd.Repeat(iterations, length))

    def moving(self, submatrix: int) -> int:
        """The sub-matrix, or in the body of a Repeat one that moves and stays inside its matrix."""
        block = self.computation.submatrices[submatrix]
        room = self.computation.matrices[block.matrix].num_rows - block.num_rows
        most = room // max(self.iterations - 1, 1) if self.iterations > 1 else 0
        step = self.draw(st.integers(-most, most))
        first = self.draw(st.integers(0, room - abs(step) * (self.iterations - 1))) if step else block.row_offset
        first += abs(step) * (self.iterations - 1) if step < 0 else 0
        return self.computation.find_or_add(block._replace(row_offset=first, row_step=step))

    def free(self) -> None:
        if self.live:
            matrix = self.draw(st.sampled_from(self.live))
            self.live.remove(matrix)
            self.program.add(cmd.DeallocMatrix(matrix))

    def compress(self) -> None:
        """Make another matrix while this one is compressed: it may get its place."""
        if self.live:
            matrix = self.draw(st.sampled_from(self.live))
            self.live.remove(matrix)
            self.program.add(cmd.CompressMatrix(matrix))
            self.grow()
            self.program.add(cmd.DecompressMatrix(matrix))
            self.live.append(matrix)


def opcodes_of_last(program: Program) -> list[str]:
    """Returns the opcodes of calls that the last command becomes."""
    made = plan(program.computation)
    last = made.call_command == len(program.computation.commands) - 1
    return [made.opcodes[opcode] for opcode in made.call_opcode[last].tolist()]


@st.composite
def random_programs(draw: st.DrawFn) -> NnetComputation:
    return RandomProgram(draw).build()
