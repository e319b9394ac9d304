"""Delay: the value of another time, by which recurrent connections are made (1.143 to 1.146)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from nnet3.cn.node import Node
from nnet3.cn.operation import Operation
from nnet3.cn.shape import Shape
from nnet3.cn.source_nodes import DelayRule, NodeForm
from nnet3.engine.lowering.source import GatherPart, NodeKind
from nnet3.errors import NetworkError, ShapeError

_LONGEST = 2**30  # lag: times are numbers of 32 bits


@dataclass(frozen=True)
class Delay(Operation):
    """Column (n, t) is column (n, t - lag) of the operand, if present; else of the initial state, or `default`.

    A delay computes nothing: lowering gathers the rows from their places.
    """

    type: ClassVar[str] = "delay"
    num_operands: ClassVar[int] = 2
    num_optional: ClassVar[int] = 2  # what is delayed may be said later
    rows: int
    lag: int = 1
    default: float = 0.0
    axis: str | None = None

    def check(self) -> None:
        if self.lag == 0 or abs(self.lag) > _LONGEST:
            raise NetworkError(f"delay: expected a lag other than 0, of at most {_LONGEST} frames, got {self.lag}")
        if self.rows < 1:
            raise NetworkError(f"delay: expected at least one row, got {self.rows}")

    def form(self, operands: Sequence[Shape], value: Shape) -> NodeForm:
        parts = (GatherPart(self.rows, 1, len(operands), default=self.default),)
        return NodeForm(
            NodeKind.GATHERED,
            parts,
            rule=lambda clock, sources: DelayRule(clock, sources, self.lag),
            clock_for="is delayed",
        )

    def infer(self, operands: Sequence[Shape]) -> Shape:
        for operand in operands:
            if not operand.has_samples:
                raise ShapeError("delay needs operands with samples: what has none is the same at all times")
            if operand.rows != self.rows:
                raise ShapeError(f"delay of {self.rows} rows needs operands of {self.rows} x S")
            if operand.cols != self.axis:
                raise ShapeError(f"delay needs operands on its axis '{self.axis or 'S'}': give axis")
        return Shape(self.rows, self.axis)


class DelayNode(Node):
    """A delay, whose operand may be given later. Operands: what is delayed and, if given, the initial state."""

    operation: Delay

    def __init__(self, operation: Delay, operands: Sequence[Node] = (), name: str = "", initial: Node | None = None):
        super().__init__(operation, operands, name)
        self.initial = initial
        if operands:
            source = operands[0]
            self.operands = ()
            self.initial = operands[1] if len(operands) > 1 else initial
            self.connect(source)

    def connect(self, source: Node) -> Node:
        """Makes `source` the delayed node, and returns it, so that one expression closes a loop.

        Raises NetworkError for a connected delay, ShapeError if `source` does not fit.
        """
        if not isinstance(source, Node):
            raise NetworkError(f"delay: expected a node, got {source!r}")
        if self.operands:
            raise NetworkError(f"delay '{self.formula}' is connected to '{self.operands[0].formula}' already")
        _check_is_input(self.initial)
        self.operands = (source,) if self.initial is None else (source, self.initial)
        try:
            self.shape = self._inferred_shape()
        except ShapeError:
            self.operands = ()
            raise
        return source

    @property
    def lag(self) -> int:
        return self.operation.lag

    @property
    def needs_other_frames(self) -> bool:
        return self.initial is None

    @property
    def short_formula(self) -> str:
        # The loop that a delay closes would make the formula endless.
        return self.name or f"delay(lag={self.operation.lag})"


def _check_is_input(initial: object) -> None:
    if initial is not None and not (isinstance(initial, Node) and initial.type == "input"):
        raise NetworkError(f"delay: the initial state must be an input, got {initial!r}")


def delay(
    x: Node | None = None,
    lag: int = 1,
    default: float = 0.0,
    *,
    initial: Node | None = None,
    dim: int | None = None,
    axis: str | None = None,
    name: str = "",
) -> DelayNode:
    """Returns the value `lag` frames ago (a negative lag: a later frame's); `default` where there is no such frame.

    `x` may be None, for a delay of `dim` rows, on an `axis` (see `input`); `connect` gives the operand later, which
    closes a loop. `initial`: an input with |lag| frames for each sequence, in the place of the frames before the
    first (or after the last). Raises NetworkError for lag 0.
    """
    if x is not None and not isinstance(x, Node):
        raise NetworkError(f"delay: expected a node, got {x!r}")
    if x is None and dim is None:
        raise NetworkError("delay: without an operand, give dim, the number of rows that it will have")
    if x is not None and dim not in (None, x.shape.rows):
        raise NetworkError(f"delay: dim={dim!r}, but the operand has {x.shape.rows} rows: leave dim out")
    _check_is_input(initial)
    rows: Any = dim if x is None else x.shape.rows
    axis = axis if x is None else x.shape.axis or None
    return DelayNode(Delay(rows, lag, default, axis), () if x is None else (x,), name, initial)
