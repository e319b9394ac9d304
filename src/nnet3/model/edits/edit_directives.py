"""Edit directives that set values, rename nodes or remove nodes and components.

A directive changes the network, asks the line for all its keys and returns warnings.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import replace

from nnet3.base.text import ConfigLine, did_you_mean, is_valid_name
from nnet3.model.components.base import Component
from nnet3.model.nnet.network import Nnet
from nnet3.model.structure.nodes import ComponentNode, InputNode
from nnet3.model.structure.parts import NetworkParts, without_orphan_components, without_orphan_nodes, without_orphans


def matching(names: Iterable[str], pattern: str) -> list[str]:
    """Returns the names that a pattern matches as a whole; `*` stands for any number of characters."""
    regex = re.compile(".*".join(re.escape(piece) for piece in re.split(r"\*+", pattern)))
    return [name for name in names if regex.fullmatch(name)]


def nothing_matched(kind: str, pattern: str, names: Iterable[str]) -> list[str]:
    hint = did_you_mean(pattern, names)
    return [f"no {kind} matches '{pattern}'{'; ' + hint if hint else ''}"]


def convert_to_fixed_affine(nnet: Nnet, line: ConfigLine) -> list[str]:
    """Turns Affine and NaturalGradientAffine into FixedAffine with the same parameters."""
    found, warnings = _matching_components(nnet, line, "affine component", lambda component: component.is_affine)
    converted = {name: component.as_fixed() or component for name, component in found.items()}
    nnet.replace_parts(replace(nnet.parts, components={**nnet.components, **converted}))
    return warnings


def remove_orphan_nodes(nnet: Nnet, line: ConfigLine) -> list[str]:
    return _keep(nnet, without_orphan_nodes(nnet.parts, keep_inputs=_keep_inputs(line)), line)


def remove_orphan_components(nnet: Nnet, line: ConfigLine) -> list[str]:
    return _keep(nnet, without_orphan_components(nnet.parts), line)


def remove_orphans(nnet: Nnet, line: ConfigLine) -> list[str]:
    return _keep(nnet, without_orphans(nnet.parts, keep_inputs=_keep_inputs(line)), line)


def _keep_inputs(line: ConfigLine) -> bool:
    return not line.boolean("remove-orphan-inputs", False)


def _keep(nnet: Nnet, parts: NetworkParts, line: ConfigLine) -> list[str]:
    if not any(isinstance(node, InputNode) for node in parts.nodes):
        raise line.error("no input node would remain, since no output needs one", "remove-orphan-inputs")
    nnet.replace_parts(parts)
    return []


def set_learning_rate(nnet: Nnet, line: ConfigLine) -> list[str]:
    """Sets the learning rate: the actual one becomes the value times the component's factor."""
    rate = line.number("learning-rate", minimum=0.0)
    found, warnings = _matching_components(nnet, line, "updatable component", _is_updatable)
    for component in found.values():
        component.set_learning_rate(rate)
    return warnings


def set_learning_rate_factor(nnet: Nnet, line: ConfigLine) -> list[str]:
    """Sets the factor; the actual rate stays until it is set the next time."""
    factor = line.number("learning-rate-factor", minimum=0.0)
    found, warnings = _matching_components(nnet, line, "updatable component", _is_updatable)
    for component in found.values():
        if (updatable := component.updatable) is not None:
            updatable.learning_rate_factor = factor
    return warnings


def set_dropout_proportion(nnet: Nnet, line: ConfigLine) -> list[str]:
    """Sets the proportion of Dropout, DropoutMask and GeneralDropout."""
    proportion = line.number("proportion", minimum=0.0, maximum=1.0)
    found, warnings = _matching_components(
        nnet, line, "dropout component", lambda component: component.dropout_proportion is not None
    )
    for component in found.values():
        component.set_dropout_proportion(proportion)
    return warnings


def rename_node(nnet: Nnet, line: ConfigLine) -> list[str]:
    """Renames a node, references to it, and the hidden input of a component node."""
    old, new = line.string("old-name"), line.string("new-name")
    visible = [node.name for node in nnet.nodes if not node.is_hidden]
    if old not in visible:
        raise line.error(f"the network has no node '{old}' that can be renamed", "old-name", did_you_mean(old, visible))
    if not is_valid_name(new):
        raise line.error(f"'{new}' is not a valid name", "new-name", "a letter or '_', then letters, digits, '_-.'")
    names = {old: new}
    if isinstance(nnet.node(old), ComponentNode):
        names[f"{old}_input"] = f"{new}_input"
    taken = [name for name in names.values() if name in nnet.node_number and (old == new or name not in names)]
    if taken:
        raise line.error(f"the node name '{taken[0]}' is already taken", "new-name")
    renamed = (replace(node.with_sources(names), name=names.get(node.name, node.name)) for node in nnet.nodes)
    nnet.replace_parts(replace(nnet.parts, nodes=tuple(renamed)))
    return []


def remove_output_nodes(nnet: Nnet, line: ConfigLine) -> list[str]:
    """Removes output nodes that match the pattern `name`; at least one output must remain."""
    pattern = line.string("name")
    removed = matching(nnet.output_names, pattern)
    if not removed:
        return nothing_matched("output node", pattern, nnet.output_names)
    if len(removed) == len(nnet.output_names):
        raise line.error(f"no output node would remain: '{pattern}' matches {', '.join(removed)}", "name")
    nodes = tuple(node for node in nnet.nodes if node.name not in removed)
    nnet.replace_parts(replace(nnet.parts, nodes=nodes))
    return []


def _matching_components(
    nnet: Nnet, line: ConfigLine, kind: str, is_wanted: Callable[[Component], bool]
) -> tuple[dict[str, Component], list[str]]:
    """Returns the wanted components that match the line's `name`, and a warning without a match."""
    pattern = line.string("name", "*")
    wanted = {name: component for name, component in nnet.components.items() if is_wanted(component)}
    found = {name: wanted[name] for name in matching(wanted, pattern)}
    return found, [] if found else nothing_matched(kind, pattern, wanted)


def _is_updatable(component: Component) -> bool:
    return component.updatable is not None
