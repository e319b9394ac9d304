"""The lines of a config as values; `str` gives the text."""

from __future__ import annotations

from dataclasses import dataclass, field

from nnet3.model.xconfig.term import Term

Settings = tuple[tuple[str, str], ...]
"""Keys of a component with their values as text. Of a key given twice the first value counts, as in nnet3."""


def settings(**values: object) -> Settings:
    """Keys and values in order, `input_dim=40` for `input-dim=40`; an empty text stands for a key that is not given."""
    pairs = ((key.replace("_", "-"), show(value)) for key, value in values.items())
    return tuple(pair for pair in pairs if pair[1])


def show(value: object) -> str:
    """Formats a value for config lines: floats in the fewest digits that give them back, `true`, `false`."""
    return str(value).lower() if isinstance(value, bool) else str(value)


@dataclass(frozen=True)
class ComponentStatement:
    """`component name=... type=... key=value ...`."""

    name: str
    type: str
    settings: Settings
    settings_before_type: int = field(default=0, compare=False)

    @property
    def values(self) -> dict[str, str]:
        """The settings that count, by key."""
        return dict(reversed(self.settings))

    def __str__(self) -> str:
        words = [f"{key}={value}" for key, value in self.settings]
        words.insert(self.settings_before_type, f"type={self.type}")
        return " ".join([f"component name={self.name}", *words])


@dataclass(frozen=True)
class ComponentNodeStatement:
    """`component-node name=... component=... input=...`."""

    name: str
    component: str
    input: Term

    def __str__(self) -> str:
        return f"component-node name={self.name} component={self.component} input={self.input}"


@dataclass(frozen=True)
class DimRangeStatement:
    """`dim-range-node`: `dim` columns of node `source` from `dim_offset` on."""

    name: str
    source: str
    dim: int
    dim_offset: int
    offset_first: bool = field(default=False, compare=False)

    def __str__(self) -> str:
        sizes = [f"dim={self.dim}", f"dim-offset={self.dim_offset}"]
        ordered = reversed(sizes) if self.offset_first else sizes
        return " ".join([f"dim-range-node name={self.name} input-node={self.source}", *ordered])


@dataclass(frozen=True)
class InputNodeStatement:
    """`input-node name=... dim=...`."""

    name: str
    dim: int

    def __str__(self) -> str:
        return f"input-node name={self.name} dim={self.dim}"


@dataclass(frozen=True)
class OutputNodeStatement:
    """`output-node name=... input=... [objective=...]`."""

    name: str
    input: Term
    objective: str = ""

    def __str__(self) -> str:
        objective = f" objective={self.objective}" if self.objective else ""
        return f"output-node name={self.name} input={self.input}{objective}"


Statement = ComponentStatement | ComponentNodeStatement | DimRangeStatement | InputNodeStatement | OutputNodeStatement
