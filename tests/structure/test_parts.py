"""Nodes and components that no output needs: found, told of, and taken away."""

from __future__ import annotations

import nnet3
from nnet3.model.structure import parts

CONFIG = """\
input-node name=input dim=3
input-node name=other dim=2
component name=used type=NoOpComponent dim=3
component name=unused type=NoOpComponent dim=3
component name=of-orphan type=NoOpComponent dim=2
component-node name=a component=used input=input
component-node name=b component=of-orphan input=other
output-node name=output input=a
"""


def test_orphans_are_what_no_output_needs() -> None:
    network = nnet3.Nnet.from_config(CONFIG).parts
    found = [network.nodes[number].name for number in parts.orphan_nodes(network)]
    assert found == ["other", "b_input", "b"]
    assert parts.orphan_components(network) == ["unused"]
    assert parts.orphan_warnings(network) == [
        "node 'other' is never used to compute any output",
        "node 'b' is never used to compute any output",
        "component 'unused' is never used by any node",
    ]


def test_without_orphans_a_network_keeps_its_inputs_unless_told_otherwise() -> None:
    network = nnet3.Nnet.from_config(CONFIG).parts
    kept = parts.without_orphans(network)
    assert [node.name for node in kept.nodes] == ["input", "other", "a_input", "a", "output"]
    assert list(kept.components) == ["used"]
    assert [node.name for node in parts.without_orphans(network, keep_inputs=False).nodes] == [
        *("input", "a_input", "a", "output")
    ]
    assert list(parts.without_orphan_nodes(network).components) == ["used", "unused", "of-orphan"]
