"""Network: a computational network that is evaluated, differentiated and trained."""

from __future__ import annotations

import html
import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from nnet3.base.drawing import MOST_SHOWN_BOXES, Arc, Box, Graph, Picture, can_paint
from nnet3.base.text.html import folded
from nnet3.cn import onnx
from nnet3.cn.bridge.to_nnet import to_nnet
from nnet3.cn.copying import copy_network, replace_nodes
from nnet3.cn.differentiation import DifferentiatedNetwork
from nnet3.cn.network_state import takes_turns
from nnet3.cn.node import Node
from nnet3.cn.node_text import describe_order
from nnet3.cn.nodes.statistics import StatisticNode
from nnet3.cn.order import (
    forward_order_with_loops,
    gradient_order_with_loops,
    need_gradient_flags,
    needed_nodes,
    parents_of,
)
from nnet3.cn.program import Program, Question
from nnet3.cn.stages_run import InStages, StagesProfiler, StagesRun, title_of_whole
from nnet3.cn.stepper import Stepper
from nnet3.engine.driver import CompileTask
from nnet3.engine.ir.computation import NnetComputation
from nnet3.engine.lowering.graph import ComputationGraph
from nnet3.engine.runtime.profile import Profiler, ProfileReport
from nnet3.errors import NetworkError, check_kind
from nnet3.model.nnet import Nnet

if TYPE_CHECKING:
    from nnet3.export.metadata import NetworkMetadata

Seen = TypeVar("Seen")


