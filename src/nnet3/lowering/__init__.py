"""From a graph of nodes and a request to a program of matrix commands, whoever the front-end is.

`lower` is `build_graph`, `schedule` and `generate` in a row; each of their results can be printed.
"""

from nnet3.lowering.build_graph import build_graph
from nnet3.lowering.generate import generate
from nnet3.lowering.graph import ComputationGraph
from nnet3.lowering.lower import lower
from nnet3.lowering.schedule import Schedule
from nnet3.lowering.scheduler import schedule
from nnet3.lowering.source import (
    GatherPart,
    GraphSource,
    LoweringRequest,
    NodeKind,
    Operand,
    RequestedRows,
    SourceNode,
    Use,
)

__all__ = [
    "ComputationGraph",
    "GatherPart",
    "GraphSource",
    "LoweringRequest",
    "NodeKind",
    "Operand",
    "RequestedRows",
    "Schedule",
    "SourceNode",
    "Use",
    "build_graph",
    "generate",
    "lower",
    "schedule",
]
