"""Recurrences that have no way to start: which nodes can never be computed, and what is said of them."""

from __future__ import annotations

import pytest

from nnet3.model.nnet import Nnet
from nnet3.model.structure.cycles import never_computable, startless_warnings

HEAD = "input-node name=input dim=2\ncomponent name=k type=NoOpComponent dim=2\n"


def _network(*inputs: str) -> Nnet:
    lines = [f"component-node name=n{number} component=k input={text}" for number, text in enumerate(inputs)]
    return Nnet.from_config(HEAD + "\n".join([*lines, "output-node name=output input=n0"]))


def _stuck(nnet: Nnet) -> set[str]:
    return {nnet.parts.nodes[number].name for number in never_computable(nnet.parts)}


@pytest.mark.parametrize(
    "descriptor",
    [
        "input",
        "Sum(input, IfDefined(Offset(n0, -1)))",
        "Failover(Offset(n0, -1), input)",
        "Sum(input, Failover(Offset(n0, -1), Const(0, 2)))",
    ],
)
def test_a_recurrence_that_can_begin(descriptor: str) -> None:
    nnet = _network(descriptor)
    assert _stuck(nnet) == set()
    assert startless_warnings(nnet.parts) == []


@pytest.mark.parametrize(
    "descriptor",
    [
        "Offset(n0, -1)",
        "Sum(input, Offset(n0, -1))",
        "Failover(Offset(n0, -1), Offset(n0, -2))",
        "Switch(Offset(n0, -1))",
    ],
)
def test_a_recurrence_that_cannot(descriptor: str) -> None:
    nnet = _network(descriptor)
    assert {"n0", "output"} <= _stuck(nnet)
    (warning,) = startless_warnings(nnet.parts)
    assert "the recurrence through 'n0' has no way to start" in warning
    assert "Offset(n0, -1))" in warning.partition("write IfDefined(")[2]


def test_what_only_waits_for_a_recurrence_is_not_warned_of() -> None:
    nnet = _network("Sum(n1, input)", "Sum(input, Offset(n2, -1))", "n1")
    assert {"n0", "n1", "n2"} <= _stuck(nnet)
    (warning,) = startless_warnings(nnet.parts)
    assert "the recurrence through 'n1' has no way to start" in warning
