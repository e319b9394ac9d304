"""An nnet3 network as plain data for a page: layers, nodes, what they take from each other, components."""

from __future__ import annotations

from typing import Any

from nnet3.explore.histograms import histograms
from nnet3.nnet import Nnet
from nnet3.nnet.picture import collect_arcs, group_kinds, group_nodes
from nnet3.structure.component_notes import component_notes
from nnet3.structure.context import node_contexts
from nnet3.structure.nodes import ComponentNode, DescriptorNode, DimRangeNode, InputNode, NnetNode


def network_data(nnet: Nnet) -> dict[str, Any]:
    """Returns `layers`, `nodes` (with the number of their layer), `arcs` (source, user, label), `components`, `facts`.

    A node of a simple network has its `context`: the first and last frame of input that its value at t needs, from t.
    Only nodes that a config names are there; the hidden inputs of components belong to them.
    """
    layers, singles = group_nodes(nnet), group_nodes(nnet, merge=False)
    layer_of = {node.name: number for number, layer in enumerate(layers) for node in layer.nodes}
    number_of = {single.nodes[0].name: number for number, single in enumerate(singles)}
    component_number = {name: number for number, name in enumerate(nnet.components)}
    contexts = node_contexts(nnet.parts) if nnet.is_simple else {}
    nodes = []
    for single in singles:
        node = single.nodes[0]
        record = {"name": node.name, "layer": layer_of[node.name], "dim": nnet.node_dim(node.name), **_described(node)}
        if node.name in contexts:
            left, right = contexts[node.name]
            record["context"] = [-left, right]
        if single.descriptor is not None:
            record["takes"] = str(single.descriptor)
        if isinstance(node, ComponentNode):
            record["component"] = component_number[node.component]
        nodes.append(record)
    arcs = [(source, user, arc.label()) for (source, user), arc in collect_arcs(nnet, singles, number_of).items()]
    return {
        "layers": [
            {"name": layer.name, "kind": kind} for layer, kind in zip(layers, group_kinds(nnet, layers), strict=True)
        ],
        "nodes": nodes,
        "arcs": arcs,
        "components": [_component(nnet, name) for name in nnet.components],
        "facts": _facts(nnet),
    }


def _facts(nnet: Nnet) -> dict[str, Any]:
    facts: dict[str, Any] = {"kind": "nnet3 network", "parameters": nnet.num_parameters}
    if nnet.is_simple:
        facts |= {"left context": nnet.left_context, "right context": nnet.right_context, "modulus": nnet.modulus}
    return facts


def _described(node: NnetNode) -> dict[str, str]:
    if isinstance(node, InputNode):
        return {"kind": "input"}
    if isinstance(node, DimRangeNode):
        return {"kind": "dim-range", "takes": f"{node.columns} of {node.source}"}
    if isinstance(node, DescriptorNode):
        return {"kind": "output", "objective": str(node.objective)}
    return {"kind": "component"}


def _component(nnet: Nnet, name: str) -> dict[str, Any]:
    component = nnet.components[name]
    return {
        "name": name,
        "type": component.type_name,
        "in": component.input_dim,
        "out": component.output_dim,
        "parameters": component.num_parameters,
        "notes": component_notes(component),
        "histograms": histograms(component.parameters()) if component.num_parameters else [],
    }
