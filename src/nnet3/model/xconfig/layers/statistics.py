"""stats-layer: mean and standard deviation over a window of frames."""

from __future__ import annotations

import re
from typing import NamedTuple

from nnet3.base.text.values import Rule
from nnet3.model.xconfig.expansion import Expander
from nnet3.model.xconfig.found import Found
from nnet3.model.xconfig.layer import Key, Layer, LayerType
from nnet3.model.xconfig.statements import settings
from nnet3.model.xconfig.term import rounded

_CONFIG = re.compile(
    r"(mean(?:\+stddev)?(?:\+count)?)\(([-+]?\d{1,10}):([-+]?\d{1,10}):([-+]?\d{1,10}):([-+]?\d{1,10})\)"
)
_PATTERN = "mean+stddev+count(-LEFT:INPUT-PERIOD:STATS-PERIOD:RIGHT)"
_MOST_FRAMES = 2**31


class _Window(NamedTuple):
    """Frames to the left and right that statistics cover; periods of input and output."""

    left: int
    right: int
    input_period: int
    stats_period: int
    has_stddev: bool
    has_count: bool

    def dim(self, input_dim: int) -> int:
        return input_dim * (2 if self.has_stddev else 1) + self.has_count


def _window(layer: Layer) -> _Window:
    """Parses the config. Raises ConfigError if it breaks a rule."""
    match = _CONFIG.search(layer["config"])
    if match is None:
        layer.require(False, "config", f"must be such as {_PATTERN}, with '+stddev' and '+count' or without")
        raise AssertionError
    left, input_period, stats_period, right = (int(number) for number in match.groups()[1:])
    left = -left
    rules = {
        "LEFT and RIGHT must not be to the other side": left >= 0 and right >= 0,
        "periods must be > 0": input_period > 0 and stats_period > 0,
    }
    if all(rules.values()):
        rules["STATS-PERIOD must divide LEFT and RIGHT"] = left % stats_period == 0 and right % stats_period == 0
        rules["INPUT-PERIOD must divide STATS-PERIOD"] = stats_period % input_period == 0
        rules["numbers must fit 32 bits"] = max(left, right, stats_period) < _MOST_FRAMES
    for rule, holds in rules.items():
        layer.require(holds, "config", f"is {_PATTERN}, and {rule}")
    what = match.group(1)
    return _Window(left, right, input_period, stats_period, "stddev" in what, "count" in what)


def _settle(layer: Layer) -> None:
    dim = _window(layer).dim(layer.input_dim)
    layer.require(layer["dim"] in (dim, -1) or layer["dim"] <= 0, "dim", f"must be {dim}, as the config has it")
    layer["dim"] = dim


def _expand(layer: Layer, expander: Expander) -> None:
    window = _window(layer)
    extraction, pooling = (f"{layer.name}-{what}-{window.left}-{window.right}" for what in ("extraction", "pooling"))
    extract = settings(
        input_dim=layer.input_dim,
        input_period=window.input_period,
        output_period=window.stats_period,
        include_variance=window.has_stddev,
    )
    pool = settings(
        input_dim=1 + layer.input_dim * (2 if window.has_stddev else 1),
        input_period=window.stats_period,
        left_context=window.left,
        right_context=window.right,
        num_log_count_features=int(window.has_count),
        output_stddevs=window.has_stddev,
    )
    statistics = expander.named_pair(extraction, "StatisticsExtractionComponent", extract, layer.input)
    pooled = expander.named_pair(pooling, "StatisticsPoolingComponent", pool, statistics)
    expander.output(rounded(pooled, window.stats_period), layer["dim"])


def _read_config(found: Found) -> str | None:
    """Returns the config from the settings of the extraction and the pooling."""
    extraction = found.network.settings(next((c for c in found.components if "-extraction-" in c), ""))
    pooling = found.network.settings(next((c for c in found.components if "-pooling-" in c), ""))
    if not extraction or not pooling:
        return None
    what = "mean" + "+stddev" * bool(extraction.get("include-variance"))
    what += "+count" * bool(pooling.get("num-log-count-features"))
    window = -pooling["left-context"], extraction["input-period"], pooling["input-period"], pooling["right-context"]
    return f"{what}({':'.join(map(str, window))})"


LAYER_TYPES = (
    LayerType(
        "stats-layer",
        "Mean, if asked for also standard deviation and logarithm of the count, of the input over a window of frames.",
        (
            Key.of("dim", -1, "Number of columns of the output.", absent="what the config makes it"),
            Key.of("config", "", f"The window: {_PATTERN}.", Rule(f"such as {_PATTERN}", bool)),
        ),
        _expand,
        _settle,
        example="config=mean+stddev(-99:3:9:99)",
        reads={"config": _read_config},
    ),
)
