"""The computation graph with dictionaries, one cindex at a time: the least fixed point of config.md, section 9."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import nnet3
from nnet3.base.text import ConfigLine, read_config_lines
from nnet3.model.structure.expression import Expression, parse_expression
from tests.slow_descriptor import Cindex, Index, used, wanted

if TYPE_CHECKING:
    from typing_extensions import Self

WINDOW = 30  # frames (and x) beyond the request beyond which nothing is looked at


@dataclass
class SlowNet:
    """The config lines of a network by name."""

    nodes: dict[str, ConfigLine]
    components: dict[str, ConfigLine]
    inputs_of: dict[str, Expression]  # of component nodes and output nodes

    @classmethod
    def from_config(cls, text: str) -> Self:
        lines = read_config_lines(text)
        nodes = {line.string("name"): line for line in lines if line.first_token != "component"}
        components = {line.string("name"): line for line in lines if line.first_token == "component"}
        expressions = {
            name: parse_expression(line.values["input"].span) for name, line in nodes.items() if line.has("input")
        }
        return cls(nodes, components, expressions)

    def component_line(self, node: str) -> ConfigLine:
        return self.components[self.nodes[node].string("component")]

    def component_wants(self, node: str, index: Index) -> tuple[list[Index], bool]:
        """Input indexes of a component node, and whether it needs all of them (else: one at least)."""
        line = self.component_line(node)
        n, t, x = index
        kind = line.string("type").removesuffix("Component")
        if kind == "Tdnn":
            return [(n, t + offset, x) for offset in line.integers("time-offsets")], True
        if kind == "Distribute":
            return [(n, t, x // (line.integer("input-dim") // line.integer("output-dim")))], True
        if kind == "StatisticsExtraction":
            period = line.integer("output-period")
            block = t // period * period
            return [(n, block + k, x) for k in range(0, period, line.integer("input-period"))], False
        if kind == "StatisticsPooling":
            period = line.integer("input-period")
            left, right = line.integer("left-context"), line.integer("right-context")
            return [(n, t + k, x) for k in range(-left, right + 1, period)], False
        return [index], True

    def wanted(self, cindex: Cindex) -> set[Cindex]:
        name, index = cindex
        hidden = name.removesuffix("_input")
        if name not in self.nodes and hidden in self.nodes:
            return wanted(self.inputs_of[hidden], index)
        line = self.nodes[name]
        if line.first_token == "output-node":
            return wanted(self.inputs_of[name], index)
        if line.first_token == "dim-range-node":
            return {(line.string("input-node"), index)}
        if line.first_token == "component-node":
            return {(f"{name}_input", source) for source in self.component_wants(name, index)[0]}
        return set()

    def used(self, cindex: Cindex, available: set[Cindex]) -> set[Cindex] | None:
        """What a cindex uses of the available ones; None if it is not computable from them."""
        name, index = cindex
        hidden = name.removesuffix("_input")
        if name not in self.nodes and hidden in self.nodes:
            return used(self.inputs_of[hidden], index, available.__contains__)
        line = self.nodes[name]
        if line.first_token == "output-node":
            return used(self.inputs_of[name], index, available.__contains__)
        if line.first_token == "input-node":
            return None
        wants = self.wanted(cindex)
        found = wants & available
        if line.first_token == "component-node":
            component = self.component_line(name)
            needs_all = self.component_wants(name, index)[1]
            if component.string("type") == "StatisticsPoolingComponent" and index[1] % component.integer(
                "input-period"
            ):
                return None
            return found if found == wants or (found and not needs_all) else None
        return found if found == wants else None


class SlowGraph:
    """Which cindexes are computable, and what is used of what, by repeated evaluation of everything."""

    def __init__(self, net: SlowNet, request: nnet3.ComputationRequest):
        self.net = net
        self.provided = {(io.name, tuple(row)) for io in request.inputs for row in io.indexes.tolist()}
        self.requested = [(io.name, tuple(row)) for io in request.outputs for row in io.indexes.tolist()]
        rows = [row for io in (*request.inputs, *request.outputs) for row in io.indexes.tolist()]
        times, xs = [row[1] for row in rows], [row[2] for row in rows]
        self.window = (min(times) - WINDOW, max(times) + WINDOW), (min(xs) - WINDOW, max(xs) + WINDOW)
        self.wanted = self._explore()
        self.computable = self._fixed_point()

    def _inside(self, cindex: Cindex) -> bool:
        (low, high), (x_low, x_high) = self.window
        return low <= cindex[1][1] <= high and x_low <= cindex[1][2] <= x_high

    def _explore(self) -> dict[Cindex, set[Cindex]]:
        """Everything that the outputs may want. It does not go on from what lacks an input whatever else there is."""
        wanted: dict[Cindex, set[Cindex]] = {}
        queue = list(self.requested)
        while queue:
            cindex = queue.pop()
            if cindex in wanted or cindex in self.provided:
                continue
            sources = self.net.wanted(cindex)
            hopeful = {s for s in sources if s in self.provided or (self._inside(s) and not self._is_input(s))}
            if self.net.used(cindex, hopeful) is None:
                sources = set()
            wanted[cindex] = sources
            queue += sources
        return wanted

    def _is_input(self, cindex: Cindex) -> bool:
        return cindex[0] in self.net.nodes and self.net.nodes[cindex[0]].first_token == "input-node"

    def _fixed_point(self) -> set[Cindex]:
        computable = set(self.provided)
        users: dict[Cindex, list[Cindex]] = {}
        for cindex, sources in self.wanted.items():
            for source in sources:
                users.setdefault(source, []).append(cindex)
        queue = list(self.wanted)
        while queue:
            cindex = queue.pop()
            if cindex not in computable and self.net.used(cindex, computable) is not None:
                computable.add(cindex)
                queue += users.get(cindex, [])
        return computable

    def used(self) -> dict[Cindex, set[Cindex]]:
        """What the computable outputs use, transitively, and all that is provided: each with what it uses itself."""
        kept: dict[Cindex, set[Cindex]] = {cindex: set() for cindex in self.provided}
        queue = [cindex for cindex in self.requested if cindex in self.computable]
        while queue:
            cindex = queue.pop()
            if cindex not in kept:
                sources = self.net.used(cindex, self.computable)
                assert sources is not None
                kept[cindex] = sources
                queue += sources
        return kept
