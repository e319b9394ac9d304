from __future__ import annotations

import re

import pytest

from nnet3.errors import ConfigError
from nnet3.model.xconfig.layer import Value
from nnet3.model.xconfig.term import name
from nnet3.xconfig import LAYER_TYPES, Layer, make_layer


def layer(layer_type: str, values: dict[str, Value], input_dim: int = 12) -> Layer:
    return make_layer(LAYER_TYPES[layer_type], "layer", values, name("input"), input_dim)


def test_values_are_given_or_derived_or_defaults() -> None:
    made = layer("relu-layer", {"max-change": 1})
    assert (made["dim"], made["max-change"], made["target-rms"]) == (12, 1.0, 1.0)
    assert isinstance(made["max-change"], float)
    made = layer("lstmp-layer", {"cell-dim": "9"})
    assert (made["recurrent-projection-dim"], made["non-recurrent-projection-dim"]) == (2, 2)


@pytest.mark.parametrize(
    ("layer_type", "values", "message"),
    [
        ("relu-layer", {"dmi": 3}, "relu-layer 'layer': unknown key 'dmi' (did you mean 'dim'?)"),
        ("relu-layer", {"inptu": 3}, "relu-layer 'layer': unknown key 'inptu' (did you mean 'input'?)"),
        ("tdnnf-layer", {"dim": 12}, "tdnnf-layer 'layer': 'bottleneck-dim=' is missing: it must be > 0"),
        ("tdnnf-layer", {"dim": 12, "bottleneck-dim": 12}, "'dim' must be > bottleneck-dim (12), got 12"),
        (
            "relu-layer",
            {"ng-affine-options": "a"},
            "'ng-affine-options' must be key=value pairs in double quotes, got 'a'",
        ),
        ("lstmp-layer", {"cell-dim": 3}, "'cell-dim' must be at least 4 unless recurrent-projection-dim is given"),
        ("lstm-layer", {"decay-time": 0}, "'decay-time' must be > 1, the delay, or negative: no decay, got 0.0"),
        ("stats-layer", {"config": "mean(-5:1:2:4)"}, "STATS-PERIOD must divide LEFT and RIGHT"),
        ("stats-layer", {"config": "mean(-4:3:2:4)"}, "INPUT-PERIOD must divide STATS-PERIOD"),
        ("stats-layer", {"config": "mean(4:1:2:4)"}, "LEFT and RIGHT must not be to the other side"),
        ("stats-layer", {"config": "mean(-4:0:2:4)"}, "periods must be > 0"),
        ("stats-layer", {"config": "maen(-4:1:2:4)"}, "'config' must be such as mean+stddev+count(-LEFT:INPUT"),
        ("stats-layer", {"config": "mean(-4:1:2:4)", "dim": 13}, "'dim' must be 12, as the config has it"),
        ("res2-block", {"num-filters": 2}, "either 'height=' or both 'height-in=' and 'height-out=' must be given"),
        ("res-block", {"height": 5}, "'height' must divide the input's dimension (12), got 5"),
        (
            "idct-layer",
            {"affine-transform-file": "a", "cepstral-lifter": "nan"},
            "'cepstral-lifter' must not make the matrix divide by 0",
        ),
    ],
)
def test_errors_without_a_text(layer_type: str, values: dict[str, Value], message: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(message)) as caught:
        layer(layer_type, values)
    assert caught.value.span is None


def test_options_are_settings() -> None:
    made = layer("relu-layer", {"ng-affine-options": "max-change=1.5 rank-in=3  alpha=a b"})
    assert made.options("ng-affine-options") == (("max-change", "1.5"), ("rank-in", "3"), ("alpha", "a b"))
