"""Collapses a network for test: neighbouring components are merged."""

from __future__ import annotations

from dataclasses import replace
from operator import methodcaller

from nnet3.base.options.editing import CollapseOptions
from nnet3.model.components.merging import MERGES, Merge
from nnet3.model.nnet.network import Nnet
from nnet3.model.structure.descriptor import Descriptor, SumDescriptor
from nnet3.model.structure.nodes import ComponentNode, DescriptorNode, NnetNode
from nnet3.model.structure.parts import orphan_warnings, without_orphans

_MOST_ROUNDS = 10


def prepare_for_test(nnet: Nnet, options: CollapseOptions | None = None) -> None:
    """Puts batch-norm and dropout in test mode, then collapses, in place. Outputs stay those of test mode."""
    nnet.set_test_mode(True)
    collapse_model(nnet, options)


def collapse_model(nnet: Nnet, options: CollapseOptions | None = None) -> None:
    """Merges, in place, components with predecessors read by them alone; then removes orphans, but no input nodes.

    Outputs stay the same but for rounding. No component changes: a merged component is a new component with tensors of
    its own; unmerged components stay the same objects.
    """
    options = options or CollapseOptions()
    collapser = _Collapser(nnet, [merge for rule, merge in MERGES.items() if getattr(options, rule)])
    for _ in range(_MOST_ROUNDS):
        before = [*collapser.nodes]
        collapser.merge_all()
        if collapser.nodes == before:
            break
    parts = replace(nnet.parts, nodes=tuple(collapser.nodes), components=collapser.components)
    nnet.replace_parts(without_orphans(parts))
    nnet.warnings = orphan_warnings(nnet.parts)


class _Collapser:
    """Nodes and components while they change; node names and numbers stay."""

    def __init__(self, nnet: Nnet, merges: list[Merge]):
        self.nodes: list[NnetNode] = list(nnet.nodes)
        self.components = dict(nnet.components)
        self.node_number = nnet.node_number
        self.merges = merges
        self.merged_name: dict[tuple[str, str], str | None] = {}  # of a pair of components; None if they do not fit

    def merge_all(self) -> None:
        """Goes through all component nodes once."""
        for number, node in enumerate(self.nodes):
            if isinstance(node, ComponentNode):
                self._merge_node(number)

    def _merge_node(self, number: int) -> None:
        """Merges P's component into the node's if the node sees only node P, and looks at P's input instead."""
        node, hidden = self.nodes[number], self.nodes[number - 1]
        assert isinstance(node, ComponentNode)
        assert isinstance(hidden, DescriptorNode)
        source = _only_source(hidden.descriptor)
        if source is None or source == node.name:
            return
        first = self.nodes[self.node_number[source]]
        if not isinstance(first, ComponentNode):
            return
        name = self._merged(first.component, node.component)
        if name is None:
            return
        first_hidden = self.nodes[self.node_number[first.input_name]]
        assert isinstance(first_hidden, DescriptorNode)
        self.nodes[number - 1] = replace(hidden, descriptor=_insert(hidden.descriptor, first_hidden.descriptor))
        self.nodes[number] = replace(node, component=name)

    def _merged(self, first: str, second: str) -> str | None:
        """Returns the name of a component equal to `first` followed by `second`, or None."""
        if (first, second) not in self.merged_name:
            self.merged_name[first, second] = self._make_merged(first, second)
        return self.merged_name[first, second]

    def _make_merged(self, first: str, second: str) -> str | None:
        one, two = self.components[first], self.components[second]
        merged = next((result for merge in self.merges if (result := merge(one, two)) is not None), None)
        if merged is None:
            return None
        if merged is two:
            return second
        scale = one.test_mode_scale
        name = self._unused(f"{first}.{second}" if scale is None else f"{second}.scale{scale:.3g}")
        self.components[name] = merged
        return name

    def _unused(self, name: str) -> str:
        number, candidate = 1, name
        while candidate in self.components:
            number, candidate = number + 1, f"{name}.{number + 1}"
        return candidate


def _only_source(descriptor: Descriptor) -> str | None:
    """Returns the node P if each part of the descriptor is P or Offset(P, ...), else None."""
    plain = [part.plain() for part in descriptor.parts]
    sources = {found[0].node if found and found[0].scale == 1.0 else None for found in plain}
    return sources.pop() if len(sources) == 1 else None


def _insert(descriptor: Descriptor, inner: Descriptor) -> Descriptor:
    """Replaces P in `descriptor`, each part of which is P or Offset(P, ...), by P's input descriptor."""
    parts: list[SumDescriptor] = []
    for _, *offsets in filter(None, (part.plain() for part in descriptor.parts)):
        parts += [part.changed(methodcaller("moved", *offsets)) for part in inner.parts]
    return Descriptor(tuple(parts))
