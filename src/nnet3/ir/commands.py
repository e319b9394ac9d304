"""The commands of a computation: one frozen dataclass each, beside its shape rule and its printed line.

Sub-matrices are numbers; 0 is the empty one and is accessed by nobody. To add a command: a class with its rule and
line, a rule in `nnet3.runtime`, and their tests; see docs/writing_a_command.md. Classes stand in files by family.
"""

from nnet3.ir.commands_control import (
    AcceptInput as AcceptInput,
    ProvideOutput as ProvideOutput,
    Repeat as Repeat,
    SegmentMarker as SegmentMarker,
)
from nnet3.ir.commands_kernels import Backprop as Backprop, Propagate as Propagate
from nnet3.ir.commands_memory import (
    AllocMatrix as AllocMatrix,
    CompressMatrix as CompressMatrix,
    DeallocMatrix as DeallocMatrix,
    DecompressMatrix as DecompressMatrix,
    SetConst as SetConst,
)
from nnet3.ir.commands_rows import (
    AddRowRanges as AddRowRanges,
    AddRows as AddRows,
    AddRowsMulti as AddRowsMulti,
    AddToRowsMulti as AddToRowsMulti,
    CopyRows as CopyRows,
    CopyRowsMulti as CopyRowsMulti,
    MatrixAdd as MatrixAdd,
    MatrixCopy as MatrixCopy,
)
from nnet3.ir.declarations import (
    Access as Access,
    AccessKind as AccessKind,
    Command as Command,
    Role as Role,
    substitute as substitute,
    with_operands as with_operands,
    with_values as with_values,
)
