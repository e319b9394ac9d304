"""Kaldi's looped computation with dictionaries, one cindex at a time, in float64: an oracle for streams.

Written from the rules alone: which rows each chunk gives and asks for, how ivectors are read, and that a value is fixed
when it is first computed. Only the arithmetic of components is that of the package.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import numpy as np
import torch

import nnet3
from nnet3.components import Component, Properties
from nnet3.model.edits import prepare_for_test
from nnet3.model.structure.nodes import ComponentNode
from nnet3.options import CollapseOptions
from tests.slow_descriptor import Cindex, Index
from tests.slow_graph import SlowGraph, SlowNet
from tests.slow_network import SlowNetwork

_SETTINGS = {
    "TdnnComponent": ("time_offsets",),
    "DistributeComponent": ("input_dim", "output_dim"),
    "StatisticsExtractionComponent": ("input_period", "output_period", "include_variance"),
    "StatisticsPoolingComponent": ("input_period", "left_context", "right_context", "num_log_count_features"),
    "TimeHeightConvolutionComponent": ("time_offsets", "required_time_offsets"),
    "RestrictedAttentionComponent": ("time_stride", "num_left", "num_right", "num_left_required", "num_right_required"),
}


class StreamNet(SlowNet):
    """A `SlowNet` that also knows the types that look at times which need not be there."""

    @classmethod
    def of(cls, nnet: nnet3.Nnet, chunk: int) -> StreamNet:
        """The network, reading one ivector, if any, for each chunk of so many frames."""
        lines = list(nnet.config_lines())
        if "ivector" in nnet.input_names:
            lines = [_reading_ivectors(line, chunk) for line in lines]
        return cls.from_config("\n".join([*lines, *map(_component_line, nnet.components, nnet.components.values())]))

    def _optional(self, node: str, index: Index) -> tuple[list[Index], list[Index]] | None:
        """All indexes that such a component looks at, and those that must be there; None for other types."""
        line = self.component_line(node)
        n, t, x = index
        if line.string("type") == "TimeHeightConvolutionComponent":
            wanted, required = line.integers("time-offsets"), line.integers("required-time-offsets")
        elif line.string("type") == "RestrictedAttentionComponent":
            stride = line.integer("time-stride")
            wanted, required = (
                [stride * k for k in range(-line.integer(f"num-left{end}"), line.integer(f"num-right{end}") + 1)]
                for end in ("", "-required")
            )
        else:
            return None
        return [(n, t + k, x) for k in wanted], [(n, t + k, x) for k in required]

    def component_wants(self, node: str, index: Index) -> tuple[list[Index], bool]:
        optional = self._optional(node, index)
        return super().component_wants(node, index) if optional is None else (optional[0], False)

    def used(self, cindex: Cindex, available: set[Cindex]) -> set[Cindex] | None:
        name, index = cindex
        if name in self.nodes and self.nodes[name].first_token == "component-node":
            optional = self._optional(name, index)
            if optional is not None and not {(f"{name}_input", each) for each in optional[1]} <= available:
                return None
        return super().used(cindex, available)


def _reading_ivectors(line: str, chunk: int) -> str:
    """The line of a component node with its first `ReplaceIndex(X, t, 0)` replaced by `Round(X, chunk)`."""
    before, found, after = line.partition("ReplaceIndex(")
    if not line.startswith("component-node") or not found:
        return line
    inside, _, rest = after.partition(", t, 0)")
    return f"{before}Round({inside}, {chunk}){rest}"


def _component_line(name: str, component: Component) -> str:
    settings = []
    for key in _SETTINGS.get(component.type_name, ()):
        holder = getattr(component, "model", getattr(component, "sizes", component))
        value = getattr(holder, key)
        text = ",".join(map(str, value)) if isinstance(value, Iterable) else str(value).lower()
        settings.append(f"{key.replace('_', '-')}={text}")
    return f"component name={name} type={component.type_name} {' '.join(settings)}"


class _Rows(SlowNetwork):
    def _component(self, cindex: Cindex) -> np.ndarray:
        """A component is given the rows that it uses, in the order that it wants."""
        name, index = cindex
        node = self.nnet.node(name)
        assert isinstance(node, ComponentNode)
        component = self.nnet.component_of(node)
        given = {
            source: self.row((f"{name}_input", source))
            for source in self.graph.net.component_wants(name, index)[0]
            if (f"{name}_input", source) in self.graph.computable
        }
        inputs, outputs = np.array(list(given), np.int32), np.array([index], np.int32)
        if component.properties & Properties.REORDERS_INDEXES:
            inputs, outputs = component.reorder_indexes(inputs, outputs)
        x = torch.zeros(len(inputs), component.input_dim, dtype=torch.float64)
        for row, source in enumerate(map(tuple, inputs.tolist())):
            if source in given:
                x[row] = torch.from_numpy(given[source])
        y = torch.zeros(len(outputs), component.output_dim, dtype=torch.float64)
        arrays = component.precompute_indexes(inputs, outputs, need_backprop=False) if component.needs_indexes else None
        component.forward(x, y, None if arrays is None else component.load_indexes(arrays, "cpu"))
        return y[outputs.tolist().index(list(index))].numpy()


class SlowStream:
    """The looped computation of one stream; `chunk` goes on by a chunk."""

    def __init__(self, nnet: nnet3.Nnet, frames_per_chunk: int, factor: int = 1, extra_left: int = 0) -> None:
        self.nnet = nnet.copy().to(dtype=torch.float64)
        prepare_for_test(self.nnet, CollapseOptions(batchnorm=False))
        self.factor, self.left, self.right = factor, self.nnet.left_context + extra_left, self.nnet.right_context
        self.chunk_length = frames_per_chunk
        while self.chunk_length % self.nnet.modulus or self.chunk_length % factor:
            self.chunk_length += 1
        self.net = StreamNet.of(self.nnet, self.chunk_length)
        self.num_chunks = 0
        self.known: dict[Cindex, np.ndarray] = {}  # all inputs that were given, and all values computed so far

    def input_times(self) -> range:
        """Of the next chunk."""
        end = (self.num_chunks + 1) * self.chunk_length + self.right
        return range(end - self.chunk_length if self.num_chunks else -self.left, end)

    def chunk(self, frames: np.ndarray, ivector: np.ndarray | None = None) -> np.ndarray:
        """The outputs (chunk length / factor, dim) of the next chunk, given the rows of its new input times."""
        times = self.input_times()
        given = {("input", (0, t, 0)): row for t, row in zip(times, frames.astype(np.float64), strict=True)}
        if ivector is not None:
            rounded = {("ivector", (0, t // self.chunk_length * self.chunk_length, 0)) for t in times}
            given |= {cindex: ivector.astype(np.float64) for cindex in rounded - self.known.keys()}
        self.known = self.known | given
        start = self.num_chunks * self.chunk_length
        self.num_chunks += 1
        return self._evaluate([("output", (0, start + t, 0)) for t in range(0, self.chunk_length, self.factor)])

    def _evaluate(self, outputs: list[Cindex]) -> np.ndarray:
        request = nnet3.ComputationRequest(_ios(self.known), _ios(outputs))
        graph = SlowGraph(self.net, request)
        missing = [cindex for cindex in outputs if cindex not in graph.computable]
        assert not missing, f"not computable: {missing}"
        given = {io.name: np.stack([self.known[io.name, _index(row)] for row in io.indexes]) for io in request.inputs}
        network, used = _Rows(self.nnet, graph, given, request), graph.used()
        for cindex in _in_order(outputs, used):
            network.row(cindex)
        self.known = {cindex: network.rows[cindex] for cindex in used}
        return np.stack([self.known[cindex] for cindex in outputs])

    def utterance(self, features: np.ndarray, ivector: Callable[[int], np.ndarray] | None = None) -> np.ndarray:
        """The outputs (frames / factor, dim) of a whole utterance; `ivector` gives that of the frame after a chunk."""
        total, rows = -(-len(features) // self.factor), []
        for _ in range(-(-total * self.factor // self.chunk_length)):
            times = np.array(self.input_times())
            own = None if ivector is None else ivector(int(times[-1]) + 1)
            rows.append(self.chunk(features[times.clip(0, len(features) - 1)], own))
        return np.concatenate(rows)[:total]


def _ios(cindexes: Iterable[Cindex]) -> list[nnet3.IoSpecification]:
    tables: dict[str, list[Index]] = {}
    for name, index in cindexes:
        tables.setdefault(name, []).append(index)
    return [nnet3.IoSpecification(name, table) for name, table in tables.items()]


def _index(row: np.ndarray) -> Index:
    n, t, x = row.tolist()
    return n, t, x


def _in_order(outputs: list[Cindex], used: Mapping[Cindex, set[Cindex]]) -> list[Cindex]:
    """All that outputs use, each after what it uses itself: recurrences are too deep to be followed by recursion."""
    order: dict[Cindex, None] = {}
    stack = list(outputs)
    while stack:
        waiting = [source for source in used[stack[-1]] if source not in order]
        if waiting and stack[-1] not in order:
            stack += waiting
        else:
            order.setdefault(stack.pop())
    return list(order)