class Network(DifferentiatedNetwork):
    """A graph of nodes with a criterion, outputs, and memory for gradients.

    `criterion`: a node of shape 1 x 1, several nodes, or a mapping from nodes to weights. `outputs`: wanted nodes, with
    names if liked. Nodes without a name get one. `seed` is for dropout. With `optimize` false programs are run as
    lowered; `compile_options` says which passes run. Raises NetworkError for a graph that cannot be computed.

    Values are columns: a value with samples is (rows, samples), of a batch of sequences a list of (rows, frames); a
    value without samples is (rows, columns), and a number if 1 x 1. A network is used by one thread at a time.
    """

    @takes_turns
    def stepper(
        self,
        nodes: Node | str | Sequence[Node | str] = (),
        inputs: Mapping[str, Any] | None = None,
        *,
        sequences: int = 1,
    ) -> Stepper:
        """Returns a `Stepper`: `step` gives the values of `nodes` (default: all outputs) for one more frame.

        `inputs`: the values without samples, and initial states, as `evaluate` takes them. `sequences`: how many go on
        at once, each by itself, such as the beams of a search. Raises NetworkError, with the name of the node, for a
        value that depends on later frames, is computed of whole sequences, or has no samples.
        """
        check_kind(nodes, (Node, str, Iterable), "what a stepper computes", "nodes or their names")
        wanted = [nodes] if isinstance(nodes, (Node, str)) else list(nodes) or list(self.outputs.values())
        if not wanted:
            raise NetworkError("the network has no outputs: say which nodes a stepper is to compute")
        return Stepper(self, [self.find(node) for node in wanted], {} if inputs is None else inputs, sequences)

    @takes_turns
    def compute_statistics(self, minibatches: Iterable[Mapping[str, Any]]) -> None:
        """Goes through a data set and computes the unknown statistics, once (Section 1.4.4).

        `minibatches`: inputs by name, as in `evaluate`. A statistic of a value that needs another statistic takes a
        second round: give a list, not a generator.
        """
        waiting = [node for node in self._nodes.statistics if not node.is_computed]
        if len(waiting) > 1:
            minibatches = list(minibatches)
        while waiting:
            ready = [node for node in waiting if not self._waits_for(node, waiting)]
            for node in ready:
                node.forget()
            for batch in minibatches:
                values, _ = self._values_of([node.operands[0] for node in ready], batch)
                for node in ready:
                    node.accept(values[node.operands[0]])
            for node in ready:
                node.finish()
            waiting = [node for node in waiting if node not in ready]

    def _waits_for(self, node: StatisticNode, others: Sequence[Node]) -> bool:
        below = needed_nodes(self._nodes.nodes, [node.operands[0]], ())
        return any(other in below for other in others)

    # ---- to look at ----

    def order(self, node: Node | str | None = None, *, gradient: bool = False) -> Any:
        """Returns the order of computation of a node (default: of all), by Algorithms 1.2 and 1.6, as names that print
        one a line; a loop is a tuple. `gradient`: the order in which gradients of a node are computed (Algorithm 1.4),
        by default of all criteria; nodes that need no gradient are left out.
        """
        if gradient:
            criteria = list(self.criteria) if node is None else [self.find(node)]
            return describe_order(gradient_order_with_loops(criteria, need_gradient_flags(criteria)), self.names)
        roots = self._nodes.roots if node is None else [self.find(node)]
        return describe_order(forward_order_with_loops(roots), self.names)

    def graph(
        self, inputs: Mapping[str, Any], nodes: Sequence[Node | str] = ()
    ) -> ComputationGraph | InStages[ComputationGraph]:
        """Returns the (node, index) pairs for these inputs, with the pairs used by each; of all roots, or of `nodes`.

        A network in stages gives the graphs of all stages.
        """
        return self._looked_at(inputs, nodes, False, lambda program: program.graph)

    def program(
        self, inputs: Mapping[str, Any], nodes: Sequence[Node | str] = (), *, gradients: bool | None = None
    ) -> NnetComputation | InStages[NnetComputation]:
        """Returns the commands that compute `nodes` (default: the criteria with their gradients, or else all outputs).

        Of a network in stages the programs of all stages.
        """
        return self._looked_at(inputs, nodes, gradients, lambda program: program.computation)

    def task(
        self, inputs: Mapping[str, Any], nodes: Sequence[Node | str] = (), *, gradients: bool | None = None
    ) -> CompileTask | InStages[CompileTask]:
        """Returns the task of compiling what `program` gives: a source of the graph, and a request."""
        return self._looked_at(inputs, nodes, gradients, lambda program: program.task)

    def _looked_at(
        self,
        inputs: Mapping[str, Any],
        nodes: Sequence[Node | str],
        gradients: bool | None,
        look: Callable[[Program], Seen],
    ) -> Seen | InStages[Seen]:
        wants = bool(self.criteria) and not nodes if gradients is None else gradients
        if not self._nodes.is_staged:
            return look(self._program(inputs, nodes, gradients=wants))
        parts: list[tuple[str, Seen | None]] = []
        for stage in self._staged_run(inputs, nodes, gradients=wants).stages():
            if isinstance(stage, Node):
                parts.append((title_of_whole(stage, self.names), None))
            else:
                outputs = ", ".join(self.names[node] for node in stage.question.outputs)
                parts.append((f"a program for {outputs}", look(self._program_of(stage.question))))
        return InStages(tuple(parts))

    def _program(self, inputs: Mapping[str, Any], nodes: Sequence[Node | str], gradients: bool) -> Program:
        roots = [self.find(node) for node in nodes] or list(self.criteria) or list(self.outputs.values())
        layout = self._take(roots, inputs).on("")
        flags = need_gradient_flags(roots) if gradients else {}
        criteria = tuple(self.criteria) if gradients else ()
        roots = [root for root in roots if root.is_evaluated]
        training = gradients and self.training
        question = Question(
            *(self._nodes, tuple(roots), layout, (), criteria, flags),
            training=training,
            accumulates=not gradients,
            hoists=gradients or self._hoists(layout),
        )
        return self._program_of(question)

    def _staged_run(self, inputs: Mapping[str, Any], nodes: Sequence[Node | str], *, gradients: bool) -> StagesRun:
        """Returns the staged form of `_program`'s run, with the inputs as values."""
        roots = [self.find(node) for node in nodes] or list(self.criteria) or list(self.outputs.values())
        layouts, values = self.given_values(roots, inputs)
        flags = need_gradient_flags(roots) if gradients else {}
        roots = [root for root in roots if root.is_evaluated]
        needed = needed_nodes(self._nodes.nodes, roots, ())
        return self._staged(layouts, needed, roots, values, flags, training=gradients and self.training)

    def profile(
        self, inputs: Mapping[str, Any], nodes: Sequence[Node | str] = (), *, repeats: int = 3
    ) -> ProfileReport:
        """Times the commands of the criteria with their gradients, or of the values of `nodes`, for `inputs` by name.

        Returns a report of the mean of `repeats` runs; prints as a table.
        """
        gradients = bool(self.criteria) and not nodes
        if self._nodes.is_staged:
            return self._profile_of_stages(inputs, nodes, gradients, repeats)
        program = self._program(inputs, nodes, gradients=gradients)
        runner = self._runner(program.question)
        values = {node: self._stamps.value(node) for node in self._nodes.inputs if node in self._stamps}
        profiler = Profiler(runner.computer.computation)
        for repeat in range(1 + repeats):
            if repeat == 1:  # the first was to warm up
                profiler = Profiler(runner.computer.computation)
            with runner.computer.observed(profiler):
                runner.forward(values)
                if program.question.criteria:
                    runner.backward(self.criteria)
        return profiler.report()

    def _profile_of_stages(
        self, inputs: Mapping[str, Any], nodes: Sequence[Node | str], gradients: bool, repeats: int
    ) -> ProfileReport:
        profiler = StagesProfiler(self.names)
        for repeat in range(1 + repeats):
            if repeat == 1:  # the first was to warm up
                profiler = StagesProfiler(self.names)
            run = self._staged_run(inputs, nodes, gradients=gradients)
            run.profiler = profiler
            with profiler.run():
                if gradients:
                    self._backward_in_stages(run, self.criteria, (), ())
                else:
                    run.run()
        return profiler.report()

    def draw(
        self, path: str | os.PathLike[str] | None = None, *, highlight: Sequence[Node | str] = (), title: str = ""
    ) -> Picture:
        """Draws a box for each node under a title, `highlight`ed nodes in another colour; returns a picture.

        The picture has `.svg` and `.dot`. `path`: a .svg, .png or .dot file to write.
        """
        drawn = picture(self, highlight=highlight, title=title)
        if path is not None:
            drawn.save(path)
        return drawn

    def copy(self) -> Network:
        """Returns an equal network, sharing only compiled programs with the original."""
        return copy_network(self)

    def replace(self, nodes: Mapping[Node | str, Node]) -> Network:
        """Returns a network with new nodes in place of some, given by node or name; the original stays unchanged.

        Original and new network have the same parameters: nodes out of reach of the change are shared, the rest are
        copies with the same parameters. A new node may use the replaced node, as a layer put in between does.
        Statistics above new nodes are unknown, until `compute_statistics` has gone through the data. Raises
        NetworkError for unknown names and for a loop without a delay, ShapeError if a node does not fit.
        """
        return replace_nodes(self, nodes)

    def __deepcopy__(self, memo: dict[int, Any]) -> Network:
        return self.copy()

    def __reduce__(self) -> Any:
        raise NetworkError("a network is not pickled: cn.save writes it to a file, copy() makes another one")

    def to_nnet(self) -> Nnet:
        """Returns the nnet3 network with equal outputs, given equal operations on both sides; see `nnet3.cn.bridge`."""
        return to_nnet(self)

    @takes_turns
    def export_onnx(
        self, path: str | os.PathLike[str], nodes: Node | str | Sequence[Node | str] = (), **options: Any
    ) -> NetworkMetadata:
        """Writes `nodes` (default: all outputs, or else the criteria) as an ONNX file of standard operators.

        Values are in test mode, like the values of `evaluate`. Inputs have the names of nodes, outputs the names of
        outputs. Shapes: (batch, frames, rows) with samples, of any number of frames unless the option `frames` fixes
        the number; (batch, rows) with one column a sequence; (rows, columns) without samples. The file is kept if
        onnxruntime agrees with `evaluate` on random inputs to 1e-4. Raises ExportError, and leaves no file, for
        networks without a form in ONNX.
        """
        return onnx.export_network(self, path, nodes, options)

    def _repr_html_(self) -> str:
        drawn = self.draw().svg if len(self.nodes) <= MOST_SHOWN_BOXES and can_paint() else ""
        return f"<p>{html.escape(repr(self))}</p>{drawn}{folded('nodes', str(self))}"

    def __str__(self) -> str:
        """Returns a line for each node, inputs and parameters first, then criteria and outputs."""
        names = self.names
        leaves = [node for node in self.nodes if not node.operands]
        leaves.sort(key=lambda node: node.is_parameter)
        others = [node for node in self.nodes if node.operands]
        rows = []
        for node in [*leaves, *others]:
            kind = "constant" if getattr(node.operation, "constant", False) else "frozen"
            options = kind if node.is_parameter and not node.trainable else ""
            operands = ", ".join(names[operand] for operand in node.operands)
            rows.append((names[node], f": {node.type}", operands, str(node.shape), options))
        widths = [max(len(row[column]) for row in rows) for column in range(5)]
        lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
        for node, weight in self.criteria.items():
            lines.append(f"criterion {names[node]}" + (f" x {weight:g}" if weight != 1 else ""))
        lines += [f"output {name}: {names[node]}" for name, node in self.outputs.items()]
        return "\n".join(lines)

    def __repr__(self) -> str:
        parameters = sum(node.memory.numel() for node in self._nodes.parameters if node.trainable)
        return f"<Network: {len(self.nodes)} nodes, {parameters} trainable numbers>"


