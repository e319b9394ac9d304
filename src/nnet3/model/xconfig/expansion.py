"""Expansions of layers: nodes and components as values that can be compared and printed."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from nnet3.model.xconfig import term
from nnet3.model.xconfig.statements import (
    ComponentNodeStatement,
    ComponentStatement,
    DimRangeStatement,
    OutputNodeStatement,
    Settings,
    Statement,
)
from nnet3.model.xconfig.term import Term

#: The configs that are made of an xconfig: what statistics for an LDA-like transform are gathered with, the whole
#: network without files, the whole network.
CONFIGS = ("init", "ref", "final")
INIT, REF, FINAL = CONFIGS
WHOLE = (REF, FINAL)


@dataclass(frozen=True)
class Output:
    """The layer's output for other layers: a descriptor of nodes and the number of columns."""

    term: Term
    dim: int


@dataclass(frozen=True)
class MatrixFile:
    """A matrix (rows, columns) wanted in a file by a layer."""

    path: str
    values: np.ndarray


@dataclass(frozen=True)
class Expansion:
    """A layer as statements, with configs, and the outputs for reference by other layers."""

    statements: tuple[tuple[Statement, tuple[str, ...]], ...]
    output: Output | None
    auxiliary: dict[str, Output] = field(default_factory=dict)
    matrix_files: tuple[MatrixFile, ...] = ()

    def config(self, which: str = FINAL) -> tuple[Statement, ...]:
        """Returns the statements of one config of CONFIGS."""
        return tuple(statement for statement, configs in self.statements if which in configs)

    def lines(self, which: str = FINAL) -> list[str]:
        """Returns the lines of one config of CONFIGS."""
        return [str(statement) for statement in self.config(which)]


class Expander:
    """Collects what a layer consists of. `expander("affine")` is the node NAME.affine, `expander()` the node NAME."""

    def __init__(self, layer_name: str):
        self.layer_name = layer_name
        self.configs: tuple[str, ...] = WHOLE
        self._statements: list[tuple[Statement, tuple[str, ...]]] = []
        self._output: Output | None = None
        self._auxiliary: dict[str, Output] = {}
        self._matrix_files: list[MatrixFile] = []

    def __call__(self, suffix: str = "") -> Term:
        return term.name(self.full_name(suffix))

    def full_name(self, suffix: str) -> str:
        """Returns the layer's name, followed by a dot and the suffix if not empty."""
        return f"{self.layer_name}.{suffix}" if suffix else self.layer_name

    def component(self, suffix: str, type_name: str, settings: Settings, settings_before_type: int = 0) -> None:
        """Adds a component."""
        self.state(ComponentStatement(self.full_name(suffix), type_name, settings, settings_before_type))

    def node(self, suffix: str, component: str, input: Term) -> Term:
        """Returns a component-node of the component with suffix `component`."""
        self.state(ComponentNodeStatement(self.full_name(suffix), self.full_name(component), input))
        return self(suffix)

    def pair(self, suffix: str, type_name: str, settings: Settings, input: Term, settings_before_type: int = 0) -> Term:
        """Returns a component, and a node of equal name for it."""
        self.component(suffix, type_name, settings, settings_before_type)
        return self.node(suffix, suffix, input)

    def named_pair(self, full_name: str, type_name: str, settings: Settings, input: Term) -> Term:
        """Adds a component and its node under a name without the layer's name."""
        self.state(ComponentStatement(full_name, type_name, settings))
        self.state(ComponentNodeStatement(full_name, full_name, input))
        return term.name(full_name)

    def columns(self, suffix: str, source: str, dim_offset: int, dim: int) -> Term:
        """Returns a dim-range-node: some columns of the node with suffix `source`."""
        self.state(DimRangeStatement(self.full_name(suffix), self.full_name(source), dim, dim_offset, True))
        return self(suffix)

    def output_node(self, input: Term, objective: str = "", name: str = "") -> None:
        """Adds an output-node with the layer's name or another name."""
        self.state(OutputNodeStatement(name or self.layer_name, input, objective))

    def state(self, statement: Statement) -> None:
        """Adds a statement to the given configs."""
        self._statements.append((statement, self.configs))

    def output(self, output: Term, dim: int) -> None:
        """Sets the layer's output for other layers."""
        self._output = Output(output, dim)

    def auxiliary(self, suffix: str, dim: int) -> None:
        """Names a node, besides the output, that other layers may read."""
        self._auxiliary[suffix] = Output(self(suffix), dim)

    def matrix_file(self, path: str, values: np.ndarray) -> None:
        """Adds a matrix to be written to a file."""
        self._matrix_files.append(MatrixFile(path, values))

    def expansion(self) -> Expansion:
        """Returns the collected expansion."""
        return Expansion(tuple(self._statements), self._output, self._auxiliary, tuple(self._matrix_files))
