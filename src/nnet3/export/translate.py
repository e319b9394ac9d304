"""translate: the commands of a program as nodes of an ONNX graph, command by command."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from nnet3.engine.families.continued import NotAffineError
from nnet3.engine.ir import commands as ir_commands
from nnet3.engine.ir.declarations import AccessMode, Command
from nnet3.errors import ExportError
from nnet3.export.blocks import Blocks
from nnet3.export.emitter_table import Emission, Emitted
from nnet3.export.extent import Extent
from nnet3.export.gather import take
from nnet3.export.graph import GraphBuilder, OnnxValue
from nnet3.export.loops import add_loop
from nnet3.export.program import Block, ExportProgram, TablePattern


def translate(
    graph: GraphBuilder,
    program: ExportProgram,
    emit: Emitted,
    inputs: Mapping[str, OnnxValue],
    outside: Mapping[str, OnnxValue] | None = None,
) -> dict[str, OnnxValue]:
    """Adds the nodes of a program for one sequence to a graph, for any number of sequences; returns the outputs.

    `emit` adds the nodes of a kernel. `outside` holds the matrices bound from outside. Raises ExportError for commands
    without operators in ONNX.
    """
    try:
        return _Translation(graph, program, emit, inputs).run(outside or {})
    except NotAffineError:
        raise ExportError("the order of rows depends on the length of the utterance: export a fixed chunk") from None


def _matrices_read(program: ExportProgram, commands: Sequence[Command]) -> set[int]:
    """Returns the matrices read by commands before deallocation."""
    read: set[int] = set()
    for command in reversed(commands):
        if isinstance(command, ir_commands.DeallocMatrix):
            read.discard(program.block(command.matrix).matrix)
        for access in program.accesses(command):
            if access.mode & AccessMode.READ:
                read.add(program.block(access.submatrix).matrix)
    return read


class _Translation:
    def __init__(
        self, graph: GraphBuilder, program: ExportProgram, emit: Emitted, inputs: Mapping[str, OnnxValue]
    ) -> None:
        self.graph, self.program, self.emit, self.inputs = graph, program, emit, inputs
        self.blocks = Blocks(graph)
        self.outputs: dict[str, OnnxValue] = {}

    def run(self, outside: Mapping[str, OnnxValue]) -> dict[str, OnnxValue]:
        for name, submatrix in self.program.outside:
            self.write(submatrix, outside[name])
        commands, position = self.program.commands, 0
        while position < len(commands):
            command = commands[position]
            position += 1
            if isinstance(command, ir_commands.Repeat):
                body, position = commands[position : position + command.length], position + command.length
                iterations = self.program.iterations(position - command.length - 1)
                self.repeat(body, iterations, _matrices_read(self.program, commands[position:]))
            else:
                self.add_command(command)
        return self.outputs

    def add_command(self, command: Command) -> None:
        rule = _RULES.get(type(command))
        if rule is None:
            name = type(command).__name__
            reason = (
                "it belongs to training" if hasattr(ir_commands, name) else "nnet3.export.translate has no rule for it"
            )
            raise ExportError(f"{name} cannot be exported: {reason}")
        rule(self, command)

    def repeat(self, body: Sequence[Command], iterations: Extent, read_later: set[int]) -> None:
        def translate_body(graph: GraphBuilder, blocks: Blocks) -> None:
            inner = _Translation(graph, self.program, self.emit, self.inputs)
            inner.blocks = blocks
            for command in body:
                inner.add_command(command)

        add_loop(self.graph, self.program, body, iterations, self.blocks, read_later, translate_body)

    def read(self, submatrix: int) -> OnnxValue:
        return self._read_block(self.program.block(submatrix))

    def _read_block(self, block: Block) -> OnnxValue:
        return self.blocks.read(block.matrix, block.area)

    def write(self, submatrix: int, value: OnnxValue) -> None:
        block = self.program.block(submatrix)
        self.blocks.write(block.matrix, block.area, value)

    # ---- commands ----

    def alloc(self, command: ir_commands.AllocMatrix) -> None:
        block = self.program.block(command.matrix)
        self.blocks.forget(block.matrix)
        if command.zeroed:
            self.write(command.matrix, self.graph.filled(0.0, block.rows, block.columns))

    def dealloc(self, command: ir_commands.DeallocMatrix) -> None:
        self.blocks.forget(self.program.block(command.matrix).matrix)

    def set_const(self, command: ir_commands.SetConst) -> None:
        block = self.program.block(command.dest)
        self.write(command.dest, self.graph.filled(command.value, block.rows, block.columns))

    def accept_input(self, command: ir_commands.AcceptInput) -> None:
        self.write(command.dest, self.inputs[command.name])

    def provide_output(self, command: ir_commands.ProvideOutput) -> None:
        self.outputs[command.name] = self.read(command.source)

    def propagate(self, command: ir_commands.Propagate) -> None:
        name, block = self.program.kernel_name(command.kernel), self.program.block(command.output)
        members = self.program.precomputed(command.precomputed)
        about = Emission(self.graph, name, block.rows, block.columns, members)
        self.write(command.output, self.emit(about, list(map(self.read, command.inputs))))

    def copy(self, command: Any) -> None:
        self.write(command.dest, self._source(command))

    def add(self, command: Any) -> None:
        self.write(command.dest, self.graph.combine("Add", self.read(command.dest), self._source(command)))

    def _source(self, command: Any) -> OnnxValue:
        """Returns scale times the rows that a command takes."""
        if isinstance(command, ir_commands.MatrixCopy | ir_commands.MatrixAdd):
            return self.graph.scaled(self.read(command.source), command.scale)
        table, source = self._table(command)
        columns = self.program.block(command.dest).columns
        return self.graph.scaled(take(self.graph, table, columns, source), command.scale)

    def _table(self, command: Any) -> tuple[list[TablePattern], Callable[[Block | None], OnnxValue]]:
        if isinstance(command, ir_commands.CopyRows | ir_commands.AddRows):
            whole = self.read(command.source)
            return self.program.index_table(command.indexes), lambda _: whole

        def read(block: Block | None) -> OnnxValue:
            assert block is not None
            return self._read_block(block)

        return self.program.multi_table(command.table), read


_RULES: dict[type[Command], Callable[[_Translation, Any], None]] = {
    ir_commands.AllocMatrix: _Translation.alloc,
    ir_commands.DeallocMatrix: _Translation.dealloc,
    ir_commands.SetConst: _Translation.set_const,
    ir_commands.AcceptInput: _Translation.accept_input,
    ir_commands.ProvideOutput: _Translation.provide_output,
    ir_commands.Propagate: _Translation.propagate,
    ir_commands.MatrixCopy: _Translation.copy,
    ir_commands.CopyRows: _Translation.copy,
    ir_commands.CopyRowsMulti: _Translation.copy,
    ir_commands.MatrixAdd: _Translation.add,
    ir_commands.AddRows: _Translation.add,
    ir_commands.AddRowsMulti: _Translation.add,
}
