"""Fingerprints of networks: a short digest of each aspect on which compiled programs depend."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

from nnet3.components import Component
from nnet3.structure.nodes import Node

_PLAIN = (bool, int, str, tuple)
_NOT_PROGRAM = frozenset({"is_gradient"})  # settings of updates, which no program depends on


def nodes_digest(nodes: tuple[Node, ...]) -> str:
    """Returns a digest of the nodes and their descriptors."""
    return _digest("\n".join(map(str, nodes)))


def network_fingerprint(digest_of_nodes: str, components: Mapping[str, Component]) -> dict[str, str]:
    """Returns aspect -> digest: "nodes" for the nodes and their descriptors, "component NAME" for each component.

    Equal for networks that compile to the same program for every request: types, sizes, promises (which test mode
    changes), settings such as time offsets. Values of parameters and statistics do not count.
    """
    result = {"nodes": digest_of_nodes}
    for name, component in components.items():
        result[f"component {name}"] = _digest(repr(_settings(component)))
    return result


def _settings(component: Component) -> tuple[object, ...]:
    """Returns type, promises, sizes of parameters, and all plain settings by name."""
    if not isinstance(component, Component):
        return (f"not a component, but {component!r}",)
    changing = _NOT_PROGRAM.union(component.statistic_names)
    plain = [
        (key, value)
        for key, value in vars(component).items()
        if isinstance(value, _PLAIN) and not key.startswith("_") and key not in changing
    ]
    sizes = [(key, tuple(getattr(tensor, "shape", ()))) for key, tensor in component.parameters().items()]
    flags = int(component.properties), component.identity_indexes, component.needs_indexes
    return component.type_name, *flags, sizes, sorted(plain)


def _digest(text: str) -> str:
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()
