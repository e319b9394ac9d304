"""export_network: a computational network as an ONNX file."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Mapping, Sequence
from importlib.metadata import version
from typing import Any

from nnet3.base.options.onnx import NetworkOnnxOptions
from nnet3.cn.network import Network
from nnet3.cn.node import Node
from nnet3.cn.nodes.component import ComponentOperation
from nnet3.cn.onnx import emitters as emitters  # so that all types are registered
from nnet3.cn.onnx.asked import Asked
from nnet3.cn.onnx.network_file import NetworkFile
from nnet3.cn.text_form import to_text
from nnet3.errors import ExportError, check_kind
from nnet3.export.emitter_table import EMITTERS
from nnet3.export.metadata import NetworkMetadata
from nnet3.export.write_onnx import checked_target, write_onnx


def export_network(
    network: Network,
    path: str | os.PathLike[str],
    nodes: Node | str | Sequence[Node | str],
    options: Mapping[str, Any],
) -> NetworkMetadata:
    """Writes values of a network as an ONNX file; see `Network.export_onnx`."""
    settings = NetworkOnnxOptions.named(**options)
    asked = Asked(network, _outputs(network, nodes))
    target = checked_target(path)
    network._check_statistics(asked.nodes)
    _check_can_be_exported(asked.nodes, network.names)
    if settings.frames and not asked.sequences:
        raise ExportError("frames are those of inputs with samples, of which the outputs need none: leave frames out")
    if settings.frames and asked.is_staged:
        raise ExportError(
            "frames are of networks without nodes of whole sequences; with such a node each axis has any number of "
            "frames: leave frames out, or export what comes before the node alone"
        )
    for node in asked.inputs:
        if network.names[node] in asked.outputs:
            name = network.names[node]
            raise ExportError(f"an input and an output are both called '{name}': ONNX files need different names")
    about = NetworkMetadata(
        version=version("nnet3"),
        digest=_digest(network),
        opset=settings.opset,
        frames=settings.frames,
        may_be_padded=asked.may_be_padded,
        states={network.names[node]: lag for node, lag in asked.states.items()},
    )
    return write_onnx(NetworkFile(asked, network.copy(), about), target)


def _digest(network: Network) -> str:
    """Returns the SHA-256 of the graph and its numbers."""
    digest = hashlib.sha256(to_text(network).encode())
    for node in network.stored:
        digest.update(node.memory.detach().cpu().numpy().tobytes())
    return digest.hexdigest()


def _check_can_be_exported(nodes: Iterable[Node], names: Mapping[Node, str]) -> None:
    """Raises ExportError, with the node's name, for a node without a form in ONNX."""
    for node in nodes:
        if isinstance(node.operation, ComponentOperation):
            reason = node.operation.component.inference_only
            if reason:
                raise ExportError(f"node '{names[node]}' cannot be exported: {reason}")
        elif node.is_evaluated and not node.lag and node.type not in EMITTERS:
            raise ExportError(
                f"node '{names[node]}' cannot be exported: nobody has said what {node.type} is in ONNX\n  {node.place}"
            )


def _outputs(network: Network, nodes: Node | str | Sequence[Node | str]) -> dict[str, Node]:
    """Returns the nodes wanted, by name: by default the outputs, or else the criteria."""
    check_kind(nodes, (Node, str, Sequence), "what is exported", "a node, a name, or a list of these")
    nodes = [nodes] if isinstance(nodes, Node | str) else nodes
    if not nodes:
        return dict(network.outputs) or {network.names[node]: node for node in network.criteria}
    found = [network.find(node) for node in nodes]
    names = [node if isinstance(node, str) else network.names[node] for node in nodes]
    return dict(zip(names, found, strict=True))
