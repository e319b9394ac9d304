"""Nodes without operands (Section 1.4.1): inputs and parameters. Their values are given, not computed."""

from __future__ import annotations

import numbers
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from nnet3.cn.node import Node, StoredNode
from nnet3.cn.operation import Operation
from nnet3.cn.shape import Shape, as_shape
from nnet3.cn.sparse import as_array
from nnet3.errors import ArgumentError, ShapeError

if TYPE_CHECKING:
    from typing_extensions import Self


_AXIS = re.compile(r"[A-Za-z_]\w*\Z")


@dataclass(frozen=True)
class LeafOperation(Operation):
    """Base of operations without operands: the shape is stated."""

    num_operands: ClassVar[int] = 0
    gradient_needs: ClassVar[tuple[frozenset[int], ...]] = ()
    rows: int
    cols: int | None = None

    def check(self) -> None:
        as_shape(self.rows if self.cols is None else (self.rows, self.cols), self.type)

    def infer(self, operands: Sequence[Shape]) -> Shape:
        return Shape(self.rows, self.cols)


@dataclass(frozen=True)
class Input(LeafOperation):
    """`classes`: if given, a value is one row of class indexes 0 ... classes - 1, or -1 for no class.

    `sparse`: whether most elements are 0, so that products read only the nonzero elements.
    """

    type: ClassVar[str] = "input"
    is_given: ClassVar[bool] = True
    classes: int | None = None
    axis: str | None = None
    sparse: bool | None = None

    def check(self) -> None:
        super().check()
        if self.axis is not None and (self.cols is not None or not _AXIS.match(self.axis)):
            raise ShapeError(f"input: an axis is a name, of an input without a number of columns; got {self.axis!r}")
        if self.sparse and (self.cols is not None or self.classes is not None):
            raise ShapeError("input: what is sparse has samples, and values that are no class indexes")
        if self.classes is not None and (self.classes < 1 or self.rows != 1):
            raise ShapeError(f"input: classes must be a number of at least 1, of values of one row; got {self.classes}")

    def infer(self, operands: Sequence[Shape]) -> Shape:
        return Shape(self.rows, self.axis if self.cols is None else self.cols)


@dataclass(frozen=True)
class Parameter(LeafOperation):
    """`constant`: whether it is a number that belongs to the formula, and stays when everything is unfrozen."""

    type: ClassVar[str] = "parameter"
    trainable: bool = True
    constant: bool | None = None

    def check(self) -> None:
        super().check()
        if self.cols is None:
            raise ShapeError("parameter: expected rows and columns: it belongs to no sample")


class ParameterNode(StoredNode):
    """A parameter. `trainable` is the needGradient flag: freezing a parameter sets False.

    A constant keeps the numbers as given, so that it is rounded once, through all changes of a network's type.
    """

    is_parameter: ClassVar[bool] = True
    operation: Parameter

    def __init__(self, operation: Parameter, operands: Sequence[Node] = (), name: str = ""):
        super().__init__(operation, operands, name)
        self.trainable = operation.trainable
        self._weights: np.ndarray | None = None  # of a column that nobody has given a value; see initialize
        self._given: Tensor | None = None  # of a constant

    def initialize(self, seed: int | None) -> None:
        """Draws values, from `seed` or else from the name; a column is zero until it is used as weights."""
        rows, cols = self.shape.rows, self.operation.cols or 1
        random = np.random.default_rng(list(self.name.encode()) if seed is None else seed)
        limit = np.sqrt(6.0 / (rows + cols))
        values = random.uniform(-limit, limit, (rows, cols))
        self.value = values if cols > 1 else np.zeros((rows, 1))
        self._weights = values if cols == 1 else None

    def take_over(self, other: Self, device: torch.device | None) -> None:
        super().take_over(other, device)
        self.trainable, self._given = other.trainable, other._given

    def take_numbers(self, numbers: Tensor) -> None:
        super().take_numbers(numbers)
        self._weights, self._given = None, numbers.clone() if self.operation.constant else None

    @property
    def numbers(self) -> Tensor:
        given = self._given  # unless somebody has written into the memory since
        return super().numbers if given is None or not torch.equal(given.to(self.memory), self.memory) else given

    def become_weights(self) -> None:
        if self._weights is not None and not self.memory.any():  # nobody has written
            self.value = self._weights
        self._weights = None


def input(
    name: str,
    shape: int | tuple[int, int] = 1,
    *,
    classes: int | None = None,
    axis: str | None = None,
    sparse: bool = False,
) -> Node:
    """Features, labels or control values, given at run time.

    `shape`: a number of rows for values with a column a sample, or (rows, columns) for values without samples.
    `classes`: the values are integers 0 ... classes - 1, one a sample (labels, words), given as an array (samples,); -1
    is no class. Such inputs go to `cross_entropy_with_softmax`, `classification_error`, `embedding`.
    `axis`: where sequences of a minibatch have lengths of their own in this input, a name for these frames, such
    as "answer"; "sequence" for values with one column a sequence, such as the label of a sentence.
    `sparse`: most elements are 0, as in bags of words (`bags`); `W @ x` then reads only the columns of W for nonzero
    elements, and W's gradient is sparse. Sparse values are sparse matrices of SciPy or PyTorch, or any arrays.
    """
    given = as_shape(shape, f"input '{name}'")
    return Node(Input(given.rows, given.num_cols, classes, axis, sparse or None), (), name)


def parameter(
    name: str,
    shape: tuple[int, int],
    value: Any = None,
    *,
    seed: int | None = None,
    trainable: bool = True,
) -> ParameterNode:
    """Numbers that are learnt and saved with the model, (rows, columns).

    `value`: an array of this shape, or one number for all elements. Without `value` the numbers are uniformly random in
    +-sqrt(6 / (rows + columns)), from `seed` or else from a generator seeded with the name, so that a script
    gives equal networks each time. But a column (columns = 1) is zero, as a bias begins, unless the parameter is the
    matrix of a product or the kernels of a convolution: making the product or convolution makes the column random.
    """
    given = as_shape(shape, f"parameter '{name}'")
    if seed is not None and (not isinstance(seed, numbers.Integral) or seed < 0):
        raise ArgumentError(f"parameter '{name}': seed must be an integer of at least 0, got {seed!r}")
    node = ParameterNode(Parameter(given.rows, given.num_cols or 1, trainable), (), name)
    if value is None:
        node.initialize(seed)
        return node
    if isinstance(value, int | float | np.number | np.ndarray | Tensor) and np.ndim(value) == 0:
        value = np.full((node.shape.rows, node.operation.cols), float(value))
    node.value = value
    return node


def constant(value: Any, name: str = "") -> ParameterNode:
    """Returns a matrix (or number: 1 x 1) that is never trained."""
    matrix = np.atleast_1d(as_array(value, "constant").astype(np.float64))
    matrix = matrix[:, None] if matrix.ndim == 1 else matrix
    shape = as_shape(tuple(matrix.shape), "constant")
    node = ParameterNode(Parameter(shape.rows, shape.num_cols, trainable=False, constant=True), (), name)
    node.value = matrix
    return node
