"""Values of a network: inputs are given, needed values computed, known values used again."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from torch import Tensor

from nnet3.base.text import did_you_mean
from nnet3.cn.given import GivenInput
from nnet3.cn.network_state import NetworkState, takes_turns
from nnet3.cn.node import Node
from nnet3.cn.order import needed_nodes
from nnet3.cn.place import warn_user
from nnet3.cn.program import Question
from nnet3.cn.samples import Layouts, SampleLayout
from nnet3.engine.ir.matrices import warn_of_gradient
from nnet3.errors import NetworkError, check_kind


class EvaluatedNetwork(NetworkState):
    """Base of `Network`: evaluation."""

    @takes_turns
    def evaluate(self, node: Node | str | Sequence[Node | str], inputs: Mapping[str, Any] | None = None) -> Any:
        """Returns the value of a node, or a list with the values of several.

        `inputs`: by name, the needed inputs; more are allowed. Computes only needed values that are unknown: a value
        holds until an input or parameter below the node changes. Everything is in test mode: dropout is off, batch-norm
        normalizes by its statistics. Raises NetworkError for missing nodes and inputs, ShapeError for inputs that do
        not fit.
        """
        if isinstance(node, Sequence) and not isinstance(node, str):
            roots = [self.find(each) for each in node]
            values, layout = self._values_of(roots, {} if inputs is None else inputs)
            return [self._shown(root, values[root], layout) for root in roots]
        check_kind(node, (Node, str), "what is evaluated", "a node, a name, or a list of these")
        return self.evaluate([node], inputs)[0]

    def _values_of(self, roots: Sequence[Node], inputs: Mapping[str, Any]) -> tuple[dict[Node, Tensor], Layouts]:
        layout = self._take(roots, inputs)
        self._stamps.look_at(self._nodes.below(tuple(roots)))
        valid = self._stamps.valid()
        needed = needed_nodes(self._nodes.nodes, roots, valid)
        outputs = [node for node in needed if node.is_evaluated and node not in valid]
        self.computed = tuple(self.names[node] for node in outputs)
        if outputs:
            known = {node: self._stamps.value(node) for node in needed if node in self._stamps}
            self._stamps.keep(self._forward(needed, self._kept(outputs, roots), known, valid, layout))
        return {root: root.memory if root.is_stored else self._stamps.value(root) for root in roots}, layout

    def _forward(
        self,
        needed: Collection[Node],
        outputs: tuple[Node, ...],
        known: Mapping[Node, Tensor],
        valid: Collection[Node],
        layouts: Layouts,
        training: bool = False,
    ) -> dict[Node, Tensor]:
        """Returns the values of outputs, from the values of inputs and of valid nodes."""
        if self._nodes.is_staged:
            values = {node: value for node, value in known.items() if node in valid or not node.is_evaluated}
            run = self._staged(layouts, needed, outputs, values, training=training)
            run.run()
            return {node: run.values[node] for node in outputs}
        given, layout = tuple(node for node in needed if node in valid), layouts.on("")
        hoists = self._hoists(layout)
        runner = self._runner(Question(self._nodes, outputs, layout, given, training=training, hoists=hoists))
        return runner.forward(known)

    def _kept(self, computed: Sequence[Node], roots: Collection[Node]) -> tuple[Node, ...]:
        """Returns the computed nodes whose values are kept: all but unrequested nodes that only serve loops."""
        serves = self._nodes.serves_loops
        return tuple(node for node in computed if node not in serves or node in roots)

    def given_values(self, roots: Sequence[Node], inputs: Mapping[str, Any]) -> tuple[Layouts, dict[Node, Tensor]]:
        """Returns the given samples, and the inputs of the roots as rows."""
        layout, needed = self._take(roots, inputs), self._nodes.below(tuple(roots))
        return layout, {node: self._stamps.value(node) for node in needed if node in self._nodes.inputs}

    def shown(self, node: Node, values: Mapping[Node, Tensor], layout: Layouts) -> Any:
        """Returns a node's value in the user's form, from its rows."""
        return self._shown(node, node.memory if node.is_stored else values[node], layout)

    def _shown(self, node: Node, rows: Tensor, layouts: Layouts) -> Any:
        if node.shape.has_samples:
            rows = rows.to_dense() if rows.is_sparse else rows
            return self.turned(self._nodes.layout_of(node, layouts.on(node.shape.axis)).value_of(rows))
        array = rows.detach().cpu().numpy().T.copy()
        return array[0, 0] if node.shape.is_scalar else array

    def _take(self, roots: Sequence[Node], inputs: Mapping[str, Any]) -> Layouts:
        """Gives the inputs of the roots to the stamps; returns the samples."""
        if not isinstance(inputs, (dict, Mapping)):  # a dict is known at once
            raise NetworkError(f"expected the inputs by name, such as {{'x': X}}, got {type(inputs).__name__}")
        roots = tuple(roots)
        self._follow_memory()
        stored, leaves = self._nodes.leaves_below(roots)
        for keeper in stored:
            if keeper.memory.requires_grad:
                warn_of_gradient(keeper.memory, f"the memory of '{self.names[keeper]}'")
        if len(inputs) != len(leaves) or not all(leaf.name in inputs for leaf in leaves):
            self._check_names(leaves, inputs)
        if self._nodes.statistics:
            self._check_statistics(self._nodes.below(roots))
        are_rows, given = self.layout == "rows", []
        by_axis: dict[str, SampleLayout] = {}
        for leaf in leaves:
            value = leaf.columns(inputs[leaf.name], are_rows)
            if leaf.says_samples:
                by_axis.setdefault(leaf.axis, leaf.layout(value, self._stamps.layout_of(leaf.node)))
            given.append(value)
        self._layouts = layouts = self._layouts.with_axes(by_axis)
        looking = self._nodes.looks_at_others(roots)
        if looking is not None and not self._has_warned:
            self._warn_of_lone_samples(looking, layouts.on(""), leaves)
        for leaf, value in zip(leaves, given, strict=True):
            own = layouts.on(leaf.axis) if leaf.has_samples else None
            rows = leaf.rows(value, own, self._dtype)
            if leaf.classes is not None:
                leaf.check_classes(rows, value)
            self._stamps.give(leaf.node, rows.to(self._device), own)
        return layouts

    def _check_names(self, leaves: Sequence[GivenInput], inputs: Mapping[str, Any]) -> None:
        """Raises NetworkError for missing inputs, warns of entries that are no inputs."""
        by_name = self._nodes.input_by_name
        missing = [f"'{leaf.name}' ({leaf.node.shape})" for leaf in leaves if leaf.name not in inputs]
        if missing:
            near = {name: did_you_mean(str(name), by_name) for name in inputs if name not in by_name}
            hints = [f"'{name}' was given, {hint}" for name, hint in near.items() if hint]
            hints += ["inputs are given by their names, not by nodes"] * any(isinstance(key, Node) for key in inputs)
            raise NetworkError("; ".join([f"missing inputs: {', '.join(missing)}", *hints]))
        self._warn_of_strangers(inputs, by_name)

    def _warn_of_strangers(self, inputs: Mapping[str, Any], known: Mapping[str, Node]) -> None:
        """Warns, once for each name, of entries of a batch that are no inputs of the network."""
        strangers = [name for name in inputs if name not in known and name not in self._ignored]
        if not strangers:
            return
        self._ignored.update(strangers)
        hint = did_you_mean(str(strangers[0]), known) or f"there is: {', '.join(known) or 'none'}"
        warn_user(f"there is no input '{strangers[0]}', and it is ignored; {hint}")

    def _check_statistics(self, needed: Collection[Node]) -> None:
        """Raises NetworkError for a statistic that is needed but not computed."""
        for statistic in self._nodes.statistics:
            if statistic in needed and not statistic.is_computed:
                raise NetworkError(
                    f"the statistic '{self.names[statistic]}' is not known yet: call compute_statistics first"
                )

    def _warn_of_lone_samples(self, node: Node, layout: SampleLayout | None, leaves: Sequence[GivenInput]) -> None:
        """Warns, once, of a node that looks at other frames: samples without sequences have one frame alone."""
        if layout is None or layout.are_sequences or layout.num_samples < 2:
            return
        self._has_warned = True
        given = next(leaf.name for leaf in leaves if leaf.says_samples and not leaf.axis)
        warn_user(
            f"'{given}' is a matrix, whose columns are samples that have nothing to do with each other, but "
            f"'{self.names[node]}' ({node.type}) looks at other frames: it sees none. A sequence is given as "
            f"cn.sequences([{given}])"
        )

    @takes_turns
    def criterion(self, inputs: Mapping[str, Any], *, training: bool = False) -> float:
        """Returns the weighted sum of the criteria, in test mode unless `training`."""
        roots = tuple(self.criteria)
        values = self.values_in_training(roots, inputs) if training else self.evaluate(roots, inputs)
        return sum(weight * float(value) for weight, value in zip(self.criteria.values(), values, strict=True))

    @takes_turns
    def values_in_training(self, nodes: Sequence[Node], inputs: Mapping[str, Any]) -> list[Any]:
        """Returns the values of computed nodes in training mode. Nothing is known from before, nothing is kept."""
        layout = self._take(nodes, inputs)
        known = {node: self._stamps.value(node) for node in self._nodes.inputs if node in self._stamps}
        found = self._forward(self._nodes.below(tuple(nodes)), tuple(nodes), known, (), layout, training=True)
        return [self._shown(node, found[node], layout) for node in nodes]
