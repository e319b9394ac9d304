"""export_network: a computational network as an ONNX file."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime

from nnet3.cn.network import Network
from nnet3.cn.node import Node
from nnet3.cn.onnx import emitters as emitters  # so that all types are registered
from nnet3.cn.onnx.asked import Asked
from nnet3.cn.onnx.build_network import build_network
from nnet3.cn.onnx.metadata import NetworkMetadata
from nnet3.cn.onnx.registry import check_can_be_exported
from nnet3.cn.samples import Sequences
from nnet3.cn.shape import SEQUENCES
from nnet3.cn.text_form import to_text
from nnet3.errors import ExportError, check_kind
from nnet3.export.agreement import TOLERANCE, checked_session, difference
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


def _digest(network: Network) -> str:
    """Returns the SHA-256 of the graph and its numbers."""
    digest = hashlib.sha256(to_text(network).encode())
    for node in network.stored:
        digest.update(node.memory.detach().cpu().numpy().tobytes())
    return digest.hexdigest()


def _outputs(network: Network, nodes: Node | str | Sequence[Node | str]) -> dict[str, Node]:
    """Returns the nodes wanted, by name: by default the outputs, or else the criteria."""
    check_kind(nodes, (Node, str, Sequence), "what is exported", "a node, a name, or a list of these")
    nodes = [nodes] if isinstance(nodes, Node | str) else nodes
    if not nodes:
        return dict(network.outputs) or {network.names[node]: node for node in network.criteria}
    found = [network.find(node) for node in nodes]
    names = [node if isinstance(node, str) else network.names[node] for node in nodes]
    return dict(zip(names, found, strict=True))


def random_inputs(asked: Asked, random: np.random.Generator, batch: int, frames: int) -> dict[Node, np.ndarray]:
    """Returns inputs in a file's form; one sequence has positive numbers, for functions of positive numbers alone."""
    shapes = {node: (node.shape.rows, node.shape.num_cols or 1) for node in asked.inputs}
    for node in asked.inputs:
        if node.shape.axis == SEQUENCES:
            shapes[node] = (batch, node.shape.rows)
        elif node.shape.has_samples:  # other axes have other lengths
            number = abs(asked.states.get(node, frames + len(node.shape.axis)))
            shapes[node] = (batch, number, node.shape.rows)  # type: ignore[assignment]
    draw = random.standard_normal if batch > 1 else random.random
    classes = {node: node.operation.options().get("classes") for node in shapes}
    found = {
        node: draw(shape) if classes[node] is None else random.integers(0, classes[node], shape)
        for node, shape in shapes.items()
    }
    return {node: array.astype(np.float32) for node, array in found.items()}


def check_values(
    session: onnxruntime.InferenceSession, asked: Asked, network: Network, given: Mapping[Node, np.ndarray]
) -> None:
    """Raise ExportError unless a file gives what the network gives."""
    names = asked.network.names
    found = session.run(list(asked.outputs), {names[node]: array for node, array in given.items()})
    inputs = {names[node]: _as_given(network, node, array) for node, array in given.items()}
    expected = network.evaluate([network._nodes.find(names[node]) for node in asked.outputs.values()], inputs)
    for (name, node), ours, theirs in zip(asked.outputs.items(), found, expected, strict=True):
        if node.shape.axis == SEQUENCES:
            wanted = network.turned(theirs).T
        elif node.shape.has_samples:
            wanted = np.stack([part.T for part in network.turned(theirs)])
        else:
            wanted = np.atleast_2d(theirs)
        error = _difference(name, ours, wanted)
        if not error <= TOLERANCE:
            raise ExportError(f"onnxruntime and nnet3 do not agree on output '{name}': the difference is {error:.2g}")


def _as_given(network: Network, node: Node, array: np.ndarray) -> Any:
    """Returns an array of a file's input as `evaluate` takes it."""
    if node.shape.axis == SEQUENCES:
        return network.turned(array.T)
    return Sequences(list(array.transpose(0, 2, 1))) if node.shape.has_samples else array


def _difference(name: str, found: np.ndarray, expected: np.ndarray) -> float:
    """Returns the `difference` of finite numbers; infinity if non-finite ones stand at different places."""
    if found.shape == expected.shape:
        known = np.isfinite(expected)
        if not np.array_equal(np.isfinite(found), known):
            return np.inf
        found, expected = (np.where(known, values, 0.0) for values in (found, expected))
    return difference(name, found, expected)
