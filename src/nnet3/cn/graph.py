"""A network's nodes: named, checked, and found by name."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import TypeVar, cast
from weakref import WeakValueDictionary

from nnet3.base.text import did_you_mean
from nnet3.cn.computation_stages import Stage, find_stages
from nnet3.cn.given import GivenInput
from nnet3.cn.node import Node, StoredNode, checked_name
from nnet3.cn.nodes.component import ComponentOperation
from nnet3.cn.nodes.delay import DelayNode
from nnet3.cn.nodes.leaves import ParameterNode
from nnet3.cn.nodes.statistics import StatisticNode
from nnet3.cn.operation import Operation
from nnet3.cn.order import Composite, all_nodes, forward_order_with_loops, gradient_flags, initial_states, needed_nodes
from nnet3.cn.samples import SampleLayout
from nnet3.engine.families.ragged_check import CheckedLengths
from nnet3.errors import GradientError, NetworkError, check_kind

Kind = TypeVar("Kind", bound=Node)


def _nodes_of(kind: type[Kind]) -> cached_property[list[Kind]]:
    return cached_property(lambda graph: [node for node in graph.nodes if isinstance(node, kind)])


def takes_stages(nodes: Iterable[Node]) -> bool:
    """Returns true if one program cannot compute the nodes: some need whole sequences, or lie on another axis."""
    return any(node.operation.is_whole or node.shape.axis for node in nodes)


class NodeGraph:
    """All nodes needed by some roots, in forward order, with unique names.

    `names` holds the names of nodes in this graph. A node without a name gets a name made of type and number, valid in
    this graph alone. Raises NetworkError for a name of two nodes, a delay that was never connected, and loops that
    cannot be computed.
    """

    def __init__(self, roots: Iterable[Node]):
        self.roots = list(roots)
        check_connected(self.roots)
        self.composites: list[Composite] = forward_order_with_loops(self.roots)
        self.nodes: list[Node] = [node for composite in self.composites for node in composite.nodes]
        self.names: dict[Node, str] = _names(self.nodes)
        self.by_name = {name: node for node, name in self.names.items()}
        self.states = initial_states(self.nodes)
        check_states(self.nodes, self.states, self.names)
        check_loops(self.composites, self.names)
        if self.is_staged:
            assert self.stages is not None  # raises for what cannot be computed
        #: Programs in the cache that serve sequences of all lengths, by what they depend on.
        self.ragged: WeakValueDictionary[tuple[object, ...], CheckedLengths] = WeakValueDictionary()
        self._below: dict[tuple[Node, ...], list[Node]] = {}
        self._leaves: dict[tuple[Node, ...], tuple[list[StoredNode], list[GivenInput]]] = {}
        self._looks_at_others: dict[tuple[Node, ...], Node | None] = {}
        self._flags: dict[tuple[object, ...], dict[Node, bool]] = {}

    def below(self, roots: tuple[Node, ...]) -> list[Node]:
        """Returns the nodes that some roots need, in forward order."""
        if roots not in self._below:
            self._below[roots] = needed_nodes(self.nodes, roots, ())
        return self._below[roots]

    def leaves_below(self, roots: tuple[Node, ...]) -> tuple[list[StoredNode], list[GivenInput]]:
        """Returns the parameters and statistics, and the inputs, that some roots need."""
        if roots not in self._leaves:
            below = self.below(roots)
            stored = [node for node in below if isinstance(node, StoredNode)]
            self._leaves[roots] = stored, [self.given[node] for node in below if node in self.given]
        return self._leaves[roots]

    @cached_property
    def given(self) -> dict[Node, GivenInput]:
        """The inputs, and the readers of the values given for them."""
        return {
            node: GivenInput(
                node, self.names[node], self.states.get(node), node in self.read_sparsely, node in self.read_by_numbers
            )
            for node in self.inputs
        }

    def looks_at_others(self, roots: tuple[Node, ...]) -> Node | None:
        """Returns the first node below the roots that depends on other frames of the axis without a name; or None."""
        if roots not in self._looks_at_others:
            looking = [node for node in self.below(roots) if node.needs_other_frames]
            on_frames = [node for node in looking if node.operands[node.operation.looked_at].shape.cols is None]
            self._looks_at_others[roots] = next(iter(on_frames), None)
        return self._looks_at_others[roots]

    def gradient_flags(self, roots: tuple[Node, ...], wanted: tuple[Node, ...]) -> dict[Node, bool]:
        """Algorithm 1.5 for the parameters in training now and the nodes that are `wanted`.

        Raises GradientError for a node that cannot pass on a needed gradient.
        """
        key = roots, wanted, self.learning
        if key not in self._flags:
            below = set(self.below(roots))
            composites = [composite for composite in self.composites if composite.nodes[0] in below]
            flags = gradient_flags(composites, dict.fromkeys(wanted, True))
            check_gradients_exist(self.below(roots), flags, self.names)
            self._flags[key] = flags
        return self._flags[key]

    @property
    def learning(self) -> tuple[bool, ...]:
        """True for parameters and components in training now."""
        return tuple([node.is_trained for node in self._learners])

    @cached_property
    def _learners(self) -> list[Node]:
        return [*self.parameters, *self._component_nodes]

    @cached_property
    def carried(self) -> dict[Node, Node]:
        """The nodes whose last frames are the next initial states, by the inputs of the states."""
        return {delay.initial: delay.operands[0] for delay in self.delays if delay.initial is not None}

    @cached_property
    def serves_loops(self) -> set[Node]:
        """The nodes of loops without users outside the loop, and the nodes outside that only loops use."""
        loop_of = {node: composite for composite in self.composites if composite.is_loop for node in composite.nodes}
        outside = {o for node in self.nodes for o in node.operands if node not in loop_of}
        elsewhere = {o for node, loop in loop_of.items() for o in node.operands if loop_of.get(o, loop) is not loop}
        used = {o for node in self.nodes for o in node.operands}
        return (used | set(loop_of)) - outside - elsewhere

    @cached_property
    def read_by_numbers(self) -> set[Node]:
        """The inputs of which only numbers of whole sequences are made, as CTC does: they may have no frames."""
        others = {
            o for node in self.nodes if not node.operation.is_whole or node.shape.has_samples for o in node.operands
        }
        return set(self.inputs) - others - set(self.roots)

    @cached_property
    def read_sparsely(self) -> set[Node]:
        """The sparse inputs whose users all read only nonzero elements."""
        others = {
            operand
            for node in self.nodes
            for position, operand in enumerate(node.operands)
            if not node.operation.reads_sparsely(position)
        }
        return {node for node in self.inputs if node.operation.options().get("sparse")} - others - set(self.roots)

    @cached_property
    def is_staged(self) -> bool:
        """True if the graph needs more than one program."""
        return takes_stages(self.nodes)

    @cached_property
    def stages(self) -> list[Stage]:
        return find_stages(self.composites)

    @cached_property
    def looked_up(self) -> set[Node]:
        """Parameters with sparse gradients: all users choose columns."""
        users = [(node, position, operand) for node in self.nodes for position, operand in enumerate(node.operands)]
        chosen = {o for node, position, o in users if o.is_parameter and node.operation.chooses_columns(position)}
        others = {o for node, position, o in users if not node.operation.chooses_columns(position)}
        return chosen - others - set(self.roots)

    @cached_property
    def read_by_pytorch(self) -> set[Node]:
        """Parameters whose gradient autograd finds: all users are nodes between programs."""
        between = {node for stage in self.stages if not stage.key.is_program for node in stage.nodes}
        others = {operand for node in self.nodes if node not in between for operand in node.operands}
        return {node for node in self.parameters if node not in others}

    # Nodes by their classes, with the members that only these have.

    stored = _nodes_of(StoredNode)
    parameters = _nodes_of(ParameterNode)
    statistics = _nodes_of(StatisticNode)
    delays = _nodes_of(DelayNode)

    @property
    def components(self) -> list[tuple[Node, ComponentOperation]]:
        """Component nodes with operations, looked up on every call: copies of networks get other operations."""
        if not self._component_nodes:
            return []
        return [(node, cast(ComponentOperation, node.operation)) for node in self._component_nodes]

    @cached_property
    def _variable(self) -> list[Node]:
        return [node for node in self.nodes if type(node.operation).variant is not Operation.variant]

    def variants(self, training: bool) -> tuple[Hashable, ...]:
        """Returns the settings of operations on which programs depend, as currently set."""
        return tuple([node.operation.variant(training) for node in self._variable])

    @cached_property
    def _component_nodes(self) -> list[Node]:
        return [node for node in self.nodes if isinstance(node.operation, ComponentOperation)]

    @cached_property
    def inputs(self) -> list[Node]:
        return [node for node in self.nodes if node.operation.is_given]

    @cached_property
    def input_by_name(self) -> dict[str, Node]:
        return {self.names[node]: node for node in self.inputs}

    def layout_of(self, node: Node, layout: SampleLayout | None) -> SampleLayout:
        """Returns a node's samples, from those of the network; initial states have samples before or behind these."""
        assert layout is not None, "a network with samples is given some"
        lag = self.states.get(node)
        return layout if lag is None else layout.of_states(lag)

    def find(self, node: Node | str) -> Node:
        """Returns a node of the graph, given as node or name. Raises NetworkError, with a hint, for an unknown name."""
        if isinstance(node, Node):
            if node in self.names:
                return node
            raise NetworkError(f"node '{node.formula}' is not part of this network: add it to its outputs")
        check_kind(node, str, "what is looked for in a network", "a node or its name")
        if node in self.by_name:
            return self.by_name[node]
        hint = did_you_mean(node, self.by_name)
        raise NetworkError(f"there is no node '{node}' in the network" + (f"; {hint}" if hint else ""))


