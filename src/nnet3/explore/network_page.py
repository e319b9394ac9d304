"""explore: a page of a network and of a request's program."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from nnet3.cn import Network, Node
from nnet3.cn.stages_run import InStages
from nnet3.engine.runtime import NnetComputer
from nnet3.engine.runtime.profile import profile
from nnet3.errors import NetworkError, check_kind
from nnet3.explore.histograms import histograms
from nnet3.explore.html import page
from nnet3.explore.program_data import profile_data, program_data
from nnet3.model.nnet import AcousticModel, Nnet, network_of
from nnet3.model.nnet.picture import collect_arcs, group_kinds, group_nodes
from nnet3.model.requests import ComputationRequest
from nnet3.model.structure.component_notes import component_notes
from nnet3.model.structure.context import node_contexts
from nnet3.model.structure.nodes import ComponentNode, DescriptorNode, DimRangeNode, InputNode, NnetNode


def network_data(nnet: Nnet) -> dict[str, Any]:
    """Returns `layers`, `nodes` (with the number of their layer), `arcs` (source, user, label), `components`, `facts`.

    A node of a simple network has its `context`: the first and last frame of input, counted from t, needed for its
    value at t. Only nodes named by a config are listed; hidden inputs belong to their components' nodes.
    """
    layers, singles = group_nodes(nnet.parts), group_nodes(nnet.parts, merge=False)
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
    arcs = [(source, user, arc.label()) for (source, user), arc in collect_arcs(nnet.parts, singles, number_of).items()]
    return {
        "layers": [
            {"name": layer.name, "kind": kind}
            for layer, kind in zip(layers, group_kinds(nnet.parts, layers), strict=True)
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


def cn_data(network: Network) -> dict[str, Any]:
    """Returns `layers`, `nodes`, `arcs`, `components` (of nodes with numbers of their own) and `facts`."""
    names = network.names
    components: list[dict[str, Any]] = []
    nodes = []
    for position, node in enumerate(network.nodes):
        record = {"name": names[node], "layer": position, "dim": str(node.shape), "kind": node.type}
        record["takes"] = ", ".join(names[operand] for operand in node.operands)
        if node.is_stored:
            record["component"] = len(components)
            components.append(_parameter(names[node], node))
        nodes.append(record)
    drawn = network.draw(highlight=list(network.outputs.values())).graph
    number_of = {box.id: position for position, box in enumerate(drawn.nodes)}
    return {
        "layers": [{"name": box.id, "kind": box.kind} for box in drawn.nodes],
        "nodes": nodes,
        "arcs": [(number_of[arc.a], number_of[arc.b], arc.label) for arc in drawn.arcs],
        "components": components,
        "facts": {
            "kind": "computational network",
            "parameters": sum(component["parameters"] for component in components),
            "criteria": ", ".join(names[node] for node in network.criteria),
            "outputs": ", ".join(network.outputs),
        },
    }


def _parameter(name: str, node: Node) -> dict[str, Any]:
    memory = node.memory
    return {
        "name": name,
        "type": node.type,
        "in": int(memory.shape[0]),
        "out": int(memory.shape[-1]),
        "parameters": memory.numel(),
        "notes": [] if getattr(node, "trainable", False) else ["not trained"],
        "histograms": histograms({"value": memory}),
    }


SCRIPTS = ("dagre.min.js", "base.js", "network.js", "time.js", "program.js", "memory.js", "profile.js", "explorer.js")


def explore(
    model: Nnet | AcousticModel | Network,
    request: ComputationRequest | Mapping[str, Any] | None = None,
    *,
    title: str = "",
    profiled: bool = True,
) -> str:
    """Returns an HTML page of a network; the page needs no other files, and can be sent to others.

        Path("page.html").write_text(nnet3.explore.explore(nnet, request))

    With a request the page shows graph, steps, program after each pass, memory and, if `profiled`, the times of a run
    of random numbers. The request of a computational network is a batch, as `Network.backward` takes it; with criteria
    the program computes the gradients. Raises all errors of `nnet3.compile`.
    """
    check_kind(model, (Nnet, AcousticModel, Network), "what is looked at", "a network")
    kind = (Mapping, "a batch: inputs by name") if isinstance(model, Network) else (ComputationRequest, "a request")
    check_kind(request, (kind[0], type(None)), "the request of this network", kind[1])
    data: dict[str, Any] = {"title": title}
    if isinstance(model, Network):
        data |= _of_graph(model, cast("Mapping[str, Any] | None", request), profiled)
    else:
        nnet = network_of(model)
        data |= _of_nnet(nnet, cast("ComputationRequest | None", request), profiled)
    return page(f"{title or 'Network'} - nnet3", data, SCRIPTS)


def _of_nnet(nnet: Nnet, request: ComputationRequest | None, profiled: bool) -> dict[str, Any]:
    data: dict[str, Any] = {"network": network_data(nnet)}
    if request is None:
        return data
    program, computation = program_data(request.task(nnet))
    if profiled:
        used = nnet.copy()  # a run stores statistics
        to_update = used.gradient_copy() if computation.need_model_derivative else None
        computer = NnetComputer(computation, used, to_update, check_finite=False)
        data["profile"] = profile_data(profile(computer))
    return data | program


def _of_graph(network: Network, batch: Mapping[str, Any] | None, profiled: bool) -> dict[str, Any]:
    data: dict[str, Any] = {"network": cn_data(network)}
    if batch is None:
        return data
    task = network.task(batch)
    if isinstance(task, InStages):
        raise NetworkError(
            "this network is computed by several programs, one for each stage, and a page shows one: "
            "network.program(...) shows them all; without a batch the page shows the graph"
        )
    if profiled:
        data["profile"] = profile_data(network.copy().profile(batch))
    program, _ = program_data(task)
    return data | program
