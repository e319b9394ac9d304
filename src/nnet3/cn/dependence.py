"""Dependences of values, programs and runners, besides the graph. Holders of a value, program or runner compare them.

* A value depends on the values of the node's operands. The value of an input depends on the given numbers and the
  layout; the value of a parameter, statistic or component on the node's `contents`.
* A program depends on its question (mode and layout included), the `variant` of each operation, and the options of the
  compiler.
* A runner depends on its program, the type of numbers, the device, and its `bonds`: the objects and memory in use.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterable, Mapping

import torch
from torch import Tensor

from nnet3.cn.graph import NodeGraph
from nnet3.cn.node import Node
from nnet3.cn.samples import SampleLayout

_memcmp = (ctypes.CDLL(None) if os.name == "posix" else ctypes.cdll.msvcrt).memcmp
_memcmp.argtypes = ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t
_INTEGER_OF_SIZE = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


class Snapshot:
    """A copy of a node's contents, to tell whether they have changed.

    Numbers are compared, not PyTorch's counts of writes: fused optimizers, `p.data` and `vector_to_parameters` write
    without being counted.
    """

    def __init__(self) -> None:
        self._numbers: list[Tensor] = []
        self._settings: object = None

    def renew(self, node: Node) -> bool:
        """Copies the node's contents; returns whether they differ from the last copy."""
        numbers, settings = node.contents()
        fits = settings == self._settings and len(numbers) == len(self._numbers)
        if fits and all(same_numbers(*pair) for pair in zip(numbers, self._numbers, strict=True)):
            return False
        self._numbers, self._settings = [tensor.detach().clone() for tensor in numbers], settings
        return True


def same_numbers(one: Tensor, other: Tensor) -> bool:
    """Returns true for tensors that are equal bit by bit: NaN is equal to NaN, 0 is not equal to -0."""
    if one.layout != other.layout or one.dtype != other.dtype or one.shape != other.shape or one.device != other.device:
        return False
    if one.is_sparse:
        return same_numbers(one.indices(), other.indices()) and same_numbers(one.values(), other.values())
    if one.is_cpu and one.is_contiguous() and other.is_contiguous():
        return _memcmp(one.data_ptr(), other.data_ptr(), one.nbytes) == 0
    bits = _INTEGER_OF_SIZE[one.element_size()]
    return torch.equal(one.detach().view(bits), other.detach().view(bits))


class Stamps:
    """Values of nodes, (rows, columns), with the times at which they were given or computed.

    A given value is newer if its numbers or samples are different; a stored node's value, if the node's contents have
    changed.
    """

    def __init__(self, graph: NodeGraph):
        self.graph = graph
        self._now = 0
        self._changed: dict[Node, int] = {}  # when an input was given, or a node's contents were seen to be others
        self._computed: dict[Node, int] = {}
        self._values: dict[Node, Tensor] = {}
        self._layouts: dict[Node, SampleLayout | None] = {}
        self._given: dict[Node, tuple[Tensor, SampleLayout | None]] = {}  # not compared yet
        self._snapshots: dict[Node, Snapshot] = {}

    def __contains__(self, node: Node) -> bool:
        return node in self._values or node in self._given

    def layout_of(self, node: Node) -> SampleLayout | None:
        """Returns the layout of the last given value, which knows the order of the value's rows."""
        return self._given[node][1] if node in self._given else self._layouts.get(node)

    def give(self, node: Node, value: Tensor, layout: SampleLayout | None) -> None:
        """Takes the value of an input, and the samples of its rows."""
        self._given[node] = value, layout

    def _compare(self) -> None:
        """Finds out which given values are new; a gradient does not ask, so nothing is compared."""
        for node, (value, layout) in self._given.items():
            is_known = node in self._values and self._layouts[node] == layout
            if not (is_known and same_numbers(self._values[node], value)):
                self._now += 1
                self._changed[node] = self._now
                self._values[node], self._layouts[node] = value, layout
        self._given.clear()

    def look_at(self, nodes: Iterable[Node]) -> None:
        """Finds the nodes whose contents have changed since the last look."""
        self._compare()
        for node in nodes:
            if self._snapshots.setdefault(node, Snapshot()).renew(node):
                self._now += 1
                self._changed[node] = self._now

    def keep(self, values: Mapping[Node, Tensor]) -> None:
        """Keeps computed values, valid until a node below changes."""
        self._compare()
        self._now += 1
        for node, value in values.items():
            self._values[node], self._computed[node] = value, self._now

    def forget(self) -> None:
        """Forgets all values."""
        self._given.clear()
        self._values.clear()
        self._computed.clear()
        self._changed.clear()
        self._snapshots.clear()

    def value(self, node: Node) -> Tensor:
        return self._given[node][0] if node in self._given else self._values[node]

    def time_given(self, node: Node) -> int | None:
        """Returns the time at which an input got the present value."""
        self._compare()
        return self._changed.get(node)

    def valid(self) -> set[Node]:
        """Returns computed nodes with a value newer than all dependences."""
        self._compare()
        newest: dict[Node, int] = {}
        found: set[Node] = set()
        for composite in self.graph.composites:
            time = 0
            for node in composite.nodes:
                below: Iterable[Node] = () if node.is_stored else node.operands
                time = max([time, self._changed.get(node, 0), *(newest.get(operand, 0) for operand in below)])
            newest.update(dict.fromkeys(composite.nodes, time))
            found.update(node for node in composite.nodes if self._computed.get(node, 0) > time)
        return found
