"""An example of each layer type: a few lines of an xconfig, and what the layer in it stands for."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from nnet3.errors import ConfigError
from nnet3.xconfig.expand import ExpandedLayer, expand_xconfig
from nnet3.xconfig.registry import LAYER_TYPES

_INPUT_DIMS = (40, 200, 2560, 1536)  # features, images, images with filters, hidden layers
_NAMES = {"input": "input", "output": "output", "output-layer": "output"}


@dataclass(frozen=True)
class LayerExample:
    """Lines of an xconfig, the last of which is the layer, and that layer."""

    lines: tuple[str, ...]
    expanded: ExpandedLayer


@cache
def example_of(layer_type: str) -> LayerExample:
    """The example of a layer type. An assertion fails if it is none, which the tests exclude."""
    kind = LAYER_TYPES[layer_type]
    line = f"{layer_type} name={_NAMES.get(layer_type, 'layer1')} {kind.example}".strip()
    before = ["input name=ivector dim=100"] if "ivector" in line else []
    for dim in _INPUT_DIMS:
        lines = (*before, f"input name=input dim={dim}", line) if kind.has_input else (line,)
        try:
            return LayerExample(lines, expand_xconfig("\n".join(lines)).layers[-1])
        except ConfigError:
            continue
    raise AssertionError(f"the example of {layer_type} is wrong")
