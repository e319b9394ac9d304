"""Copies of networks: nodes of their own, parameters of their own."""

from __future__ import annotations

from copy import deepcopy
from typing import TYPE_CHECKING

from nnet3.cn.node import Node
from nnet3.cn.nodes.delay import DelayNode
from nnet3.cn.registry import make_node

if TYPE_CHECKING:
    from nnet3.cn.network import Network


def copy_network(network: Network) -> Network:
    """A network equal to this one that shares nothing with it."""
    copies: dict[Node, Node] = {}
    delays: list[tuple[DelayNode, DelayNode]] = []
    for delay in network._nodes.delays:
        copies[delay] = copy = DelayNode(delay.operation, (), delay.name)
        delays.append((delay, copy))
    for node in network.nodes:
        if node not in copies:
            copies[node] = make_node(
                deepcopy(node.operation), [copies[operand] for operand in node.operands], node.name
            )
            copies[node].place = node.place
            copies[node].take_over(node, network.device)
    for delay, copy in delays:
        copy.place = delay.place
        copy.initial = None if delay.initial is None else copies[delay.initial]
        copy.connect(copies[delay.operands[0]])
    criteria = {copies[node]: weight for node, weight in network.criteria.items()}
    outputs = {name: copies[node] for name, node in network.outputs.items()}
    result = type(network)(
        criteria or None,
        outputs or None,
        dtype=network.dtype,
        device=network.device,
        cache=network.cache,
        layout=network.layout,
    )
    result.optimize, result.training = network.optimize, network.training
    result.generator.set_state(network.generator.get_state())
    return result


def copy_contents(network: Network, copy: Network) -> None:
    """Give a copy of the network everything that may have changed since it was made; it stays on its device."""
    copy.to(network.dtype)
    copy.optimize = network.optimize
    for node, name in network.names.items():
        copy.find(name).take_over(node, copy.device)
    for node, operation in network._nodes.components:
        copy.find(network.names[node]).operation = twin = deepcopy(operation)
        twin.to(copy.dtype, copy.device)
