"""What help says of layers."""

from __future__ import annotations

from nnet3.model.xconfig.manual import drawing, example_lines, expansion_lines, key_rows
from nnet3.xconfig import LAYER_TYPES


def test_a_layer_is_drawn_as_text() -> None:
    assert drawing(LAYER_TYPES["tdnnf-layer"]) == [
        "input",
        "  |",
        ".linear     Tdnn 1536 -> 160, t-3, t",
        "  |",
        ".affine     Tdnn 160 -> 1536, t, t+3",
        "  |",
        ".relu       RectifiedLinear 1536",
        "  |",
        ".batchnorm  BatchNorm 1536",
        "  | Sum(Scale(0.66, input), .batchnorm)",
        ".noop       NoOp 1536",
        "  => .noop, 1536 columns",
    ]


def test_nodes_that_are_not_components() -> None:
    assert drawing(LAYER_TYPES["input"]) == ["input  input of 40 columns", "  => input, 40 columns"]
    lstm = drawing(LAYER_TYPES["fast-lstm-layer"])
    assert lstm[0] == "Append(input, IfDefined(.m_trunc@-3))"
    assert ".m            columns 512 to 1023 of .lstm_nonlin" in lstm
    assert drawing(LAYER_TYPES["output"])[-1] == "output  output, objective linear"


def test_keys_show_default_and_values() -> None:
    rows = {row.name: row for row in key_rows(LAYER_TYPES["tdnnf-layer"])}
    assert rows["dim"].default == "must be given"
    assert rows["dropout-proportion"].default == "-1.0 (no dropout)"
    assert rows["context"].values == "one of default, left-only, shift-left, none"
    assert rows["input"].default == "[-1] (the layer above)"
    assert "input" not in {row.name for row in key_rows(LAYER_TYPES["input"])}


def test_every_type_has_an_example() -> None:
    for layer_type in LAYER_TYPES.values():
        assert example_lines(layer_type)[-1].startswith(f"{layer_type.name} name=")
        assert expansion_lines(layer_type)
        assert max(map(len, drawing(layer_type))) < 130