def _names(nodes: Sequence[Node]) -> dict[Node, str]:
    """Returns a name for each node; parameters of a component node are called NODE.PARAMETER, a reserved name."""
    names: dict[Node, str] = {}
    taken: dict[str, Node] = {}
    for node in nodes:
        if node.name:
            names[node] = checked_name(node.name)
            for name in _taken_by(node, node.name):
                if taken.setdefault(name, node) is not node:
                    raise NetworkError(f"two nodes are called '{name}':\n  {taken[name].place}\n  {node.place}")
    counts: dict[str, int] = {}
    for node in nodes:
        while node not in names:
            counts[node.type] = counts.get(node.type, 0) + 1
            wanted = _taken_by(node, f"{node.type}{counts[node.type]}")
            if not any(name in taken for name in wanted):
                names[node] = wanted[0]
                taken.update(dict.fromkeys(wanted, node))
    return {node: names[node] for node in nodes}


def _taken_by(node: Node, name: str) -> list[str]:
    return [name, *(f"{name}.{parameter}" for parameter in node.operation.parameters())]


def check_gradients_exist(nodes: Iterable[Node], flags: Mapping[Node, bool], names: Mapping[Node, str]) -> None:
    """Raises GradientError for a node through which a gradient would have to pass but cannot."""
    for node in nodes:
        for position, operand in enumerate(node.operands):
            if flags.get(operand, False) and flags.get(node, False):
                try:
                    node.operation.check_gradient(position)
                except GradientError as error:
                    where = f"\n  {node.place}" if node.place.line else ""
                    raise GradientError(f"'{names[node]}': {error}{where}") from None


