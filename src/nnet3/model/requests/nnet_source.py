"""NnetSource: an nnet3 network in the form for lowering: the rules of nodes, and components as kernels."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING

import numpy as np

from nnet3.base.index import IndexTable, indexes_at
from nnet3.engine.ir.kernel import KernelInfo
from nnet3.model.components.base import Properties
from nnet3.model.components.kernel_info import kernel_info
from nnet3.model.structure.node_rules import NodeRules
from nnet3.model.structure.nodes import ComponentNode

if TYPE_CHECKING:
    from nnet3.model.nnet import Nnet
    from nnet3.model.structure.parts import NetworkParts

_LONGEST_PERIOD = 400


class NnetSource(NodeRules):
    """A GraphSource for a network as it is now."""

    def __init__(self, nnet: Nnet):
        super().__init__(nnet.parts)

    def kernel(self, node: int) -> KernelInfo:
        """Returns the promises of the component as it is now: test mode changes them."""
        source_node = self.parts.nodes[node]
        assert isinstance(source_node, ComponentNode)
        return kernel_info(source_node.component, self.component(node), len(self.nodes[node].operands))

    def arrange(self, node: int, inputs: IndexTable, outputs: IndexTable) -> tuple[IndexTable, IndexTable]:
        component = self.component(node)
        if component.properties & Properties.REORDERS_INDEXES:
            return component.reorder_indexes(inputs, outputs)
        return inputs, outputs

    def precompute(
        self, node: int, inputs: IndexTable, outputs: IndexTable, *, need_backprop: bool
    ) -> dict[str, np.ndarray] | None:
        component = self.component(node)
        if not component.needs_indexes:
            return None
        return component.precompute_indexes(inputs, outputs, need_backprop=need_backprop)

    def hint(self, node: int, indexes: IndexTable) -> str:
        """Returns advice in terms of descriptors."""
        if not isinstance(self.parts.nodes[node], ComponentNode):
            return "IfDefined or Failover lets it begin"
        if self._could_be(node, indexes).all():
            return ""
        period, name = self._period(node), self.nodes[node].name
        return "" if period is None else f"it is there for multiples of {period} only: ask for Round({name}, {period})"

    def _could_be(self, node: int, indexes: IndexTable) -> np.ndarray:
        """Returns the rows of a node that are computable if all rows within their reach are."""
        available = np.ones(self.slots(node, indexes)[0].shape, bool)
        return self.computable(node, indexes, available)[0]

    def _period(self, node: int) -> int | None:
        """Returns the least number above 1 such that times rounded to multiples of it are never refused."""
        times = np.arange(_LONGEST_PERIOD)
        for period in range(2, _LONGEST_PERIOD):
            if self._could_be(node, indexes_at(times - times % period)).all():
                return period
        return None


_sources: weakref.WeakKeyDictionary[Nnet, tuple[object, NnetSource]] = weakref.WeakKeyDictionary()


def nnet_source(nnet: Nnet) -> NnetSource:
    """Returns the source of a network, kept until nodes, components or index rules of the network change."""
    state = _State(nnet.parts)
    known = _sources.get(nnet)
    if known is not None and known[0] == state:
        return known[1]
    source = NnetSource(nnet)
    _sources[nnet] = state, source
    return source


class _State:
    """The nodes, components and index rules on which a source depends, for comparison."""

    def __init__(self, parts: NetworkParts):
        self._nodes, self._components = parts.nodes, tuple(parts.components.values())
        probe = np.array([[0, 0, 0], [0, 1, 0], [0, 6, 1], [0, -7, 3]], np.int32)
        self._rules = [
            component.identity_indexes or component.wanted_inputs(probe).tobytes() for component in self._components
        ]

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, _State)
            and self._nodes is other._nodes
            and len(self._components) == len(other._components)
            and all(mine is theirs for mine, theirs in zip(self._components, other._components, strict=True))
            and self._rules == other._rules
        )
