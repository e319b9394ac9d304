"""Compares a file of a network in stock onnxruntime with the network itself on random inputs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnxruntime

from nnet3.cn.network import Network
from nnet3.cn.node import Node
from nnet3.cn.onnx.asked import Asked
from nnet3.cn.samples import Sequences
from nnet3.cn.shape import SEQUENCES
from nnet3.errors import ExportError
from nnet3.export.agreement import TOLERANCE, difference


def random_inputs(asked: Asked, random: np.random.Generator, batch: int, frames: int) -> dict[Node, np.ndarray]:
    """Returns inputs as a file takes them: positive ones for one sequence, because some functions need these."""
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
    """Returns the `difference` of finite numbers; infinity if others do not stand at the same places."""
    if found.shape == expected.shape:
        known = np.isfinite(expected)
        if not np.array_equal(np.isfinite(found), known):
            return np.inf
        found, expected = (np.where(known, values, 0.0) for values in (found, expected))
    return difference(name, found, expected)
