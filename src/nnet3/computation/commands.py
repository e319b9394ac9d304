"""The commands of a computation: one frozen dataclass each, beside its shape rule and its printed line.

Sub-matrices are numbers; 0 is the empty one and is accessed by nobody. To add a command: a class with its rule and
line, a rule in `nnet3.compute`, and their tests; see docs/writing_a_command.md. Classes stand in files by family.
"""

from nnet3.computation.commands_control import AcceptInput, Goto, Label, NoOp, ProvideOutput, SegmentMarker
from nnet3.computation.commands_kernels import Backprop, Propagate
from nnet3.computation.commands_memory import (
    COMPRESSION_METHODS,
    AllocMatrix,
    CompressMatrix,
    DeallocMatrix,
    DecompressMatrix,
    SetConst,
    SwapMatrix,
)
from nnet3.computation.commands_rows import (
    AddRowRanges,
    AddRows,
    AddRowsMulti,
    AddToRowsMulti,
    CopyRows,
    CopyRowsMulti,
    CopyToRowsMulti,
    MatrixAdd,
    MatrixCopy,
)
from nnet3.computation.declarations import Access, AccessKind, Command, substitute, with_operands, with_values

__all__ = [
    "COMPRESSION_METHODS",
    "AcceptInput",
    "Access",
    "AccessKind",
    "AddRowRanges",
    "AddRows",
    "AddRowsMulti",
    "AddToRowsMulti",
    "AllocMatrix",
    "Backprop",
    "Command",
    "CompressMatrix",
    "CopyRows",
    "CopyRowsMulti",
    "CopyToRowsMulti",
    "DeallocMatrix",
    "DecompressMatrix",
    "Goto",
    "Label",
    "MatrixAdd",
    "MatrixCopy",
    "NoOp",
    "Propagate",
    "ProvideOutput",
    "SegmentMarker",
    "SetConst",
    "SwapMatrix",
    "substitute",
    "with_operands",
    "with_values",
]
