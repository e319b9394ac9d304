"""Node: one vertex of a computational network, made by the functions of `nnet3.cn.nodes` and by operators."""

from __future__ import annotations

import numbers
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from itertools import islice
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from nnet3.base.native.huge_pages import in_huge_pages
from nnet3.cn.operation import Operation
from nnet3.cn.place import CallPlace, users_place
from nnet3.cn.shape import Shape
from nnet3.cn.sparse import as_array
from nnet3.errors import NetworkError, ShapeError, check_kind

if TYPE_CHECKING:
    from typing_extensions import Self

_NAME = re.compile(r"[A-Za-z_][\w.\-]*\Z")
_SHORT = 60  # longest formula in a message
_PATH = ContextVar("_PATH", default="")  # what names that are given begin with


def _operator(symbol: str) -> Callable[[Node, Any], Node]:
    return lambda node, other: OPERATORS[symbol](node, other)


def _reversed(symbol: str) -> Callable[[Node, Any], Node]:
    return lambda node, other: OPERATORS[symbol](other, node)


def _refused(symbols: str, instead: str) -> Callable[..., Node]:
    def refuse(node: Node, other: object = None) -> Node:
        raise NetworkError(f"{symbols} of '{node.formula}' has no meaning: {instead}")

    return refuse


class Node:
    """A vertex: an operation and ordered operands (the chapter's children).

    `shape` is the value's shape, in the chapter's orientation. `name` is "" unless the user gave one: a network makes
    up names for such nodes. Nodes are compared by identity.
    """

    is_stored: ClassVar[bool] = False  # whether the value is kept between runs, in `memory`
    is_parameter: ClassVar[bool] = False
    memory: Tensor  # of a stored node
    trainable: bool = False  # of a parameter
    taken: tuple[torch.dtype, torch.device] | None = None  # type and device of the network that took the node last
    initial: Node | None = None  # of a delay: its initial state
    __array_ufunc__ = None  # so that `array @ node` comes here, not to NumPy

    def __init__(self, operation: Operation, operands: Sequence[Node] = (), name: str = ""):
        check_kind(operation, Operation, "the operation of a node", "one such as cn.Operation's subclasses are")
        check_kind(operands, (list, tuple), "the operands of a node", "a list of nodes")
        self.operation = operation
        self.operands: tuple[Node, ...] = tuple(as_node(operand, operation.type) for operand in operands)
        self.place: CallPlace = users_place()
        self.name = "" if isinstance(name, str) and not name else _PATH.get() + checked_name(name)
        self.shape = self._inferred_shape()
        for number in operation.weights:
            self.operands[number].become_weights()

    def become_weights(self) -> None:
        """Takes the initial values of weights, if this is a parameter without a given value."""

    def _inferred_shape(self) -> Shape:
        try:
            self.operation.check_number_of_operands(len(self.operands))
            shapes = [operand.shape for operand in self.operands]
            shape = self.operation.infer(shapes)
            for number, most in self.operation.num_classes(shapes).items():
                given = self.operands[number].operation.options().get("classes")
                if given is not None and given > most:
                    raise ShapeError(f"{self.type} needs class indexes of at most {most} classes, got {given} classes")
            return shape
        except ShapeError as error:
            shown = ", ".join(f"'{operand.formula}' is {operand.shape}" for operand in self.operands)
            name = f" '{self.name}'" if self.name else ""
            message = f"{error}{name}: {shown}" if shown else str(error)
            if any(
                operand.operation.is_given and operand.operation.options().get("classes") for operand in self.operands
            ):
                message += "; class indexes choose columns by cn.embedding(table, indexes), and come first in criteria"
            raise ShapeError(f"{message}\n  {self.place}" if self.place.line else message) from None

    @property
    def type(self) -> str:
        return self.operation.type

    @property
    def rows(self) -> int:
        """The number of rows of the value."""
        return self.shape.rows

    @property
    def cols(self) -> int | None:
        """The number of columns of the value; None for a column a sample."""
        return self.shape.num_cols

    @property
    def lag(self) -> int:
        """The number of frames by which a delay looks back; 0 for all other nodes."""
        return 0

    @property
    def is_evaluated(self) -> bool:
        """True if runs compute the value: it is neither given nor stored."""
        return bool(self.operands) and not self.is_stored

    @property
    def is_trained(self) -> bool:
        """True for an unfrozen parameter, and for a component with unfrozen parameters."""
        return self.trainable or self.operation.needs_training

    @property
    def needs_other_frames(self) -> bool:
        """True if the value depends on other frames, and no initial state stands for those beyond the first."""
        return self.operation.looks_at_other_frames

    def contents(self) -> tuple[list[Tensor], object]:
        """Returns the numbers and settings kept by the node between runs, from which the value is made."""
        return self.operation.contents()

    def take_over(self, other: Self, device: torch.device | None) -> None:
        """Copies the state that another node of equal kind keeps beside its operation."""
        self.taken = other.taken and (other.taken[0], device or other.taken[1])

    def convert(self, dtype: torch.dtype, device: torch.device) -> None:
        """Converts the node's memory to the type and device of a network that takes the node."""
        self.taken = dtype, device

    @property
    def formula(self) -> str:
        """The name, or else how the node is made, cut to a line: for messages."""
        return shorten("".join(islice(_pieces_of_formula(self), _SHORT + 1)), _SHORT)

    @property
    def short_formula(self) -> str:
        """The part of a formula that needs no operands: the name; "" where operands must be told."""
        return self.name

    def __repr__(self) -> str:
        return f"<{self.formula} : {self.type}, {self.shape}>"

    # ---- operators; `nnet3.cn.operators` says what they make ----

    __matmul__, __rmatmul__ = _operator("@"), _reversed("@")
    __add__, __radd__ = _operator("+"), _reversed("+")
    __sub__, __rsub__ = _operator("-"), _reversed("-")
    __mul__, __rmul__ = _operator("*"), _reversed("*")
    __truediv__, __rtruediv__ = _operator("/"), _reversed("/")
    __pow__, __rpow__, __getitem__ = _operator("**"), _reversed("**"), _operator("[]")
    __lt__, __le__, __gt__, __ge__ = _operator("<"), _operator("<="), _operator(">"), _operator(">=")
    __iter__ = None  # rows are not gone through one by one
    __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = _refused(
        "// or %", "cn.torch_function makes a node of torch.floor_divide or torch.remainder"
    )
    __and__ = __rand__ = __or__ = __ror__ = __xor__ = __rxor__ = __invert__ = _refused(
        "&, |, ^ or ~", "of comparisons, which are 1 or 0, x * y is 'and', cn.maximum(x, y) 'or', 1 - x 'not'"
    )

    def __bool__(self) -> bool:
        raise NetworkError(
            f"'{self.formula}' is neither true nor false: its numbers are known when the network runs. Choose between "
            "values by cn.where, cn.maximum, cn.minimum"
        )

    @property
    def T(self) -> Node:
        return OPERATORS["transpose"](self)

    def __abs__(self) -> Node:
        return OPERATORS["abs"](self)

    def __neg__(self) -> Node:
        return OPERATORS["negate"](self)


