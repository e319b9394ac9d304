"""A whole network evaluated one row at a time, recursively, in float64: an oracle for compiler and computer."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch

import nnet3
from nnet3.model.structure.nodes import ComponentNode
from tests.slow_descriptor import Cindex, Values, value
from tests.slow_graph import SlowGraph


class SlowNetwork:
    """`nnet` must be float64. Components must treat each row alone, but for those that want several input rows."""

    def __init__(
        self, nnet: nnet3.Nnet, graph: SlowGraph, inputs: Mapping[str, np.ndarray], request: nnet3.ComputationRequest
    ):
        self.nnet, self.graph = nnet, graph
        self.rows: dict[Cindex, np.ndarray] = {}
        for io in request.inputs:
            for index, row in zip(io.indexes.tolist(), inputs[io.name], strict=True):
                self.rows[io.name, tuple(index)] = row

    def output(self, io: nnet3.IoSpecification) -> np.ndarray:
        return np.stack([self.row((io.name, tuple(index))) for index in io.indexes.tolist()])

    def row(self, cindex: Cindex) -> np.ndarray:
        if cindex not in self.rows:
            self.rows[cindex] = self._compute(cindex)
        return self.rows[cindex]

    def _compute(self, cindex: Cindex) -> np.ndarray:
        name, index = cindex
        net = self.graph.net
        expression = net.inputs_of.get(name.removesuffix("_input") if name not in net.nodes else name)
        if name not in net.nodes or net.nodes[name].first_token == "output-node":
            assert expression is not None
            result = value(expression, index, Values(self.graph.computable.__contains__, self.row, self.nnet.node_dim))
            assert result is not None
            return result
        line = net.nodes[name]
        if line.first_token == "dim-range-node":
            first = line.integer("dim-offset")
            return self.row((line.string("input-node"), index))[first : first + line.integer("dim")]
        return self._component(cindex)

    def _component(self, cindex: Cindex) -> np.ndarray:
        name, index = cindex
        node = self.nnet.node(name)
        assert isinstance(node, ComponentNode)
        component = self.nnet.component_of(node)
        line = self.graph.net.component_line(name)
        kind = line.string("type").removesuffix("Component")
        wanted = [(f"{name}_input", source) for source in self.graph.net.component_wants(name, index)[0]]
        inputs = [self.row(source) for source in wanted if source in self.graph.computable]
        parameters = {key: tensor.numpy() for key, tensor in component.parameters().items()}
        if kind == "Tdnn":
            return parameters["linear_params"] @ np.concatenate(inputs) + parameters["bias_params"]
        if kind == "Distribute":
            blocks = inputs[0].reshape(-1, component.output_dim)
            return blocks[index[2] % len(blocks)]
        if kind == "StatisticsExtraction":
            sums = [np.sum(inputs, axis=0)]
            squares = [np.sum(np.square(inputs), axis=0)] if line.boolean("include-variance", True) else []
            return np.concatenate([[len(inputs)], *sums, *squares])
        if kind == "StatisticsPooling":
            total = np.sum(inputs, axis=0)
            counts = [np.log(total[0])] * line.integer("num-log-count-features", 0)
            return np.concatenate([counts, total[1:] / total[0]])
        return component.propagate(torch.from_numpy(inputs[0][np.newaxis]))[0].numpy()[0]