def check_connected(roots: Iterable[Node]) -> None:
    for node in all_nodes(roots):
        if node.lag and not node.operands:
            raise NetworkError(f"delay '{node.formula}' was never connected: call connect()\n  {node.place}")


def check_states(nodes: Iterable[Node], states: Iterable[Node], names: Mapping[Node, str]) -> None:
    """Checks that only delays use initial states, whose times differ from the times of all values."""
    states = set(states)
    for node in nodes:
        uses = node.operands[:1] if node.lag else node.operands
        for operand in uses:
            if operand in states:
                raise NetworkError(
                    f"'{names[operand]}' is an initial state, but '{names[node]}' uses it too\n  {node.place}"
                )


def check_loops(composites: Iterable[Composite], names: Mapping[Node, str]) -> None:
    """Raises NetworkError for a recurrence over parameters alone, and for a node that needs its own value."""
    has_input: dict[Node, bool] = {}
    for composite in composites:
        given = any(node.operation.is_given and node.shape.has_samples for node in composite.nodes)
        given |= any(has_input.get(operand, False) for node in composite.nodes for operand in node.operands)
        has_input.update(dict.fromkeys(composite.nodes, given))
        if not composite.is_loop:
            continue
        some = ", ".join(names[node] for node in composite.nodes[:6])
        if not given:
            raise NetworkError(
                f"the loop of {some} is a recurrence over parameters alone: no input with samples says how long it is"
            )
        if _lag_of_some_loop(composite, 1) and _lag_of_some_loop(composite, -1):
            raise NetworkError(f"the loop of {some} looks forward and backward in time: a value would need itself")


def _lag_of_some_loop(composite: Composite, sign: int) -> bool:
    """Returns true if the nodes have a cycle whose total lag, times `sign`, is at most 0 (Bellman-Ford)."""
    number = {node: i for i, node in enumerate(composite.nodes)}
    scale = len(number) + 1
    arcs = []
    for node in composite.nodes:
        # A cycle of total lag 0 counts too: a tiny negative weight on each arc tells it from a positive one.
        arcs += [(number[o], number[node], sign * node.lag * scale - 1) for o in node.operands if o in number]
    distance = [0] * len(number)
    for _ in range(len(number)):
        changed = False
        for source, target, weight in arcs:
            if distance[source] + weight < distance[target]:
                distance[target] = distance[source] + weight
                changed = True
        if not changed:
            return False
    return True
