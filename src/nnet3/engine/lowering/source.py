"""GraphSource: all questions that lowering may ask of a front-end, nnet3 networks or computational networks.

A graph has numbered nodes, and a node's value is a matrix. A value has a row for each index (n, t, x) of a sample, or
the value has no samples (`num_rows` is set): parameters, their products and norms, statistics, criteria. Nodes are of
four kinds:

* PROVIDED: comes from outside; values with samples from the request, without samples from memory bound by name;
* KERNEL: a kernel computes the value from any number of operands (see `Use`);
* GATHERED: parts side by side; a part sums rows of other nodes, also of other times (see `GatherPart`);
* VIEW: a range of the columns of a node.

No rule may look at n: a rule for one sequence holds for all sequences.

A node that puts x(t-1) and x(t) side by side has two slots. Rows t = 0..3 of the node look at x at the following times:

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
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

import numpy as np

from nnet3.base.index import IndexTable
from nnet3.engine.ir.kernel import KernelInfo

#: The names of the arrays in which a kernel precomputes which of its inputs and outputs are padding.
PADDING = ("input_padding", "output_padding")


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

    The part has `num_slots` of the node's slots, from `first_slot` on. `scale_of_source` holds the scale of a source, 1
    if the source is missing. Rows without a slot in use are `default` (plus the constant).
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

    `operands`: all operands of a KERNEL, the one node seen by a VIEW; empty for nodes of the two remaining kinds.
    `num_rows`: None for a value with samples. A PROVIDED value without samples is bound under the name `memory`, and
    its derivative under `gradient` ("" if nobody wants the derivative); with `accumulates` the derivative is added to
    the memory's contents.
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
    """The nodes of a front-end's graph and their use of rows: enough to find out the rows involved in a request.

    Index tables are int32 (rows, 3) of n, t, x; "rows" is any number of indexes of one node.
    """

    @property
    def nodes(self) -> Sequence[SourceNode]:
        """All nodes; elsewhere a node is its position in this list."""

    @property
    def period(self) -> int | None:
        """Frames of time: what holds at t holds at t + period, but for constant times. None if that is not known."""

    def may_use(self, node: int) -> Sequence[int]:
        """The nodes to which a node may refer at any index (of a GATHERED node, the sources of all slots)."""

    def slots(self, node: int, indexes: IndexTable) -> tuple[np.ndarray, IndexTable]:
        """Source nodes (rows, slots) and their indexes (rows, slots, 3), for GATHERED nodes and INDEXED operands.

        All indexes have equally many slots, those of several INDEXED operands in order. Slots have the n of their row.
        The index of a value without samples does not matter.
        """

    def computable(self, node: int, indexes: IndexTable, available: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Returns the computable rows as a mask (rows,) and the slots that they use (rows, slots).

        `available` (rows, slots) holds for the slots of `slots`. The rule is asked for GATHERED nodes and for kernels
        with an INDEXED operand. The rule is monotonic: more slots never make fewer rows computable. If a row uses equal
        slots of two sets, one set within the second, the row uses the same slots of all sets between.
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
        """Named arrays that a kernel with `needs_indexes` makes of the indexes of its rows; None if none are needed.

        The tables are the tables after `arrange`. The inputs are the rows of the INDEXED operand, if a kernel has one;
        for operands by ROW the inputs are the outputs. Of a kernel with `PADDING` among its arrays these alone change
        if further rows become padding, as long as no time and no pair (n, x) loses its last row.
        """


@runtime_checkable
class OffersHints(Protocol):
    """A GraphSource with advice, in the user's words, on rows that cannot be computed."""

    def hint(self, node: int, indexes: IndexTable) -> str:
        """Advice about rows of a node, "" for no advice.

        The rows cannot be computed though no input is missing: `computable` refuses them whatever is available, or the
        rows belong to a recurrence with no way to start.
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
    """The given rows and the wanted rows of a graph.

    `inputs` may name PROVIDED nodes or, with ready-made values, KERNEL nodes. `outputs` name nodes of any kind.
    `samples`: the indexes over which ALL_SAMPLES operands run (needed only with such operands). `deriv_times`: the
    first and the last t with derivatives, None for all (see `live_rows`). `watches_others`: outputs without a
    derivative are only looked at, and nodes below watched outputs alone have no derivative; else the derivative of such
    an output is zero, and is computed. `frozen`: the names of kernels that get no gradient.
    """

    inputs: Sequence[RequestedRows]
    outputs: Sequence[RequestedRows]
    need_model_derivative: bool = False
    store_component_stats: bool = False
    samples: IndexTable | None = None
    deriv_times: tuple[int, int] | None = None
    watches_others: bool = False
    frozen: Collection[str] = ()

    @property
    def needs_backward(self) -> bool:
        return self.need_model_derivative or any(rows.has_deriv for rows in (*self.inputs, *self.outputs))

    def trains(self, kernel: KernelInfo) -> bool:
        """True if the parameters of a kernel get a gradient, for which its output needs a derivative."""
        return kernel.updatable and self.need_model_derivative and kernel.name not in self.frozen

    def updates(self, kernel: KernelInfo) -> bool:
        """True if a backward step changes a kernel: a frozen kernel may still count, where it has a derivative."""
        return self.trains(kernel) or (self.need_model_derivative and kernel.updatable and kernel.counts_backward)
