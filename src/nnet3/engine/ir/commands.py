"""The commands of a computation: one frozen dataclass per command, beside its shape rule and its printed line.

Sub-matrices are numbers; 0 is the empty sub-matrix and is accessed by nobody. To add a command: a class with its rule
and line, a rule in `nnet3.engine.runtime`, and tests; see docs/writing_a_command.md. Classes stand in files by family.
"""

from nnet3.engine.ir.commands_control import AcceptInput, ProvideOutput, Repeat, SegmentMarker
from nnet3.engine.ir.commands_kernels import Backprop, Propagate, PropagateAgain
from nnet3.engine.ir.commands_memory import AllocMatrix, CompressMatrix, DeallocMatrix, DecompressMatrix, SetConst
from nnet3.engine.ir.commands_rows import (
    AddRowRanges,
    AddRows,
    AddRowsMulti,
    AddToRowsMulti,
    CopyRows,
    CopyRowsMulti,
    MatrixAdd,
    MatrixCopy,
)
from nnet3.engine.ir.declarations import Access, AccessMode, Command, Role, substitute, with_operands, with_values