def _pieces_of_formula(node: Node) -> Iterator[str]:
    """Yields the formula piece by piece: of a deep graph, or of one with many paths, only the first pieces are made."""
    waiting: list[Node | str] = [node]
    while waiting:
        piece = waiting.pop()
        if isinstance(piece, str) or piece.short_formula:
            yield piece if isinstance(piece, str) else piece.short_formula
            continue
        yield f"{piece.type}("
        waiting.append(")")
        for number, operand in reversed(list(enumerate(piece.operands))):
            waiting += [operand, ", "] if number else [operand]


OPERATORS: dict[str, Callable[..., Node]] = {}
"""The functions behind Python's operators on nodes, filled by `nnet3.cn.operators`."""


class StoredNode(Node):
    """A node whose value is kept between runs: a parameter, or a statistic once computed.

    `memory` is the value as stored, transposed: (columns, rows). The memory is float64 until a network takes the node,
    and afterwards one tensor until `to` converts it.
    """

    is_stored: ClassVar[bool] = True

    def __init__(self, operation: Operation, operands: Sequence[Node] = (), name: str = ""):
        super().__init__(operation, operands, name)
        self.memory = torch.zeros(self.shape.num_cols or 1, self.shape.rows, dtype=torch.float64)

    def contents(self) -> tuple[list[Tensor], object]:
        return [self.memory], None

    def take_over(self, other: Self, device: torch.device | None) -> None:
        super().take_over(other, device)
        self.memory = other.memory.detach().to(device, copy=True)

    @property
    def numbers(self) -> Tensor:
        """The value with all known digits, as in `memory`."""
        return self.memory.detach()

    def convert(self, dtype: torch.dtype, device: torch.device) -> None:
        super().convert(dtype, device)
        if self.memory.dtype != dtype or self.memory.device != device:
            known = self.numbers
            memory = torch.empty_like(known, dtype=dtype, device=device)
            self.memory = in_huge_pages(memory).copy_(known)  # rows of large tables are looked up

    @property
    def short_formula(self) -> str:
        if self.name or self.operands or self.memory.numel() != 1:
            return self.name
        return f"{self.memory.item():g}"

    @property
    def value(self) -> np.ndarray:
        """A copy of the value, (rows, columns)."""
        return self.memory.detach().cpu().numpy().T.copy()

    @value.setter
    def value(self, value: Any) -> None:
        self.take_numbers(torch.as_tensor(self.checked_value(value)).T)

    def take_numbers(self, numbers: Tensor) -> None:
        """Writes float64 numbers, transposed like `memory`, into `memory`."""
        with torch.no_grad():
            self.memory.copy_(numbers)

    def checked_value(self, value: Any) -> np.ndarray:
        """Returns `value` as an array of this node's shape; raises ShapeError for another shape."""
        with torch.no_grad():  # copied, so nobody expects a history
            array = as_array(value, f"value of '{self.formula}'")
        expected = (self.shape.rows, self.shape.cols)
        if array.shape != expected and not (array.ndim == 1 and (array.shape[0], 1) == expected):
            raise ShapeError(f"value of '{self.formula}': expected shape {expected}, got {array.shape}")
        if array.dtype.kind not in "fiu":
            raise ShapeError(f"value of '{self.formula}': expected numbers, got {array.dtype}")
        return array.reshape(array.shape[0], -1).astype(np.float64)


