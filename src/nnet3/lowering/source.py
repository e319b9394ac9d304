"""GraphSource: all that lowering may ask of a front-end, whether nnet3 networks or computational networks.

A graph has numbered nodes, and a node's value is a matrix. A value has a row for each index (n, t, x) of a sample, or
it has no samples (`num_rows` is set): parameters, their products and norms, statistics, criteria. Nodes are of four
kinds:

* PROVIDED: comes from outside; values with samples from the request, others from memory that is bound by name;
* KERNEL: a kernel computes it from any number of operands (see `Use`);
* GATHERED: parts side by side; each part sums rows of other nodes, also of other times (see `GatherPart`);
* VIEW: a range of the columns of another node.

No rule may look at n: what holds for one sequence holds for all.

A node that puts x(t-1) and x(t) side by side has two slots. Its rows t = 0..3 look at x at these times:

>>> from tests.lowering.examples import splice
>>> source = splice().source
>>> [(node.name, node.kind.value) for node in source.nodes]
[('x', 'provided'), ('y_input', 'gathered'), ('y', 'kernel'), ('output', 'gathered')]
>>> nodes, indexes = source.slots(1, np.array([(0, t, 0) for t in range(4)], np.int32))
>>> indexes[:, :, 1].tolist()
[[-1, 0], [0, 1], [1, 2], [2, 3]]
"""

from __future__ import annotations

import enum
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

import numpy as np

from nnet3.index import IndexTable
from nnet3.ir.kernel import KernelInfo


class NodeKind(enum.Enum):
    PROVIDED = "provided"
    KERNEL = "kernel"
    GATHERED = "gathered"
    VIEW = "view"


class Use(enum.Enum):
    """The relation between the rows of an operand that a kernel reads and its own rows."""

    ROW = "row"  # row i for row i: the same index
    INDEXED = "indexed"  # the rows that `GraphSource.slots` names; the operand has no other user
    WHOLE = "whole"  # all of a value without samples
    ALL_SAMPLES = "all samples"  # every row of a gathered node that has no other user: sums, criteria


@dataclass(frozen=True)
class Operand:
    """A node that a kernel reads, or a view looks at."""

    node: int
    use: Use = Use.ROW


@dataclass(frozen=True)
class GatherPart:
    """Columns of a gathered node: constant + sum over the slots in use of scale * row.

    The part has `num_slots` of the node's slots, from `first_slot` on. `scale_of_source` holds the scale of each node
    that they may refer to, 1 if it is not there. Rows that use no slot are `default` (plus the constant).
    """

    num_cols: int
    first_slot: int
    num_slots: int
    constant: float = 0.0
    default: float = 0.0
    scale_of_source: Mapping[int, float] = field(default_factory=dict)


@dataclass(frozen=True)
class SourceNode:
    """One node.

    `operands`: all operands of a KERNEL, the one node that a VIEW looks at; other nodes have none. `num_rows`: None for
    a value with samples. A PROVIDED value without samples is bound under the name `memory`, and its derivative under
    `gradient` ("" if nobody wants it); with `accumulates` the derivative is added to what lies there.
    """

    name: str
    kind: NodeKind
    num_cols: int
    operands: tuple[Operand, ...] = ()
    parts: tuple[GatherPart, ...] = ()
    col_offset: int = 0  # of a VIEW
    num_rows: int | None = None
    memory: str = ""
    gradient: str = ""
    accumulates: bool = True

    @property
    def adds_to_memory(self) -> bool:
        """True if the derivative is added to what lies in bound memory."""
        return bool(self.gradient) and self.accumulates


def common_period(periods: Iterable[int | None]) -> int | None:
    """Returns the period of several rules together, None if that of one is not known."""
    each = set(periods)
    return None if None in each else math.lcm(1, *(period for period in each if period is not None))


class GraphRules(Protocol):
    """The nodes of a front-end's graph and what they use: enough to find out what a request involves.

    Index tables are int32 (rows, 3) of n, t, x; "rows" is any number of indexes of one node.
    """

    @property
    def nodes(self) -> Sequence[SourceNode]:
        """All nodes; elsewhere a node is its position in this list."""

    @property
    def period(self) -> int | None:
        """Frames of time: what holds at t holds at t + period, but for constant times. None if that is not known."""

    def may_use(self, node: int) -> Sequence[int]:
        """The nodes to which this one may refer at any index (of a GATHERED node, all its slots' sources)."""

    def slots(self, node: int, indexes: IndexTable) -> tuple[np.ndarray, IndexTable]:
        """Source nodes (rows, slots) and their indexes (rows, slots, 3), for GATHERED nodes and INDEXED operands.

        All indexes have equally many slots, those of several INDEXED operands in order. Slots have the n of their row.
        The index of a value without samples does not matter.
        """

    def computable(self, node: int, indexes: IndexTable, available: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Returns the rows that are computable (rows,) and the slots that they use (rows, slots).

        `available` (rows, slots) holds for the slots of `slots`; it is asked for GATHERED nodes and for kernels with an
        INDEXED operand. The rule is monotonic: more slots never make fewer rows computable, and if a row uses the same
        slots of two sets, one within the other, it uses them of all sets between.
        """


class GraphSource(GraphRules, Protocol):
    """A front-end's graph with its kernels."""

    def kernel(self, node: int) -> KernelInfo:
        """The promises of a KERNEL node's kernel; nodes that share a kernel give one name."""

    def arrange(self, node: int, inputs: IndexTable, outputs: IndexTable) -> tuple[IndexTable, IndexTable]:
        """The row orders that a kernel with an INDEXED operand wants; padding rows have t = NO_TIME."""

    def precompute(
        self, node: int, inputs: IndexTable, outputs: IndexTable, *, need_backprop: bool
    ) -> dict[str, np.ndarray] | None:
        """Named arrays that a kernel that `needs_indexes` makes of the indexes of its rows; None if it needs none.

        The tables are those after `arrange`. The inputs are those of the INDEXED operand, if there is one; of operands
        by ROW they are the outputs.
        """


@runtime_checkable
class OffersRemedies(Protocol):
    """A GraphSource that can also advise its user, in the user's words, on rows that cannot be computed."""

    def remedy(self, node: int, indexes: IndexTable) -> str:
        """Advice about these rows of a node, "" if there is none.

        They cannot be computed though no input is missing: `computable` refuses them whatever is available, or they
        belong to a recurrence with no way to start.
        """


@dataclass(frozen=True, eq=False)
class RequestedRows:
    """Rows of one node that the user gives or wants, in the user's order.

    For a value without samples `indexes` is (0, 3).
    """

    node: int
    name: str
    indexes: IndexTable
    has_deriv: bool = False


@dataclass(frozen=True, eq=False)
class LoweringRequest:
    """The rows that are given and those that are wanted of a graph.

    `inputs` may name PROVIDED nodes or, with ready-made values, KERNEL nodes. `outputs` name nodes of any kind.
    `samples`: the indexes over which ALL_SAMPLES operands run (needed only where there are any).
    `deriv_times`: the first and the last t at which there are derivatives, None for all (see `live_rows`).
    `watches_others`: outputs without a derivative are only looked at, and what lies below these alone has none; else
    its derivative is zero, and is computed.
    """

    inputs: Sequence[RequestedRows]
    outputs: Sequence[RequestedRows]
    need_model_derivative: bool = False
    store_component_stats: bool = False
    samples: IndexTable | None = None
    deriv_times: tuple[int, int] | None = None
    watches_others: bool = False

    @property
    def needs_backward(self) -> bool:
        return self.need_model_derivative or any(rows.has_deriv for rows in (*self.inputs, *self.outputs))
