from __future__ import annotations

import pytest

from nnet3.xconfig import LAYER_TYPES
from tests.cli.run_command import Cli


def test_all_types_are_listed(cli: Cli) -> None:
    words = cli.good("xconfig-help").out.split()
    assert set(LAYER_TYPES) <= set(words)


@pytest.mark.parametrize("layer_type", LAYER_TYPES)
def test_help_of_a_type_lists_its_keys_and_an_example(cli: Cli, layer_type: str) -> None:
    printed = cli.good("xconfig-help", layer_type).out
    words = printed.split()
    assert words[0] == f"{layer_type}:"
    assert {key.name for key in LAYER_TYPES[layer_type].keys} <= set(words)
    assert "  output-node name=output" in printed or "  component" in printed or "-node name=" in printed


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("tdnf-layer", "did you mean 'tdnnf-layer'?"),
        ("tdnf", "did you mean 'tdnnf-layer'?"),
        ("lstm", "did you mean 'lstm-layer'?"),
        ("nonsense", "`nnet3 xconfig-help` lists the types"),
    ],
)
def test_a_wrong_name(cli: Cli, name: str, hint: str) -> None:
    outcome = cli("xconfig-help", name)
    assert outcome.status == 1
    assert outcome.err == f"nnet3: unknown layer type '{name}' ({hint})\n"
