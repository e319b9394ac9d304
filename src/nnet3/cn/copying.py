"""Copies of networks: nodes of their own, parameters of their own."""

from __future__ import annotations

from copy import deepcopy
from typing import TYPE_CHECKING

import torch

from nnet3.cn.node import Node, StoredNode
from nnet3.cn.nodes.component import ComponentOperation
from nnet3.cn.nodes.delay import DelayNode
from nnet3.cn.nodes.leaves import ParameterNode
from nnet3.cn.nodes.statistics import StatisticNode
from nnet3.cn.registry import make_node

if TYPE_CHECKING:
    from nnet3.cn.network import Network


def copy_network(network: Network) -> Network:
    """A network equal to this one that shares nothing with it."""
    copies: dict[Node, Node] = {}
    delays: list[tuple[DelayNode, DelayNode]] = []
    for node in network.nodes:
        if isinstance(node, DelayNode):
            copies[node] = copy = DelayNode(node.operation, (), node.name)
            delays.append((node, copy))
    for node in network.nodes:
        if node not in copies:
            copies[node] = make_node(
                deepcopy(node.operation), [copies[operand] for operand in node.operands], node.name
            )
            copies[node].place = node.place
            _copy_value(node, copies[node], network.device)
    for node, copy in delays:
        copy.place = node.place
        copy.initial = copies[node.operands[1]] if len(node.operands) > 1 else None
        copy.connect(copies[node.operands[0]])
    criteria = {copies[node]: weight for node, weight in network.criteria.items()}
    outputs = {name: copies[node] for name, node in network.outputs.items()}
    result = type(network)(
        criteria or None, outputs or None, dtype=network.dtype, device=network.device, cache=network.cache
    )
    result.optimize, result.training = network.optimize, network.training
    result.generator.set_state(network.generator.get_state())
    return result


def copy_contents(network: Network, copy: Network) -> None:
    """Give a copy of the network everything that may have changed since it was made; it stays on its device."""
    copy.to(network.dtype)
    copy.optimize = network.optimize
    for node, name in network.names.items():
        twin = copy.find(name)
        _copy_value(node, twin, copy.device)
        if isinstance(node.operation, ComponentOperation):
            twin.operation = deepcopy(node.operation)
            twin.operation.to(copy.dtype, copy.device)


def _copy_value(node: Node, copy: Node, device: torch.device | None = None) -> None:
    if isinstance(node, StoredNode) and isinstance(copy, StoredNode):
        copy.memory = node.memory.detach().to(device, copy=True)
    if isinstance(node, ParameterNode) and isinstance(copy, ParameterNode):
        copy.trainable = node.trainable
    if isinstance(node, StatisticNode) and isinstance(copy, StatisticNode):
        copy.is_computed = node.is_computed
