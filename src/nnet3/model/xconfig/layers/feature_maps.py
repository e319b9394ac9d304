"""Layers on whole filters: channel-average-layer, combine-feature-maps-layer."""

from __future__ import annotations

from nnet3.base.text.values import above, at_least
from nnet3.model.xconfig.expansion import Expander
from nnet3.model.xconfig.found import Found, Read, output_dim
from nnet3.model.xconfig.layer import Key, Layer, LayerType
from nnet3.model.xconfig.layers.common import REQUIRED_DIM
from nnet3.model.xconfig.statements import settings

_MOST_COLUMNS = 10**6
_FILTERS = ("num-filters1", "num-filters2", "num-filters3")


def _settle_average(layer: Layer) -> None:
    input_dim = layer.input_dim
    layer.require(input_dim % layer["dim"] == 0, "dim", f"must divide the input's dimension ({input_dim})")


def _expand_average(layer: Layer, expander: Expander) -> None:
    dim, input_dim = layer["dim"], layer.input_dim
    block = settings(input_dim=input_dim, output_dim=dim, scale=dim / input_dim)
    expander.output(expander.pair("", "SumBlockComponent", block, layer.input), dim)


def _settle_combine(layer: Layer) -> None:
    total = sum(layer[key] for key in _FILTERS) * layer["height"]
    rule = f"times the sum of the numbers of filters must be the input's dimension ({layer.input_dim})"
    layer.require(total == layer.input_dim, "height", rule)
    layer.require(total <= _MOST_COLUMNS, "height", f"makes an image of more than {_MOST_COLUMNS} columns")


def _expand_combine(layer: Layer, expander: Expander) -> None:
    """Images one after the other become one with all filters: at each height those of each image in turn."""
    columns: list[int] = []
    for height in range(layer["height"]):
        start = 0
        for key in _FILTERS:
            filters = layer[key]
            columns += range(start + height * filters, start + (height + 1) * filters)
            start += layer["height"] * filters
    column_map = settings(column_map=",".join(map(str, columns)))
    expander.output(expander.pair("", "PermuteComponent", column_map, layer.input), layer.input_dim)


def _read_sizes(found: Found) -> tuple[int, int, int, int]:
    """Returns height and filters of three images from the columns: each height has a run of each image."""
    columns = found.get("", "column-map") or ()
    breaks = [j for j in range(1, len(columns)) if columns[j] != columns[j - 1] + 1]
    if len(breaks) < 2:
        return 1, 1, len(columns) - 1, 0  # all in order: of height 1, wherever the first image ends
    first, second = breaks[0], breaks[1] - breaks[0]
    height = columns[first] // first
    return height, first, second, len(columns) // max(height, 1) - first - second


def _size(number: int) -> Read:
    return lambda found: _read_sizes(found)[number]


LAYER_TYPES = (
    LayerType(
        "channel-average-layer",
        "The mean of the columns that are `dim` columns apart: for each filter, if dim filters are side by side.",
        (REQUIRED_DIM,),
        _expand_average,
        _settle_average,
        example="dim=512",
        reads={"dim": output_dim("")},
    ),
    LayerType(
        "combine-feature-maps-layer",
        "Two or three images of equal height, one after the other, made one image with the filters of all.",
        (
            Key.of("num-filters1", -1, "Filters of the first image.", above(0)),
            Key.of("num-filters2", -1, "Filters of the second image.", above(0)),
            Key.of("num-filters3", 0, "Filters of the third image.", at_least(0), absent="two images"),
            Key.of("height", -1, "Height of the images.", above(0)),
        ),
        _expand_combine,
        _settle_combine,
        example="height=40 num-filters1=1 num-filters2=4",
        reads={
            "height": _size(0),
            "num-filters1": _size(1),
            "num-filters2": _size(2),
            "num-filters3": _size(3),
        },
    ),
)
