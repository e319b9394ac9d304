"""Makes nodes and components of an xconfig, with errors that point into the xconfig."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from nnet3.errors import ConfigError
from nnet3.model.components.base import Component
from nnet3.model.components.random_source import RandomSource
from nnet3.model.structure.config_reader import apply_config
from nnet3.model.structure.nodes import DescriptorNode
from nnet3.model.structure.parts import NetworkParts
from nnet3.model.xconfig.expand import ExpandedLayer, ExpandedXconfig, expand_xconfig
from nnet3.model.xconfig.expansion import FINAL, Output
from nnet3.model.xconfig.input_descriptor import Known
from nnet3.model.xconfig.layer import Layer
from nnet3.model.xconfig.matrices import MatrixLike, matrix_components
from nnet3.model.xconfig.statements import ComponentStatement, Statement
from nnet3.model.xconfig.term import name

_SOURCE = "<config of an xconfig>"


def apply_xconfig(
    old: NetworkParts, text: str, source: str, rng: RandomSource, files: Mapping[str, MatrixLike]
) -> tuple[NetworkParts, list[str]]:
    """Returns `old` with the layers of an xconfig added, and warnings. Inputs may refer to the nodes of `old` by name.

    Raises ConfigError with the place in the xconfig.
    """
    return apply_expanded(old, expand_xconfig(text, source, known_nodes(old)), rng, files)


def apply_expanded(
    old: NetworkParts, expanded: ExpandedXconfig, rng: RandomSource, files: Mapping[str, MatrixLike], which: str = FINAL
) -> tuple[NetworkParts, list[str]]:
    """Returns `old` with the lines of one config of an expanded xconfig added, and warnings."""
    matrices = matrix_components(expanded, files, which)
    statements = expanded.statements(which)
    _check_names(statements)
    lines = [_config_line(statement, matrices.components) for _, statement in statements]
    start = replace(old, components={**old.components, **matrices.components})
    try:
        parts, warnings = apply_config(start, "\n".join(lines), _SOURCE, rng)
    except ConfigError as error:
        raise _in_xconfig(error, statements) from None
    names = dict.fromkeys([*old.components, *(s.name for _, s in statements if isinstance(s, ComponentStatement))])
    ordered = {name: parts.components[name] for name in names}  # as a config would have defined them
    return replace(parts, components=ordered), [*matrices.warnings, *warnings]


def _check_names(statements: list[tuple[ExpandedLayer, Statement]]) -> None:
    """Raises ConfigError if two layers give a part one name, such as a layer a.relu and the relu of a layer a."""
    owners: dict[tuple[str, str], Layer] = {}
    for expanded, statement in statements:
        kind = "component" if isinstance(statement, ComponentStatement) else "node"
        owner = owners.setdefault((kind, statement.name), expanded.layer)
        if owner is not expanded.layer:
            message = f"its {kind} '{statement.name}' is already one of {owner.type.name} '{owner.name}'"
            raise expanded.layer.error(
                message, "name", "give it another name, or another input if it is named after that"
            )


def known_nodes(parts: NetworkParts) -> list[Known]:
    """Returns the nodes of a network that inputs of new layers can refer to; outputs cannot be referred to."""
    known = []
    for node in parts.nodes:
        if not isinstance(node, DescriptorNode):
            known.append(Known(node.name, Output(name(node.name), parts.dim(node.name))))
    return known


def _config_line(statement: Statement, made: Mapping[str, Component]) -> str:
    """Returns the line for the config reader: keys that do not count left out, nothing for existing components."""
    if not isinstance(statement, ComponentStatement):
        return str(statement)
    if statement.name in made:
        return ""
    return str(replace(statement, settings=tuple(statement.values.items()), settings_before_type=0))


def _in_xconfig(error: ConfigError, statements: list[tuple[ExpandedLayer, Statement]]) -> ConfigError:
    """Returns an error about an expanded line, turned into an error about the layer."""
    if error.span is None or error.span.source != _SOURCE:
        return error
    owner, statement = statements[error.span.line - 1]
    line = owner.layer.line
    assert line is not None
    marked = error.span.text[error.span.column - 1 : error.span.column - 1 + error.span.length]
    values = [value for key, value in line.values.items() if value.text == marked and key != "name"]
    span = values[0].span if values else line.span
    message = f"{owner.layer.type.name} '{owner.layer.name}' stands for a line that is wrong: {error.message}"
    return ConfigError(f"{message}\n  {statement}", span, error.hint)
