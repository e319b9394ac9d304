"""Applies edits: a text of directives that change a network in order."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from torch import Tensor

from nnet3.base.text import ConfigLine, did_you_mean, read_config_lines
from nnet3.errors import ConfigError
from nnet3.model.components.base import Component
from nnet3.model.edits import edit_directives, low_rank
from nnet3.model.nnet.network import Nnet
from nnet3.model.structure.parts import orphan_warnings

#: A directive changes the network, asks the line for all its keys and returns warnings.
Directive = Callable[[Nnet, ConfigLine], list[str]]

DIRECTIVES: dict[str, Directive] = {
    "convert-to-fixed-affine": edit_directives.convert_to_fixed_affine,
    "remove-orphan-nodes": edit_directives.remove_orphan_nodes,
    "remove-orphan-components": edit_directives.remove_orphan_components,
    "remove-orphans": edit_directives.remove_orphans,
    "set-learning-rate": edit_directives.set_learning_rate,
    "set-learning-rate-factor": edit_directives.set_learning_rate_factor,
    "rename-node": edit_directives.rename_node,
    "remove-output-nodes": edit_directives.remove_output_nodes,
    "set-dropout-proportion": edit_directives.set_dropout_proportion,
    "apply-svd": low_rank.apply_svd,
    "reduce-rank": low_rank.reduce_rank,
}


def apply_edits(nnet: Nnet, text: str, source: str = "<edits>") -> list[str]:
    """Changes the network in place by the lines of an edits text.

    Returns warnings with their places: patterns that match nothing, components passed over by a directive.
    Raises ConfigError at the offending word; then no line has been applied. A computation compiled before holds no
    longer.
    """
    lines = read_config_lines(text, source)
    warnings: list[str] = []
    with _all_or_nothing(nnet):
        for line in lines:
            warnings += _apply(nnet, line)
    nnet.warnings = orphan_warnings(nnet.parts)
    return warnings


def edits_from_option(value: str) -> str:
    """Returns the text of a command line's `--edits`, where `;` separates lines."""
    return value.replace(";", "\n")


def _apply(nnet: Nnet, line: ConfigLine) -> list[str]:
    if line.first_token not in DIRECTIVES:
        got = f"'{line.first_token}'" if line.first_token else "a line that begins with key=value"
        hint = did_you_mean(line.first_token, DIRECTIVES) or "known: " + ", ".join(DIRECTIVES)
        raise ConfigError(f"unknown directive, got {got}", line.span, hint)
    line.subject = line.first_token
    warnings = DIRECTIVES[line.first_token](nnet, line)
    line.finish()
    repeated = line.repeated_warnings()
    place = f"{line.span.source}:{line.span.line}: {line.first_token}"
    return [*repeated, *(f"{place}: {warning}" for warning in warnings)]


@contextmanager
def _all_or_nothing(nnet: Nnet) -> Iterator[None]:
    """Restores the network if the block raises. Components and their tensors stay the same objects.

    Directives replace tensors, so that old values are not lost; at the end the old tensors get the new values.
    """
    parts = nnet.parts
    settings = {name: _settings(component) for name, component in parts.components.items()}
    try:
        yield
    except BaseException:
        for name, component in parts.components.items():
            component.__dict__.update(settings[name])
        nnet.replace_parts(parts)
        raise
    for name, component in parts.components.items():
        for key in component.parameter_names:
            _keep_tensor(component, key, settings[name][key])


def _keep_tensor(component: Component, key: str, original: object) -> None:
    """Copies the new values to the original tensor, if of equal shape, and puts the original back."""
    value = getattr(component, key)
    if value is original or not isinstance(original, Tensor) or original.shape != value.shape:
        return
    original.copy_(value)
    setattr(component, key, original)


def _settings(component: Component) -> dict[str, object]:
    """Copies the attributes but not the parameters: no directive changes a tensor's values."""
    tensors = component.parameters().values()
    return copy.deepcopy(component.__dict__, {id(tensor): tensor for tensor in tensors})
