"""Copies of networks and of parts, with new parameters or shared ones, and with replaced nodes."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import deepcopy
from typing import TypeVar, cast

import torch

from nnet3.cn.graph import NodeGraph
from nnet3.cn.network_state import NetworkState
from nnet3.cn.node import Node, as_node
from nnet3.cn.nodes.delay import Delay, DelayNode
from nnet3.cn.nodes.leaves import ParameterNode
from nnet3.cn.nodes.statistics import StatisticNode
from nnet3.cn.operation_types import make_node
from nnet3.cn.order import forward_order, needed_nodes, operands_of
from nnet3.engine.schedule.directed_graph import reached
from nnet3.errors import NetworkError, check_kind

N = TypeVar("N", bound=NetworkState)


def clone(
    node: Node,
    *,
    parameters: str = "copy",
    replace: Mapping[Node, Node] | None = None,
    prefix: str = "",
    seed: int = 0,
) -> Node:
    """Returns a copy of a node, made of copies of all nodes below it but inputs, shared by original and copy.

    `parameters`: "copy" for new parameters with equal numbers, "fresh" for new parameters with random numbers from
    `seed`, or "share" for the parameters of the original. `replace`: new nodes by the replaced nodes below, such as
    another input; statistics above replaced nodes are unknown. `prefix`: the beginning of the names of copies, so that
    one network may hold original and copy. Raises NetworkError for replaced nodes that are not below the node,
    ShapeError if a new node does not fit.
    """
    check_kind(node, Node, "what is cloned", "a node")
    if parameters not in ("copy", "fresh", "share"):
        raise NetworkError(f"parameters of a clone are 'copy', 'fresh' or 'share', got {parameters!r}")
    graph = NodeGraph([node])
    known = dict(replace or {})
    for old, new in known.items():
        if old not in graph.names:
            raise NetworkError(f"'{old.formula}' is not below '{node.formula}', and cannot be replaced in its clone")
        check_kind(new, Node, f"what takes the place of '{old.formula}'", "a node")
    nodes = needed_nodes(graph.nodes, [node], known)
    for each in nodes:
        is_shared = parameters == "share" and each.is_parameter
        if each.operation.is_given or is_shared:
            known.setdefault(each, each)
        elif parameters != "copy" and each.operation.parameters():
            name = f"'{graph.names[each]}' ({each.type})"
            raise NetworkError(f"{name} has parameters of its own: they can be copied, not be shared or drawn anew")
    replaced = {old: (old, new) for old, new in (replace or {}).items()}
    copies = _copies([each for each in nodes if each not in known], known, None, prefix, replaced)
    if replace:
        users = [each for each in nodes if any(operand in replace for operand in each.operands)]
        _forget_statistics(copies[each] for each in _above(users, nodes))
    for number, (old, new) in enumerate(copies.items()):
        if parameters == "fresh" and isinstance(new, ParameterNode) and new.operation.trainable and old is not new:
            new.initialize(seed * 1_000_003 + number)
    for new in copies.values() if parameters == "fresh" else ():
        for place in new.operation.weights:
            new.operands[place].become_weights()
    return copies[node]


def _copies(
    nodes: Sequence[Node],
    known: Mapping[Node, Node],
    device: torch.device | None,
    prefix: str = "",
    replaced: Mapping[Node, tuple[Node, Node]] | None = None,
    operands: Callable[[Node], Sequence[Node]] = operands_of,
    shares: bool = False,
) -> dict[Node, Node]:
    """Copies of nodes in forward order, by the originals, with `known` included; all `operands` are copied or `known`.

    `replaced`: by an operand met in place of a replaced node, the old node and the new. With `shares` originals and
    copies have the same operations, and the same parameters of components.
    """
    moved = {met: pair for met, pair in (replaced or {}).items() if pair[0].shape.axis != pair[1].shape.axis}
    copies = dict(known)
    delays: list[tuple[DelayNode, DelayNode]] = []
    for node in nodes:
        if isinstance(node, DelayNode):
            operation = _on_its_axis(node, moved, operands) if moved else node.operation
            copies[node] = copy = make_node(operation, (), node.name and prefix + node.name)
            delays.append((node, cast(DelayNode, copy)))
    for node in nodes:
        if node not in copies:
            found = [copies[operand] for operand in operands(node)]
            own = node.operation if shares else deepcopy(node.operation)
            copies[node] = make_node(own, found, node.name and prefix + node.name)
            copies[node].place = node.place
            copies[node].take_over(node, device)
    for delay, copy in delays:
        copy.place = delay.place
        source, *initial = (copies[operand] for operand in operands(delay))
        copy.initial = initial[0] if initial else None
        copy.connect(source)
    return copies


def _above(
    starts: Sequence[Node], nodes: Sequence[Node], operands: Callable[[Node], Sequence[Node]] = operands_of
) -> set[Node]:
    """Returns the starts and all nodes that need a start."""
    users: dict[Node, list[Node]] = {}
    for node in nodes:
        for operand in operands(node):
            users.setdefault(operand, []).append(node)
    return set(reached(starts, lambda node: users.get(node, ())))


def _forget_statistics(nodes: Iterable[Node]) -> None:
    """Lets statistics be unknown: their data set has changed."""
    for node in nodes:
        if isinstance(node, StatisticNode):
            node.forget()


def _on_its_axis(
    delay: DelayNode, moved: Mapping[Node, tuple[Node, Node]], operands: Callable[[Node], Sequence[Node]]
) -> Delay:
    """Returns the operation of a delay, on the axis given by a replacement below it."""
    start: list[Node] = [delay]
    for node in reached(start, lambda node: () if node in moved else operands(node)):
        if node in moved and moved[node][0].shape.axis == delay.shape.axis:
            return dataclasses.replace(delay.operation, axis=moved[node][1].shape.axis or None)
    return delay.operation


def copy_network(network: N) -> N:
    """Returns a copy of the network that shares nothing with the original."""
    return _made_of(network, _copies(network.nodes, {}, network.device))


def replace_nodes(network: N, replace: Mapping[Node | str, Node]) -> N:
    """Returns a network with replaced nodes; see `Network.replace`."""
    check_kind(replace, Mapping, "what is replaced", "a mapping from nodes or names to nodes")
    others = {network.find(old): as_node(new, f"what takes the place of {old!r}") for old, new in replace.items()}
    ours = set(network.nodes)

    def operands(node: Node) -> Sequence[Node]:
        return tuple(others.get(operand, operand) for operand in node.operands) if node in ours else node.operands

    nodes = reached([others.get(root, root) for root in network._nodes.roots], operands)
    try:
        ordered = forward_order(nodes, lambda node: () if node.lag else operands(node))
    except NetworkError:
        names = ", ".join(f"'{network.names[old]}'" for old in others)
        raise NetworkError(f"with what takes the place of {names} there is a loop without a delay") from None
    changed = _above([node for node in nodes if operands(node) != node.operands], nodes, operands)
    known = {node: node for node in nodes if node not in changed}
    replaced = {new: (old, new) for old, new in others.items()}
    copies = _copies([node for node in ordered if node in changed], known, None, "", replaced, operands, shares=True)
    _forget_statistics(copies[node] for node in changed)
    return _made_of(network, {root: copies[others.get(root, root)] for root in network._nodes.roots})


def _made_of(network: N, copies: Mapping[Node, Node]) -> N:
    """Returns a network of the same kind with the copies of criteria and outputs in the originals' places."""
    criteria: dict[Node, float] = {}
    for node, weight in network.criteria.items():
        criteria[copies[node]] = criteria.get(copies[node], 0.0) + weight
    outputs = {name: copies[node] for name, node in network.outputs.items()}
    result = type(network)(
        criteria or None,
        outputs or None,
        dtype=network.dtype,
        device=network.device,
        cache=network.cache,
        layout=network.layout,
    )
    result.compile_options, result.training = network.compile_options, network.training
    result.generator.set_state(network.generator.get_state())
    return result


def copy_contents(network: NetworkState, copy: NetworkState) -> None:
    """Gives a copy of the network all contents that may have changed since copying; the copy stays on its device."""
    copy.to(network.dtype)
    copy.compile_options = network.compile_options
    for node, name in network.names.items():
        copy.find(name).take_over(node, copy.device)
    for node, operation in network._nodes.components:
        copy.find(network.names[node]).operation = twin = deepcopy(operation)
        twin.to(copy.dtype, copy.device)
