"""Values of a network: inputs given, what is needed computed, what is known used again."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from nnet3.cn.layouts import Layouts
from nnet3.cn.network_state import NetworkState, takes_turns
from nnet3.cn.node import Node
from nnet3.cn.order import needed_nodes
from nnet3.cn.place import warn_user
from nnet3.cn.program import Question
from nnet3.cn.samples import SampleLayout, Sequences, as_columns, as_matrix
from nnet3.cn.shape import SEQUENCES
from nnet3.cn.staged import StagedRun
from nnet3.errors import NetworkError, ShapeError, check_kind
from nnet3.ir.matrices import warn_of_gradient
from nnet3.text import did_you_mean


class EvaluatedNetwork(NetworkState):
    """Base of `Network`: evaluation."""

    @takes_turns
    def evaluate(self, node: Node | str | Sequence[Node | str], inputs: Mapping[str, Any] | None = None) -> Any:
        """The value of a node, or a list with the values of several.

        `inputs`: by name, what the node needs; more is allowed. Computes only what is asked for, and of that only what
        is not known: a value holds until an input or parameter below it changes. Everything is in test mode: dropout is
        off, batch-norm normalizes by its statistics. Raises NetworkError for nodes and inputs that are missing,
        ShapeError for inputs that do not fit.
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
        """The values of outputs, from those of inputs and of the nodes that are valid."""
        if self._nodes.is_staged:
            values = {node: value for node, value in known.items() if node in valid or not node.is_evaluated}
            run = StagedRun(self, layouts, needed, outputs, values, training=training)
            run.run()
            return {node: run.values[node] for node in outputs}
        given = tuple(node for node in needed if node in valid)
        runner = self._runner(Question(self._nodes, outputs, layouts.on(""), given, training=training))
        return runner.forward(known)

    def _kept(self, computed: Sequence[Node], roots: Collection[Node]) -> tuple[Node, ...]:
        """The values to keep: all, but of those inside a loop only what is asked for or used outside of it."""
        inside = self._nodes.inside_loops
        return tuple(node for node in computed if node not in inside or node in roots)

    def given_values(self, roots: Sequence[Node], inputs: Mapping[str, Any]) -> tuple[Layouts, dict[Node, Tensor]]:
        """The samples that there are, and the inputs that the roots need as rows."""
        layout, needed = self._take(roots, inputs), self._nodes.below(tuple(roots))
        return layout, {node: self._stamps.value(node) for node in needed if node in self._nodes.inputs}

    def shown(self, node: Node, values: Mapping[Node, Tensor], layout: Layouts) -> Any:
        """A node's value, from its rows, as users see it."""
        return self._shown(node, node.memory if node.is_stored else values[node], layout)

    def _shown(self, node: Node, rows: Tensor, layouts: Layouts) -> Any:
        if node.shape.has_samples:
            rows = rows.to_dense() if rows.is_sparse else rows
            return self.turned(self._nodes.layout_of(node, layouts.on(node.shape.axis)).value_of(rows))
        array = rows.detach().cpu().numpy().T.copy()
        return array[0, 0] if node.shape.is_scalar else array

    def _take(self, roots: Sequence[Node], inputs: Mapping[str, Any]) -> Layouts:
        """Give the inputs that the roots need to the stamps; returns which samples there are."""
        if not isinstance(inputs, Mapping):
            raise NetworkError(f"expected the inputs by name, such as {{'x': X}}, got {type(inputs).__name__}")
        by_name = self._nodes.input_by_name
        self._follow_memory()
        needed = self._nodes.below(tuple(roots))
        stored, leaves = self._nodes.leaves_below(tuple(roots))
        for keeper in stored:
            if keeper.memory.requires_grad:
                warn_of_gradient(keeper.memory, f"the memory of '{self.names[keeper]}'")
        missing = [f"'{self.names[node]}' ({node.shape})" for node in leaves if self.names[node] not in inputs]
        if missing:
            near = {name: did_you_mean(str(name), by_name) for name in inputs if name not in by_name}
            hints = [f"'{name}' was given, {hint}" for name, hint in near.items() if hint]
            hints += ["inputs are given by their names, not by nodes"] * any(isinstance(key, Node) for key in inputs)
            raise NetworkError("; ".join([f"missing inputs: {', '.join(missing)}", *hints]))
        self._warn_of_strangers(inputs, by_name)
        self._check_statistics(needed)
        states = self._nodes.states
        plain = [node for node in leaves if node.shape.has_samples and node not in states]
        given = {node: self._given(node, inputs[self.names[node]]) for node in leaves}
        layouts = self._layouts.with_axes(
            {node.shape.axis: self._layout_given(node, given[node]) for node in plain[::-1]}
        )
        self._layouts = layouts
        layout = layouts.on("")
        if layout is not None and not layout.are_sequences and layout.num_samples > 1 and not self._has_warned:
            given_so = next(self.names[leaf] for leaf in plain if not leaf.shape.axis)
            self._warn_of_lone_samples(self._nodes.looks_at_others(tuple(roots)), given_so)
        for node in leaves:
            name = self.names[node]
            own = layouts.on(node.shape.axis) if node.shape.has_samples else None
            rows = self._rows(node, given[node], own, states.get(node), f"input '{name}'")
            self._check_classes(node, rows, given[node])
            self._stamps.give(node, rows.to(self._device), own)
        return layouts

    def _warn_of_strangers(self, inputs: Mapping[str, Any], known: Mapping[str, Node]) -> None:
        """Warn, once for each name, of entries of a batch that are no inputs of this network."""
        strangers = [name for name in inputs if name not in known and name not in self._ignored]
        if not strangers:
            return
        self._ignored.update(strangers)
        hint = did_you_mean(str(strangers[0]), known) or f"there is: {', '.join(known) or 'none'}"
        warn_user(f"there is no input '{strangers[0]}', and it is ignored; {hint}")

    def _given(self, node: Node, value: Any) -> Any:
        """The value of an input as columns: sequences, or a matrix."""
        if isinstance(value, Sequences) or not node.shape.has_samples:
            return value
        what = f"input '{self.names[node]}'"
        columns = as_columns(value, what, self.layout == "rows")
        if self.layout == "rows" and len(columns) != node.shape.rows:
            raise ShapeError(
                f"{what}: expected {node.shape.rows} columns, got {len(columns)}: a row is a sample in this network, "
                "and sequences are given as cn.sequences([...])"
            )
        return columns

    def _layout_given(self, node: Node, value: Any) -> SampleLayout:
        last = self._stamps.layout_of(node)
        if last is not None and last.is_of(value):
            return last
        may_be_empty = node in self._nodes.read_by_numbers
        layout = SampleLayout.of(value, f"input '{self.names[node]}'", may_be_empty=may_be_empty)
        if node.shape.axis == SEQUENCES and set(layout.lengths) != {1}:
            raise ShapeError(f"input '{self.names[node]}': expected one column for each sequence, got {layout}")
        return layout

    def _check_classes(self, node: Node, rows: Tensor, given: Any) -> None:
        """Raise ShapeError for values that are no class indexes, where these are expected; `given`: as given."""
        classes = getattr(node.operation, "classes", None)
        if classes is None or not rows.numel():
            return
        name, largest = self.names[node], 2 ** {torch.float16: 11, torch.float32: 24}.get(rows.dtype, 53)
        if classes > largest:
            raise ShapeError(f"input '{name}': {rows.dtype} does not tell {classes} classes apart: use a wider dtype")
        lowest, highest = (each.item() for each in rows.aminmax())
        are_whole = isinstance(given, np.ndarray) and given.dtype.kind in "iu"
        if not (lowest >= -1 and highest < classes and (are_whole or torch.equal(rows, rows.floor()))):
            found = rows[(rows != rows.floor()) | (rows < -1) | (rows >= classes)][0].item()
            raise ShapeError(f"input '{name}': expected integers 0 ... {classes - 1}, or -1 for none, got {found:g}")

    def _check_statistics(self, needed: Collection[Node]) -> None:
        """Raise NetworkError for a statistic that is needed but not computed."""
        for statistic in self._nodes.statistics:
            if statistic in needed and not statistic.is_computed:
                raise NetworkError(
                    f"the statistic '{self.names[statistic]}' is not known yet: call compute_statistics first"
                )

    def _warn_of_lone_samples(self, node: Node | None, given: str) -> None:
        """Warn, once, if a node looks at other frames: of samples that are no sequences there are none."""
        if node is not None:
            self._has_warned = True
            warn_user(
                f"'{given}' is a matrix, whose columns are samples that have nothing to do with each other, but "
                f"'{self.names[node]}' ({node.type}) looks at other frames: it sees none. A sequence is given as "
                f"cn.sequences([{given}])"
            )

    def _rows(self, node: Node, value: Any, layout: SampleLayout | None, lag: int | None, what: str) -> Tensor:
        if not node.shape.has_samples:
            array = as_matrix(value, what)
            if array.shape != (node.shape.rows, node.shape.cols):
                raise ShapeError(f"{what}: expected shape {(node.shape.rows, node.shape.cols)}, got {array.shape}")
            return torch.empty(array.T.shape, dtype=self._dtype).copy_(torch.as_tensor(array.T))
        if layout is None:
            raise NetworkError(f"{what} is an initial state: give the input whose frames it precedes, too")
        if lag is None:
            is_sparse = node in self._nodes.read_sparsely
            return layout.rows_of(value, node.shape.rows, what, self._dtype, is_sparse=is_sparse)
        states = layout.of_states(lag)
        if abs(lag) == 1 and not isinstance(value, Sequences):
            columns, wanted = as_matrix(value, what), len(states.lengths)
            if columns.shape[1] != wanted:
                raise ShapeError(f"{what}: expected a column for each of {wanted} sequences, got {columns.shape[1]}")
            value = Sequences(np.split(columns, wanted, axis=1))
        return states.rows_of(value, node.shape.rows, what, self._dtype)

    @takes_turns
    def criterion(self, inputs: Mapping[str, Any], *, training: bool = False) -> float:
        """The weighted sum of the criteria, in test mode unless `training`."""
        roots = tuple(self.criteria)
        values = self.values_in_training(roots, inputs) if training else self.evaluate(roots, inputs)
        return sum(weight * float(value) for weight, value in zip(self.criteria.values(), values, strict=True))

    @takes_turns
    def values_in_training(self, nodes: Sequence[Node], inputs: Mapping[str, Any]) -> list[Any]:
        """The values of computed nodes in training mode. Nothing is known from before, nothing is kept."""
        layout = self._take(nodes, inputs)
        known = {node: self._stamps.value(node) for node in self._nodes.inputs if node in self._stamps}
        found = self._forward(self._nodes.below(tuple(nodes)), tuple(nodes), known, (), layout, training=True)
        return [self._shown(node, found[node], layout) for node in nodes]