def picture(network: Network, *, highlight: Collection[Node | str] = (), title: str = "") -> Picture:
    """Returns the picture of a network. `highlight`: nodes that are marked, by themselves or by name.

    Arcs into delays are dashed and say how far they look; a parameter with several users says how many.
    """
    names = network.names
    marked = {network.find(node) for node in highlight}
    parents = parents_of(network.nodes)
    boxes, arcs = [], []
    for node in network.nodes:
        lines = [f"{{{names[node]} : {node.type}}}", str(node.shape)]
        users = len(parents[node])
        if node.is_parameter and users > 1:
            lines.append(f"shared by {users}")
        kind = "output" if node in marked else _kind(network, node)
        boxes.append(Box(names[node], tuple(lines), kind, tooltip=node.place.text))
        for operand in node.operands:
            label = f"{-node.lag:+d} frames" if node.lag else ""
            arcs.append(Arc(names[operand], names[node], label, bool(node.lag)))
    return Picture(Graph(boxes, arcs, title))


def _kind(network: Network, node: Node) -> str:
    """Returns the kind of a box, for the choice of a colour."""
    if node.is_parameter:
        return "trained" if node.trainable else "glue"
    if node.lag or node.is_stored:
        return "memory"
    if not node.operands:
        return "input"
    if node in network.criteria:
        return "output"
    return "function"
