"""Layers of published recipes, for random networks: they look at several rows at once, or at all of a minibatch."""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections.abc import Sequence

MORE_LAYERS = ("tdnnf", "convolution", "attention", "fast_lstm", "both_ways", "gru", "output_gru", "norm")

_WIDE = 36  # columns from which on signs are compressed


class RecipeLayers(ABC):
    """What a builder of networks can add beside its own layers."""

    rng: random.Random
    width: int
    dims: dict[str, int]
    lines: list[str]

    # ---- what the builder gives ----

    @abstractmethod
    def descriptor(self) -> tuple[str, int]: ...

    @abstractmethod
    def part(self, dim: int) -> tuple[str, int]: ...

    @abstractmethod
    def _name(self, stem: str) -> str: ...

    @abstractmethod
    def _component(self, name: str, keys: str) -> str: ...

    @abstractmethod
    def _node(self, name: str, component: str, text: str, dim: int) -> str: ...

    @abstractmethod
    def _affine_of(self, stem: str, text: str, dim: int, out: int | None = None) -> str: ...

    @abstractmethod
    def _anchored(self) -> str: ...

    # ---- layers ----

    def _own(self, stem: str, keys: str, text: str, dim: int) -> str:
        """A node with a component of its own."""
        name = self._name(stem)
        return self._node(name, self._component(f"{name}.{stem}", keys), text, dim)

    def _columns(self, stem: str, source: str, offset: int, dim: int) -> str:
        name = self._name(stem)
        self.lines.append(f"dim-range-node name={name} input-node={source} dim={dim} dim-offset={offset}")
        self.dims[name] = dim
        return name

    def _normalized(self, source: str) -> str:
        dim, scale = self.dims[source], self.rng.choice([1.0, 0.5])
        kind = self.rng.choice([f"BatchNormComponent dim={dim}", f"NormalizeComponent dim={dim} target-rms={scale}"])
        return self._own("norm", kind, source, dim)

    def _norm(self) -> None:
        self._normalized(self._affine_of("a", *self.descriptor()))

    def _tdnnf(self) -> None:
        """One to three layers: a bottleneck, a product, rectified and normalized, and a bypass with a scale."""
        wide = self._affine_of("wide", *self.descriptor(), _WIDE)
        for _ in range(self.rng.randint(1, 3)):
            stride = self.rng.choice([0, 1, 1, 3])
            left, right = (f"-{stride},0", f"0,{stride}") if stride else ("0", "0")
            keys = f"TdnnComponent input-dim={_WIDE} output-dim={self.width} use-bias=false time-offsets={left}"
            linear = self._own("linear", keys, wide, self.width)
            keys = f"TdnnComponent input-dim={self.width} output-dim={_WIDE} time-offsets={right}"
            affine = self._own("affine", keys, linear, _WIDE)
            relu = self._own("relu", f"RectifiedLinearComponent dim={_WIDE} self-repair-scale=1e-5", affine, _WIDE)
            norm = self._own("norm", f"BatchNormComponent dim={_WIDE}", relu, _WIDE)
            text = f"Sum(Scale({self.rng.choice([0.66, 0.5])}, {wide}), {norm})"
            wide = self._own("noop", f"NoOpComponent dim={_WIDE}", text, _WIDE)
        self._affine_of("narrow", wide, _WIDE)

    def _convolution(self) -> None:
        """Two filters over images of four pixels in height, over time."""
        image = self._affine_of("image", *self.descriptor(), 8)
        step = self.rng.choice([1, 2])
        offsets = self.rng.choice(["-1,0,1", "0,1", "0", "-2,0"])
        keys = (
            f"TimeHeightConvolutionComponent num-filters-in=2 num-filters-out=2 height-in=4 height-out={4 // step} "
            f"height-subsample-out={step} height-offsets=-1,0,1 time-offsets={offsets} "
            f"required-time-offsets={self.rng.choice(['0', offsets])}"
        )
        filtered = self._own("conv", keys, image, 8 // step)
        self._affine_of("flat", self._own("relu", f"RectifiedLinearComponent dim={8 // step}", filtered, 8 // step),
                        8 // step)  # fmt: skip

    def _attention(self) -> None:
        heads, key, value = self.rng.choice([1, 2]), self.width, self.rng.choice([2, 4])
        left, right, stride = self.rng.randint(1, 2), self.rng.randint(0, 1), self.rng.choice([1, 1, 2])
        context = self.rng.choice([True, False])
        size, out = left + 1 + right, heads * value
        out += heads * size if context else 0
        dim = heads * (2 * key + value + size)
        keys = (
            f"RestrictedAttentionComponent num-heads={heads} key-dim={key} value-dim={value} time-stride={stride} "
            f"num-left-inputs={left} num-right-inputs={right} output-context={str(context).lower()} "
            f"num-left-inputs-required={self.rng.randint(0, left)} num-right-inputs-required={right}"
        )
        queries = self._affine_of("queries", *self.descriptor(), dim)
        self._affine_of("attended", self._own("attention", keys, queries, out), out)

    def _back(self, source: str, delay: int) -> str:
        return f"IfDefined(Offset({source}, {-delay}))"

    def _projected_lstm(self, text: str, dim: int, delay: int) -> str:
        """As `fast-lstmp-layer` makes it; the node of its output, twice as wide as what goes back."""
        cells, loop = self.width, self._name("lstmp")
        keys = f"NaturalGradientAffineComponent input-dim={dim + cells} output-dim={4 * cells}"
        gates = self._own("gates", keys, f"Append({text}, {self._back(f'{loop}.r', delay)})", 4 * cells)
        keys = f"LstmNonlinearityComponent cell-dim={cells} use-dropout=false"
        lstm = self._own("lstm", keys, f"Append({gates}, {self._back(f'{loop}.c', delay)})", 2 * cells)
        cell, value = self._columns("c", lstm, 0, cells), self._columns("m", lstm, cells, cells)
        projected = self._affine_of("rp", value, cells, 2 * cells)
        recurrent = self._columns("r", projected, 0, cells)
        keys = f"BackpropTruncationComponent dim={2 * cells} scale=0.9 clipping-threshold=30 recurrence-interval=1"
        truncated = self._own("trunc", keys, f"Append({cell}, {recurrent})", 2 * cells)
        for name, offset in (("c", 0), ("r", cells)):
            self.lines.append(
                f"dim-range-node name={loop}.{name} input-node={truncated} dim={cells} dim-offset={offset}"
            )
        return projected

    def _delay(self) -> int:
        return self.rng.choice([1, 1, 2, 3])

    def _fast_lstm(self) -> None:
        """One or two, the one above the other."""
        delay, text, dim = self._delay() * self.rng.choice([1, -1]), self._anchored(), self.width
        for _ in range(self.rng.choice([1, 2])):
            text, dim = self._projected_lstm(text, dim, delay), 2 * self.width

    def _both_ways(self) -> None:
        """One or two layers that go forward and backward in time."""
        text, dim = self._anchored(), self.width
        for _ in range(self.rng.choice([1, 2])):
            forward, backward = (self._projected_lstm(text, dim, sign * self._delay()) for sign in (1, -1))
            text, dim = f"Append({forward}, {backward})", 4 * self.width
        self._affine_of("joined", text, dim)

    def _gate(self, stem: str, others: Sequence[str], cells: int) -> str:
        text = f"Append({', '.join([self._anchored(), *others])})"
        source = self._affine_of(stem, text, self.width * (1 + len(others)), cells)
        return self._own(stem, f"SigmoidComponent dim={cells}", source, cells)

    def _gru(self) -> None:
        """With a projection, whose output goes back to both gates."""
        loop, cells, delay = self._name("s"), self.width + 1, self._delay()
        past = self._back(loop, delay)
        update, reset = self._gate("z", [past], cells), self._gate("reset", [past], self.width)
        given = self._affine_of("hpart", self._anchored(), self.width, cells)
        cell = self._name("cell")
        keys = f"GruNonlinearityComponent cell-dim={cells} recurrent-dim={self.width}"
        text = f"Append({update}, {reset}, {given}, {self._back(cell, delay)}, {past})"
        unit = self._own("gru", keys, text, 2 * cells)
        self.lines.append(f"dim-range-node name={cell} input-node={unit} dim={cells} dim-offset={cells}")
        component = self._component(f"{loop}.affine", f"AffineComponent input-dim={cells} output-dim={self.width}")
        self._node(loop, component, cell, self.width)

    def _output_gru(self) -> None:
        """Its gate looks at what the layer gave before; the reset gate acts on the output."""
        loop, cells, delay = self._name("s"), self.width, self._delay()
        update, shown = (self._gate(stem, [self._back(loop, delay)], cells) for stem in ("z", "o"))
        given, cell = self._affine_of("hpart", self._anchored(), self.width, cells), self._name("cell")
        text = f"Append({update}, {given}, {self._back(cell, delay)})"
        unit = self._own("opgru", f"OutputGruNonlinearityComponent cell-dim={cells}", text, 2 * cells)
        self.lines.append(f"dim-range-node name={cell} input-node={unit} dim={cells} dim-offset={cells}")
        keys = f"ElementwiseProductComponent input-dim={2 * cells} output-dim={cells}"
        self._node(loop, self._component(f"{loop}.product", keys), f"Append({shown}, {cell})", cells)
