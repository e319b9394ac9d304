"""export_network: a computational network as an ONNX file."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from nnet3.cn.network import Network
from nnet3.cn.node import Node
from nnet3.cn.onnx import (
    emitters as emitters,  # so that all types are registered
    whole_emitters as whole_emitters,
)
from nnet3.cn.onnx.agreement import check_values, random_inputs
from nnet3.cn.onnx.asked import Asked
from nnet3.cn.onnx.build_network import build_network
from nnet3.cn.onnx.metadata import NetworkMetadata, network_digest
from nnet3.cn.onnx.registry import check_can_be_exported
from nnet3.errors import ExportError, check_kind
from nnet3.export.agreement import checked_session
from nnet3.export.saving import checked_target, save_checked
from nnet3.options import NetworkOnnxOptions

_BATCHES = (2, 1)


def export_network(
    network: Network,
    path: str | os.PathLike[str],
    nodes: Node | str | Sequence[Node | str],
    options: Mapping[str, Any],
) -> NetworkMetadata:
    """Write values of a network as an ONNX file; see `Network.export_onnx`."""
    settings = NetworkOnnxOptions.named(**options)
    asked = Asked(network, _outputs(network, nodes))
    target = checked_target(path)
    network._check_statistics(asked.nodes)
    check_can_be_exported(asked.nodes, network.names)
    if settings.frames and not asked.sequences:
        raise ExportError("frames are those of inputs with samples, of which the outputs need none: leave frames out")
    if settings.frames and asked.is_staged:
        raise ExportError("a network of several stages has any number of frames on each axis: leave frames out")
    for node in asked.inputs:
        if network.names[node] in asked.outputs:
            name = network.names[node]
            raise ExportError(f"an input and an output are both called '{name}': ONNX files need different names")
    about = NetworkMetadata(
        version=version("nnet3"),
        digest=network_digest(network),
        opset=settings.opset,
        frames=settings.frames,
        may_be_padded=asked.may_be_padded,
        states={network.names[node]: lag for node, lag in asked.states.items()},
    )
    model, lengths = build_network(asked, about)
    copy = network.copy()

    def checked(file: Path) -> Path:
        session = checked_session(file)
        random = np.random.default_rng(0)
        for frames in lengths:
            for batch in _BATCHES:
                check_values(session, asked, copy, random_inputs(asked, random, batch, frames))
        return file

    save_checked(model, target, checked)
    return about


def _outputs(network: Network, nodes: Node | str | Sequence[Node | str]) -> dict[str, Node]:
    """Returns the nodes wanted, by name: by default the outputs, or else the criteria."""
    check_kind(nodes, (Node, str, Sequence), "what is exported", "a node, a name, or a list of these")
    nodes = [nodes] if isinstance(nodes, Node | str) else nodes
    if not nodes:
        return dict(network.outputs) or {network.names[node]: node for node in network.criteria}
    found = [network.find(node) for node in nodes]
    names = [node if isinstance(node, str) else network.names[node] for node in nodes]
    return dict(zip(names, found, strict=True))
