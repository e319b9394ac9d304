"""Random networks of every kind with requests that fit them: a function of a seed.

`random_network(seed)` makes config text and a ComputationRequest. Not all requested outputs need be computable;
`computable_request` keeps those that are. With `smooth=True` no component has a kink or cuts gradients, so that finite
differences hold. Each row of a component's output is a function of the rows it wants, not of
what else is in the minibatch, unless layers of `ALL_LAYERS` are asked for.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from hypothesis import strategies as st

import nnet3
from nnet3.engine.lowering.build_graph import computable_outputs
from nnet3.model.requests import lowering_request, nnet_source
from tests.random_layers import MORE_LAYERS, RecipeLayers
from tests.seeds import shifted

LAYERS = (
    "affine",
    "tdnn",
    "shared",
    "dim_range",
    "product",
    "rnn",
    "deep_rnn",
    "nested_rnn",
    "failover_rnn",
    "clockwork",
    "lstm",
    "statistics",
    "distribute",
)
ALL_LAYERS = (*LAYERS, *MORE_LAYERS)  # not row by row


@dataclass(frozen=True)
class RandomNetwork:
    seed: int
    config: str
    request: nnet3.ComputationRequest

    def nnet(self) -> nnet3.Nnet:
        return nnet3.Nnet.from_config(self.config, seed=self.seed)

    def __repr__(self) -> str:
        return f"seed {self.seed}\n{self.config}\n{self.request}"


def random_network(seed: int, *, smooth: bool = False, layers: Sequence[str] = LAYERS) -> RandomNetwork:
    """Config and request number `seed`."""
    rng = random.Random(shifted(seed))
    return RandomNetwork(seed, *_Builder(rng, smooth).build(layers))


def networks(*, smooth: bool = False) -> st.SearchStrategy[RandomNetwork]:
    return st.integers(0, 10**6).map(lambda seed: random_network(seed, smooth=smooth))


def computable_request(nnet: nnet3.Nnet, request: nnet3.ComputationRequest) -> nnet3.ComputationRequest | None:
    """The request with the outputs that can be computed; None if there are none."""
    computable = computable_outputs(nnet_source(nnet), lowering_request(nnet, request))
    outputs = [
        nnet3.IoSpecification(io.name, io.indexes[rows], io.has_deriv)
        for io, rows in zip(request.outputs, computable, strict=True)
        if rows.any()
    ]
    if not outputs:
        return None
    backward = any(io.has_deriv for io in outputs)
    return nnet3.ComputationRequest(
        [nnet3.IoSpecification(io.name, io.indexes, io.has_deriv and backward) for io in request.inputs],
        outputs,
        request.need_model_derivative and backward,
        request.store_component_stats,
    )


class _Builder(RecipeLayers):
    def __init__(self, rng: random.Random, smooth: bool):
        self.rng, self.smooth = rng, smooth
        self.use_x = rng.random() < 0.3
        self.width = rng.choice([2, 3])
        self.dims: dict[str, int] = {}  # of the nodes that descriptors may refer to
        self.scales: dict[str, float] = {}
        self.lines: list[str] = []
        self.given: list[str] = []  # nodes whose values a request may provide
        self.count = 0

    def build(self, layers: Sequence[str]) -> tuple[str, nnet3.ComputationRequest]:
        for number in range(self.rng.choice([1, 1, 2, 3])):
            name = f"input{number or ''}"
            self.dims[name] = self.width if number == 0 else self.rng.choice([self.width, 2 * self.width])
            self.lines.append(f"input-node name={name} dim={self.dims[name]}")
        inputs = list(self.dims)
        for _ in range(self.rng.randint(1, 4)):
            getattr(self, f"_{self.rng.choice(layers)}")()
        outputs = [f"output{number or ''}" for number in range(self.rng.choice([1, 1, 2]))]
        newest = list(self.dims)[-1]
        for name in outputs:
            text = newest if self.rng.random() < 0.3 else self.descriptor()[0]
            self.lines.append(f"output-node name={name} input={text}")
        if self.rng.random() < 0.3:
            self.rng.shuffle(self.lines)  # references may go forward
        return "\n".join(self.lines), self._request(inputs, outputs)

    # ---- descriptors ----

    def descriptor(self) -> tuple[str, int]:
        """Text and dimension."""
        parts = [self.part(self.rng.choice(list(self.dims.values()))) for _ in range(self.rng.choice([1, 1, 2, 3]))]
        text = parts[0][0] if len(parts) == 1 else f"Append({', '.join(part for part, _ in parts)})"
        return text, sum(dim for _, dim in parts)

    def part(self, dim: int) -> tuple[str, int]:
        self.scales = {}
        text = self.sum(dim, 2)
        if self.rng.random() < 0.15:
            terms = [text, f"Const({self.rng.choice([0.5, -1.25, 100])}, {dim})"]
            self.rng.shuffle(terms)
            text = f"Sum({', '.join(terms)})"
        return text, dim

    def sum(self, dim: int, depth: int) -> str:
        kind = self.rng.random()
        if depth == 0 or kind < 0.6:
            return self.forward(dim, 2)
        if kind < 0.75:
            terms = [self.sum(dim, depth - 1) for _ in range(self.rng.choice([1, 2, 2, 3]))]
            return f"Sum({', '.join(terms)})"
        if kind < 0.87:
            return f"Failover({self.sum(dim, depth - 1)}, {self.sum(dim, depth - 1)})"
        return f"IfDefined({self.sum(dim, depth - 1)})"

    def forward(self, dim: int, depth: int) -> str:
        kind = self.rng.random()
        if depth == 0 or kind < 0.45:
            return self.reference(dim)
        inner = self.forward(dim, depth - 1)
        if kind < 0.75:
            x = f", {self.rng.choice([-1, 1])}" if self.use_x and self.rng.random() < 0.5 else ""
            return f"Offset({inner}, {self.rng.randint(-3, 3)}{x})"
        if kind < 0.77:
            period = self.rng.choice([2, 4])
            terms = [f"Round({each}, {period})" for each in (inner, self.forward(dim, 1), inner)]
            return f"Switch({', '.join(terms)})"
        if kind < 0.84:
            return f"Switch({', '.join([inner] + [self.forward(dim, 1) for _ in range(self.rng.randint(0, 2))])})"
        if kind < 0.93:
            return f"Round({inner}, {self.rng.randint(1, 4)})"
        if self.use_x and self.rng.random() < 0.4:
            return f"ReplaceIndex({inner}, x, {self.rng.choice([0, 0, 1])})"
        return f"ReplaceIndex({inner}, t, {self.rng.randint(0, 3)})"

    def reference(self, dim: int) -> str:
        names = [name for name, size in self.dims.items() if size == dim]
        name = self.rng.choice(names[-4:])
        scale = self.scales.setdefault(name, self.rng.choice([1, 1, 1, 1, 0.5, -2]))
        return name if scale == 1 else f"Scale({scale}, {name})"

    # ---- layers ----

    def _name(self, stem: str) -> str:
        self.count += 1
        return f"{stem}{self.count}"

    def _component(self, name: str, keys: str) -> str:
        self.lines.append(f"component name={name} type={keys}")
        return name

    def _node(self, name: str, component: str, text: str, dim: int) -> str:
        self.lines.append(f"component-node name={name} component={component} input={text}")
        self.dims[name] = dim
        self.given.append(name)
        return name

    def _affine_of(self, stem: str, text: str, dim: int, out: int | None = None) -> str:
        out = out or self.width
        kind = self.rng.choice(["NaturalGradientAffineComponent", "AffineComponent", "LinearComponent"])
        component = self._component(self._name("W"), f"{kind} input-dim={dim} output-dim={out}")
        return self._node(self._name(stem), component, text, out)

    def _nonlinear_of(self, source: str, name: str | None = None) -> str:
        dim = self.dims[source]
        kinds = ["Tanh", "Sigmoid", "LogSoftmax", "NoOp", "PerElementScale", "PerElementOffset"]
        kind = self.rng.choice(kinds if self.smooth else [*kinds, "RectifiedLinear"])
        name = name or self._name("h")
        return self._node(name, self._component(f"{name}.{kind}", f"{kind}Component dim={dim}"), source, dim)

    def _affine(self) -> None:
        self._nonlinear_of(self._affine_of("a", *self.descriptor()))

    def _tdnn(self) -> None:
        text, dim = self.descriptor()
        offsets = sorted(self.rng.sample([-2, -1, 0, 1, 2], self.rng.randint(1, 3)))
        keys = f"TdnnComponent input-dim={dim} output-dim={self.width} time-offsets={','.join(map(str, offsets))}"
        component = self._component(self._name("tdnn"), keys)
        self._nonlinear_of(self._node(self._name("d"), component, text, self.width))

    def _shared(self) -> None:
        """One component for several nodes."""
        text, dim = self.part(self.width)
        kinds = [f"AffineComponent input-dim={dim} output-dim={dim}", f"PerElementScaleComponent dim={dim}"]
        component = self._component(self._name("W"), self.rng.choice(kinds))
        for each in (text, self.part(self.width)[0], self.part(self.width)[0]):
            self._node(self._name("s"), component, each, self.width)

    def _dim_range(self) -> None:
        source = self._affine_of("wide", *self.descriptor(), 2 * self.width)
        for _ in range(self.rng.randint(1, 3)):
            name, offset = self._name("r"), self.rng.randint(0, self.width)
            self.lines.append(f"dim-range-node name={name} input-node={source} dim={self.width} dim-offset={offset}")
            self.dims[name] = self.width

    def _product_of(self, first: str, second: str) -> str:
        keys = f"ElementwiseProductComponent input-dim={2 * self.width} output-dim={self.width}"
        name = self._name("p")
        return self._node(name, self._component(f"{name}.product", keys), f"Append({first}, {second})", self.width)

    def _product(self) -> None:
        self._product_of(self.part(self.width)[0], self.part(self.width)[0])

    def _delayed(self, name: str, delays: Sequence[int]) -> str:
        """An optional look back (or, with negative delays, ahead) at a node of a recurrence."""
        delay = self.rng.choice(delays)
        x = ", -1" if self.use_x and self.rng.random() < 0.15 else ""
        return f"IfDefined(Offset({name}, {-delay}{x}))"

    def _delays(self) -> list[int]:
        return self.rng.choice([[1], [1, 2], [3], [-1], [-2, -1]])

    def _anchored(self) -> str:
        """A part that only a given input makes computable, so that a recurrence on it ends."""
        return self.rng.choice(["input", "input", "Offset(input, 1)", "Offset(input, -1)"])

    def _recurrent(self, loop: str, *others: str) -> None:
        """tanh of an affine function of the input and of `others`; its value is node `loop`."""
        text = f"Append({', '.join([self._anchored(), *others])})"
        source = self._affine_of("a", text, self.width * (1 + len(others)))
        self._node(loop, self._component(f"{loop}.tanh", f"TanhComponent dim={self.width}"), source, self.width)

    def _rnn(self) -> None:
        loop, delays = self._name("rnn"), self._delays()
        self._recurrent(loop, *(self._delayed(loop, delays) for _ in range(self.rng.randint(1, 2))))

    def _deep_rnn(self) -> None:
        """Three nodes round the loop, one delay."""
        loop = self._name("deep")
        source = self._affine_of(
            "a", f"Append({self._anchored()}, {self._delayed(loop, self._delays())})", 2 * self.width
        )
        self._nonlinear_of(self._affine_of("b", self._nonlinear_of(source), self.width), loop)

    def _nested_rnn(self) -> None:
        """Two loops that share a node."""
        outer, inner, delays = self._name("outer"), self._name("inner"), self._delays()
        self._recurrent(inner, self._delayed(inner, delays), self._delayed(outer, delays))
        self._recurrent(outer, inner, self._delayed(outer, delays))

    def _failover_rnn(self) -> None:
        loop = self._name("failover")
        start = self.rng.choice(["Const(0.5, {0})", "Scale(0.5, input)", "ReplaceIndex(input, t, 0)"])
        if start.startswith("Const"):
            text = f"Sum({self._anchored()}, IfDefined(Offset({loop}, -1)), {start.format(self.width)})"
        else:
            text = f"Append({self._anchored()}, Failover(Offset({loop}, {self.rng.choice([-1, -2, 1])}), {start}))"
        source = self._affine_of("a", text, self.width * (2 if text.startswith("Append") else 1))
        self._nonlinear_of(source, loop)

    def _clockwork(self) -> None:
        loop = self._name("clock")
        back = self.rng.choice(
            [
                f"Switch(Offset({loop}, -1), Offset({loop}, -2))",
                f"Round(Offset({loop}, -2), 2)",
                f"Offset(Round({loop}, 3), -3)",
                f"Switch(Offset({loop}, -2), Offset({loop}, -1), Offset(Round({loop}, 2), -2))",
            ]
        )
        self._recurrent(loop, f"IfDefined({back})")
        if self.rng.random() < 0.5:
            name = self._name("slow")
            self._node(name, self._component(f"{name}.noop", f"NoOpComponent dim={self.width}"), f"Round({loop}, 3)",
                       self.width)  # fmt: skip

    def _lstm(self) -> None:
        """Gates, cell and output from elementary components; the output looks at the cell of the same time."""
        loop, cell, delays = self._name("m"), self._name("c"), self._delays()[:1]
        past, gates = self._delayed(loop, delays), {}
        for gate, kind in (("i", "Sigmoid"), ("f", "Sigmoid"), ("o", "Sigmoid"), ("g", "Tanh")):
            source = self._affine_of(gate, f"Append({self._anchored()}, {past})", 2 * self.width)
            name = self._name(f"{gate}_gate")
            component = self._component(f"{name}.component", f"{kind}Component dim={self.width}")
            gates[gate] = self._node(name, component, source, self.width)
        kept = self._product_of(gates["f"], self._delayed(cell, delays))
        new = self._product_of(gates["i"], gates["g"])
        self._node(cell, self._component(f"{cell}.noop", f"NoOpComponent dim={self.width}"), f"Sum({kept}, {new})",
                   self.width)  # fmt: skip
        squashed = self._name("squashed")
        self._node(squashed, self._component(f"{squashed}.tanh", f"TanhComponent dim={self.width}"), cell, self.width)
        keys = f"ElementwiseProductComponent input-dim={2 * self.width} output-dim={self.width}"
        self._node(loop, self._component(f"{loop}.product", keys), f"Append({gates['o']}, {squashed})", self.width)

    def _statistics(self) -> None:
        text, dim = self.part(self.width)
        period = self.rng.choice([1, 2, 4])
        variance = self.rng.random() < 0.5
        size = 1 + dim * (2 if variance else 1)
        extraction, pooling = self._name("stats"), self._name("pool")
        keys = f"input-dim={dim} input-period=1 output-period={period} include-variance={str(variance).lower()}"
        component = self._component(f"{extraction}.extract", f"StatisticsExtractionComponent {keys}")
        self._node(extraction, component, text, size)
        counts = self.rng.choice([0, 1])
        context = f"left-context={period * self.rng.randint(1, 2)} right-context={period * self.rng.randint(0, 1)}"
        keys = f"input-dim={size} input-period={period} {context} num-log-count-features={counts}"
        component = self._component(f"{pooling}.pool", f"StatisticsPoolingComponent {keys}")
        self._node(pooling, component, extraction, counts + size - 1)
        self._affine_of("a", f"Round({pooling}, {period})", counts + size - 1)
        # Nothing else may read the counts: they have no derivative.
        for name in (extraction, pooling):
            del self.dims[name]
            self.given.remove(name)

    def _distribute(self) -> None:
        source = self._affine_of("blocks", *self.descriptor(), 2 * self.width)
        keys = f"DistributeComponent input-dim={2 * self.width} output-dim={self.width}"
        self._node(self._name("part"), self._component(self._name("distribute"), keys), source, self.width)

    # ---- requests ----

    def _request(self, inputs: list[str], outputs: list[str]) -> nnet3.ComputationRequest:
        rng = self.rng
        ns = rng.choice([[0], [0, 1], [0, 1, 2], [7, 3]])
        xs = rng.choice([[0], [0, 1], [-1, 0, 1]]) if self.use_x else [0]
        first, last = -rng.randint(0, 5), rng.randint(2, 10)
        irregular = rng.random() < 0.3
        backward = rng.random() < 0.8

        def table(low: int, high: int, step: int, drop: float) -> list[tuple[int, int, int]]:
            rows = [(n, t, x) for n in ns for t in range(low, high + 1, step) for x in xs]
            kept = [row for row in rows if rng.random() >= drop] or rows[:1]
            if rng.random() < 0.3:
                rng.shuffle(kept)
            return kept

        def some(rows: list[tuple[int, int, int]]) -> list[tuple[int, int, int]]:
            """Now and then without the last frame, or without an x."""
            missing = rng.random()
            if missing < 0.1:
                rows = [row for row in rows if row[1] < max(t for _, t, _ in rows)]
            elif missing < 0.3:
                rows = [row for row in rows if row[2] != xs[-1]] or rows
            return rows

        given = [
            nnet3.IoSpecification(
                name, some(table(first - 4, last + 4, 1, 0.1 if irregular else 0.0)), backward and rng.random() < 0.5
            )
            for name in inputs
        ]
        if self.given and rng.random() < 0.15:
            name = rng.choice(self.given)
            given.append(nnet3.IoSpecification(name, table(first - 1, last, 1, 0.6), backward and rng.random() < 0.5))
        wanted = [
            nnet3.IoSpecification(
                name, table(first, last, rng.choice([1, 1, 1, 3]), 0.2 if irregular else 0.0), backward
            )
            for name in outputs
        ]
        return nnet3.ComputationRequest(given, wanted, backward and rng.random() < 0.7, rng.random() < 0.3)
