"""Simple networks, from `input` and maybe `ivector` to `output`: the words that refuse other networks."""

from __future__ import annotations

from collections.abc import Sequence

from nnet3.model.structure.nodes import InputNode
from nnet3.model.structure.parts import NetworkParts


def what_is_simple(parts: NetworkParts) -> str:
    """Returns the end of a message that refuses a network as not simple: inputs, outputs, and how to rename them."""
    inputs = [node.name for node in parts.nodes if isinstance(node, InputNode)]
    outputs = [node.name for node in parts.nodes if node.is_output]
    others = [name for name in inputs if name != "ivector"]
    only = others if len(others) == 1 else []
    hints = [*_renaming("output", outputs, outputs[:1]), *_renaming("input", inputs, only)]
    text = (
        "an output 'output', an input 'input' and at most an input 'ivector' besides are needed; this network has "
        f"inputs {inputs} and outputs {outputs}"
    )
    if hints:
        text += (
            f". nnet3 copy --edits='{'; '.join(hints)}' renames what it has (in Python nnet3.model.edits.apply_edits)"
        )
    return text


def _renaming(name: str, names: Sequence[str], candidates: Sequence[str]) -> list[str]:
    """Returns the edit that renames a candidate to the missing node."""
    return [] if name in names else [f"rename-node old-name={old} new-name={name}" for old in candidates]