def as_node(value: Any, what: str = "") -> Node:
    """Returns the node itself, or the constant node of a number or an array. Raises NetworkError for anything else."""
    if isinstance(value, Node):
        return value
    if isinstance(value, (numbers.Real, np.ndarray, Tensor, list, tuple)) and not isinstance(value, bool):
        return OPERATORS["constant"](value)
    raise NetworkError(f"{what}: expected a node, a number or an array as operand, got {value!r}".removeprefix(": "))


def scope(name: str) -> AbstractContextManager[None]:
    """Lets the names of all nodes made inside begin with `name` and a dot: `with cn.scope("encoder"): ...`.

    Scopes may be nested. Nodes that are loaded, read from text or copied keep their names; `from_nnet` makes new ones.
    """
    return names_begin_with(f"{_PATH.get()}{checked_name(name)}.")


@contextmanager
def names_begin_with(path: str) -> Iterator[None]:
    """Lets names of nodes begin with `path` and nothing else."""
    before = _PATH.set(path)
    try:
        yield
    finally:
        _PATH.reset(before)


def checked_name(name: str) -> str:
    """Returns the name, if well-formed: a letter or underscore, then letters, digits and "_", ".", "-"."""
    if not isinstance(name, str) or not _NAME.match(name):
        raise NetworkError(
            f"{name!r} cannot be the name of a node: begin with a letter, go on with letters, digits, '_', '.', '-'"
        )
    return name


def shorten(text: str, length: int) -> str:
    return text if len(text) <= length else text[: length - 1] + "…"


class Gradients(dict[Node, Tensor]):
    """The memory of gradients by node, made when it is first asked for; that of `sparse` nodes is sparse."""

    def __init__(self, sparse: Collection[Node] = ()) -> None:
        super().__init__()
        self._sparse = sparse

    def of(self, node: Node) -> Tensor:
        """Returns the memory of a gradient; another one when the node's memory has become one of another kind."""
        known, memory = self.get(node), node.memory
        if known is None or known.shape != memory.shape or known.dtype != memory.dtype or known.device != memory.device:
            kind = torch.sparse_coo if node in self._sparse else torch.strided
            self[node] = known = torch.zeros_like(memory.detach(), layout=kind)
        return known
