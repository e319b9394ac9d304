"""Fusing: a sum of products becomes one kernel, and the terms known before a loop are summed before the loop.

Of h = tanh(W x + R h(t-1) + b) a program has, instead of two products and two sums,

    V' = W x + b            all frames at once: the product is added to b
    V = V' + R h(t-1)       at each frame: the product is added to the known sum

A node is taken into a sum if its value has no other user and is not wanted.

Where native code multiplies by panels, an iteration of many rows multiplies short inputs in less time than memory
takes to keep sums for it: then nothing is summed before the loop (`hoists`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch
from torch import Tensor

from nnet3.base.native import operations as native
from nnet3.base.native.operations import Operations
from nnet3.cn.node import Node
from nnet3.cn.nodes.products import DiagTimes, Times
from nnet3.cn.nodes.sums import ElementTimes, Minus, Plus, fold
from nnet3.cn.operation import Matrices, Operation, native_put, put_scaled
from nnet3.cn.order import Composite
from nnet3.cn.shape import Shape
from nnet3.engine.ir.kernel import KernelInfo
from nnet3.model.components.large_products import add_product

PRODUCT, ELEMENTS, VALUE = "product", "elements", "value"
_SUMS = (Plus, Minus)
_OPERANDS = {PRODUCT: 2, ELEMENTS: 2, VALUE: 1}
_SHORT = 0.25  # of the columns that an iteration multiplies anyway


@dataclass(frozen=True)
class SumTerm:
    """A node or a product in a sum: `factor` times a value, or a product of two, of matrices or of elements."""

    node: Node
    kind: str
    factor: float

    @property
    def operands(self) -> tuple[Node, ...]:
        return (self.node,) if self.kind == VALUE else self.node.operands


@dataclass(frozen=True)
class FusedSum:
    """The terms of a sum, and the terms summed before the loop around the sum."""

    terms: tuple[SumTerm, ...]
    early: tuple[SumTerm, ...] = ()


class SumOfProducts(Operation):
    """Values of the sum's shape or repeated columns, and products of such values or of matrices, added up.

    `terms`: kind and factor of each term, in the order of the operands. A value with factor 1, if any, stands first:
    the sum may lie in its place.
    """

    type: ClassVar[str] = "sum_of_products"
    num_operands: ClassVar[int] = -1
    evaluates_in_place: ClassVar[bool] = True

    def __init__(self, terms: Sequence[tuple[str, float]]) -> None:
        self._terms: list[tuple[str, float, int, int]] = []  # kind, factor, numbers of operands
        self._of_operand: list[tuple[str, float, int]] = []  # kind, factor, number of the other operand
        for kind, factor in terms:
            first = len(self._of_operand)
            last = first + _OPERANDS[kind] - 1
            self._terms.append((kind, factor, first, last))
            self._of_operand += [(kind, factor, first + last - position) for position in range(first, last + 1)]
        self._first = next(term for term in self._terms if term[1] == 1.0)
        self._others = [term for term in self._terms if term is not self._first]

    @classmethod
    def of(cls, terms: Sequence[SumTerm], *, adds_value: bool) -> SumOfProducts:
        """Returns the sum of some terms; with `adds_value` one more value stands first."""
        return cls([(VALUE, 1.0)] * adds_value + [(term.kind, term.factor) for term in terms])

    def info(self, name: str, operands: Sequence[Shape], value: Shape, wanted: Sequence[bool]) -> KernelInfo:
        info = super().info(name, operands, value, wanted)
        inputs = [replace(promises, propagate_in_place=False) for promises in info.inputs]
        if self._of_operand[0][:2] == (VALUE, 1.0) and operands[0] == value:
            inputs[0] = replace(info.inputs[0], passes_deriv=True, is_linear=True)
        return replace(info, inputs=tuple(inputs))

    def needs_of_gradient(self, operand: int) -> frozenset[int]:
        kind, _, other = self._of_operand[operand]
        return frozenset() if kind == VALUE else frozenset({other})

    def evaluate(self, inputs: Matrices, output: Tensor) -> None:
        kind, _, one, other = self._first
        total = output
        if kind == VALUE:
            total = inputs[one]
        elif kind == PRODUCT:
            add_product(output, inputs[other], inputs[one])
        else:
            torch.mul(inputs[one], inputs[other], out=output)
        for kind, factor, one, other in self._others:
            if kind == PRODUCT:
                add_product(output, inputs[other], inputs[one], total, factor)
            elif kind == ELEMENTS:
                torch.addcmul(total, inputs[one], inputs[other], value=factor, out=output)
            else:
                torch.add(total, inputs[one], alpha=factor, out=output)
            total = output

    def compute_partial_gradient(
        self, child: int, inputs: Matrices, output: Tensor, gradient: Tensor, memo: Any, dx: Tensor, accumulate: bool
    ) -> None:
        kind, factor, number = self._of_operand[child]
        if kind == PRODUCT:
            # dX += dV Y^T (1.58), dY += X^T dV (1.59)
            left, right = (inputs[number].T, gradient) if child < number else (gradient, inputs[number].T)
            add_product(dx, left, right, dx if accumulate else None, factor)
        elif kind == VALUE and (dx.size(0) == gradient.size(0) or accumulate or factor != 1.0):
            put_scaled(dx, fold(gradient, dx), factor, accumulate)
        elif kind == VALUE:
            torch.sum(gradient, 0, keepdim=True, out=dx)
        elif dx.shape != gradient.shape:
            put_scaled(dx, fold(gradient * inputs[number], dx), factor, accumulate)
        elif accumulate:
            dx.addcmul_(gradient, inputs[number], value=factor)
        else:
            torch.mul(gradient, inputs[number], out=dx)
            if factor != 1.0:
                dx.mul_(factor)

    is_native: ClassVar[bool] = True

    def native_value(self, inputs: Matrices, output: Tensor) -> Operations | None:
        found, total = list[Operations | None](), None
        if self._first[0] == VALUE:
            total = inputs[self._first[2]]
        for kind, factor, one, other in self._others if total is not None else (self._first, *self._others):
            if kind == PRODUCT:
                found.append(native.product(output, inputs[other], inputs[one].t(), total, factor, packs=True))
            elif kind == ELEMENTS:
                found.append(native.multiply(output, inputs[one], inputs[other], total, factor))
            else:
                found.append(native.add(output, inputs[one], factor, total))
            total = output
        return native.in_a_row(*found)

    def native_gradient(
        self, child: int, inputs: Matrices, output: Tensor, gradient: Tensor, dx: Tensor, accumulate: bool
    ) -> Operations | None:
        kind, factor, number = self._of_operand[child]
        before, other = dx if accumulate else None, inputs[number]
        if kind == PRODUCT and child < number:
            return native.product(dx, other.t(), gradient.t(), before, factor, packs=True)
        if kind == PRODUCT:
            return native.product(dx, gradient, other, before, factor, packs=True)
        return native_put(dx, gradient, accumulate, factor, other if kind == ELEMENTS else None)


def find_sums(
    nodes: Sequence[Node],
    composites: Iterable[Composite],
    given: Collection[Node],
    kept: Collection[Node],
    *,
    hoists: bool = True,
) -> tuple[dict[Node, FusedSum], set[Node]]:
    """Returns the sums among nodes, in forward order, that take in others; and the nodes taken in.

    The values of `given` nodes are not computed; the values of `kept` nodes are wanted. Without `hoists` products of
    short values stay in loops.
    """
    return _Finder(nodes, composites, given, kept, hoists).find()


class _Finder:
    def __init__(
        self,
        nodes: Sequence[Node],
        composites: Iterable[Composite],
        given: Collection[Node],
        kept: Collection[Node],
        hoists: bool,
    ) -> None:
        self._hoists = hoists
        self._computed = [node for node in nodes if node.is_evaluated and node not in given]
        self._loops = {node: each for each in composites if each.is_loop for node in each.nodes}
        users = Counter(operand for node in self._computed for operand in node.operands)
        self._free = {node for node in self._computed if users[node] == 1 and node not in kept}

    def find(self) -> tuple[dict[Node, FusedSum], set[Node]]:
        found: dict[Node, FusedSum] = {}
        taken: set[Node] = set()
        for node in reversed(self._computed):  # users first
            if type(node.operation) in _SUMS and node.shape.has_samples and node not in taken:
                terms, inner = self._terms(node)
                early, terms = self._early(node, terms)
                inner |= {term.node for term in (*terms, *early) if term.kind != VALUE}
                if _can_be_summed(node, terms, early) and (inner or early):
                    found[node] = FusedSum(_in_order(node, terms), _in_order(node, early))
                    taken |= inner
        return found, taken

    def _terms(self, root: Node) -> tuple[list[SumTerm], set[Node]]:
        """Returns the terms of a sum, and the dissolved sums in it."""
        found: list[SumTerm] = []
        dissolved: set[Node] = set()
        waiting = [(root, 1.0)]
        while waiting:
            node, factor = waiting.pop()
            kind = type(node.operation) if node is root or self._may_be_taken(node, root) else None
            if kind in _SUMS:
                dissolved.add(node)
                factors = node.operation.linear_factors
                waiting += [(o, factor * f) for o, f in zip(node.operands[::-1], factors[::-1], strict=True)]
            elif kind is Times:
                found.append(SumTerm(node, PRODUCT, factor))
            elif kind in (ElementTimes, DiagTimes) and all(_fits(operand, node) for operand in node.operands):
                found.append(SumTerm(node, ELEMENTS, factor))
            else:
                found.append(SumTerm(node, VALUE, factor))
        return found, dissolved - {root}

    def _may_be_taken(self, node: Node, root: Node) -> bool:
        loop = self._loops.get(node)
        return node in self._free and node.shape == root.shape and (loop is None or loop is self._loops.get(root))

    def _early(self, root: Node, terms: Sequence[SumTerm]) -> tuple[list[SumTerm], list[SumTerm]]:
        """Returns the terms to be summed before the loop around the root, and the rest."""
        loop = self._loops.get(root)
        early = [t for t in terms if loop is not None and all(self._loops.get(o) is not loop for o in t.operands)]
        others = [term for term in terms if term not in early]
        if not self._hoists and _width(early) <= _SHORT * _width(others):
            return [], list(terms)
        is_one = len(early) > 1 and any(t.node.shape == root.shape for t in early) and any(t.factor == 1 for t in early)
        if is_one:
            return early, others
        return [], [replace(term, kind=VALUE) if term in early else term for term in terms]


def _width(terms: Iterable[SumTerm]) -> int:
    """Returns how many columns all matrices multiplied by others have."""
    return sum(term.operands[1].shape.rows for term in terms if term.kind == PRODUCT)


def _fits(operand: Node, value: Node) -> bool:
    return operand.shape in (value.shape, Shape(value.shape.rows, 1))


def _can_be_summed(root: Node, terms: Sequence[SumTerm], early: Sequence[SumTerm]) -> bool:
    values = [term.node for term in (*terms, *early) if term.kind == VALUE]
    return all(_fits(node, root) for node in values) and (bool(early) or any(term.factor == 1 for term in terms))


def _in_order(root: Node, terms: Sequence[SumTerm]) -> tuple[SumTerm, ...]:
    """Returns a value with factor 1 first, then products, then the remaining values; repeated values come last."""
    values = [term for term in terms if term.kind == VALUE]
    values.sort(key=lambda term: term.node.shape != root.shape)
    first = next((term for term in values if term.factor == 1), None)
    products = sorted((term for term in terms if term.kind != VALUE), key=lambda term: term.kind != PRODUCT)
    others = [term for term in values if term is not first]
    return (*([first] if first else []), *products, *others)
