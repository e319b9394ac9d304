"""Descriptors of nodes as inputs of layers, written as people write them."""

from __future__ import annotations

import pytest

from nnet3.model.structure.normalize import parse_descriptor
from nnet3.model.xconfig.describe import Outputs, quoted
from nnet3.model.xconfig.found import descriptor_term
from nnet3.xconfig import expand_xconfig

LAYERS = (
    "input name=input dim=2\nrelu-layer name=a dim=4\nstats-layer name=s config=mean(-3:1:3:3)\nrelu-layer name=b dim=4"
)


@pytest.mark.parametrize(
    ("descriptor", "written"),
    [
        ("b.relu", ""),
        ("a.relu", "a"),
        ("Offset(b.relu, 2)", "2"),
        ("Append(Offset(b.relu, -1), b.relu)", "Append(-1, 0)"),
        ("Append(b.relu, Offset(a.relu, -1))", "Append(b, a@-1)"),
        ("Append(Offset(b.relu, -1), a.relu)", "Append(b@-1, a)"),
        ("Append(Offset(b.relu, -1), ReplaceIndex(input, t, 0))", "Append(-1, ReplaceIndex(input, t, 0))"),
        ("Append(Round(s-pooling-3-3, 3), Offset(Round(s-pooling-3-3, 3), 3))", "Append(s, s@3)"),
        ("Offset(other, 3, 1)", "Offset(other, 3, 1)"),
        ("IfDefined(Offset(a.relu, -3))", "IfDefined(a@-3)"),
    ],
)
def test_inputs_are_written_with_layer_names(descriptor: str, written: str) -> None:
    outputs = Outputs()
    for layer in expand_xconfig(LAYERS).layers:
        outputs.add(layer.layer.name, layer.expansion)
    assert outputs.written(descriptor_term(parse_descriptor(descriptor))) == written


def test_values_with_blanks_or_signs_are_quoted() -> None:
    assert quoted({"dim": "3", "a": "max-change=1 b=2", "c": ""}) == ["dim=3", 'a="max-change=1 b=2"', 'c=""']
