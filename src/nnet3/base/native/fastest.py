"""Which product of float32 matrices is fastest on this processor: measured at the first use.

PyTorch multiplies by MKL, which is slow on some processors. Native code multiplies by panels, or by the units for
matrices that some processors have (AMX), and oneDNN has an order of weights of its own. The fastest depends on the
processor's vectors and caches, not on the maker's name. Some products of usual sizes are timed once, which takes a
tenth of a second; the result is kept beside the library.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from functools import cache, partial
from typing import NamedTuple

import torch
from torch import Tensor

from nnet3.base.native import panels
from nnet3.base.native.library import kept_beside_library, library
from nnet3.base.native.onednn import OneDnnWeights
from nnet3.base.native.panels import Panels

#: Rows, inner size and columns of products with packed weights, and of those whose weights change.
_OF_PACKED = ((17, 1024, 160), (50, 320, 768), (4, 512, 512))
_OF_CHANGING = ((128, 768, 160), (256, 160, 768))
_TIMES = 7  # the least of so many counts
_CLEARLY = 0.95  # of the time of PyTorch: anything slower is not worth another order of additions

Multiply = Callable[[Tensor, Tensor, Tensor], object]  # x, y, the vector that is added
Maker = Callable[[Tensor], Multiply]  # of weights (columns, inner)


class Fastest(NamedTuple):
    """`packed`: the order of weights of many products, "panels", "onednn", or "" for PyTorch's own product.

    `changing`: what multiplies weights that change: "amx", "panels", or "".
    """

    packed: str
    changing: str


@cache
def fastest() -> Fastest:
    """Returns what is fastest here. Without native code oneDNN may still be faster than PyTorch's own product."""
    if library() is None:
        return _measured({"onednn": _by_onednn}, {})
    packed, changing = {"panels": _by_panels, "onednn": _by_onednn}, {"panels": _as_they_lie, "amx": _by_amx}
    return _read(kept_beside_library(f"products-{torch.__version__}", lambda: _written(_measured(packed, changing))))


def _measured(packed: Mapping[str, Maker], changing: Mapping[str, Maker]) -> Fastest:
    """Returns the fastest of the orders of packed weights, and of the products of weights as they lie."""
    return Fastest(_best(_OF_PACKED, packed), _best(_OF_CHANGING, changing))


def _best(sizes: tuple[tuple[int, int, int], ...], makers: Mapping[str, Maker]) -> str:
    """Returns the name of the fastest; "" if PyTorch is about as fast."""
    ratios = {"": _CLEARLY} | {name: _ratio(sizes, make) for name, make in makers.items()}
    return min(ratios, key=lambda name: ratios[name])


def _by_panels(weights: Tensor) -> Multiply:
    return Panels(weights).multiply


def _by_onednn(weights: Tensor) -> Multiply:
    return OneDnnWeights(weights).multiply


def _as_they_lie(weights: Tensor) -> Multiply:
    return lambda x, y, bias: panels.product(y, x, weights.T, bias)


def _by_amx(weights: Tensor) -> Multiply:
    if not panels.has_amx():
        raise RuntimeError("there is no AMX")
    return lambda x, y, bias: panels.product(y, x, weights.T, bias, by_amx=True)


def _ratio(sizes: tuple[tuple[int, int, int], ...], make: Maker) -> float:
    """Returns the time of the products, all together, by PyTorch's time; infinite if they are wrong or missing."""
    own = others = 0.0
    for rows, inner, columns in sizes:
        x, weights, bias = torch.rand(rows, inner), torch.rand(columns, inner), torch.rand(columns)
        y, expected = torch.empty(rows, columns), torch.empty(rows, columns)
        try:
            seconds = _seconds(
                partial(make(weights), x, y, bias), partial(torch.addmm, bias, x, weights.T, out=expected)
            )
        except (AttributeError, RuntimeError):
            return math.inf
        if not torch.allclose(y, expected, rtol=1e-4):
            return math.inf
        others, own = others + seconds[0], own + seconds[1]
    return others / own


def _seconds(*calls: Callable[[], object]) -> list[float]:
    """Returns the least time of each call. Calls are made in turns, so that other work slows all of them alike."""
    least = [math.inf] * len(calls)
    for _ in range(_TIMES):
        for number, call in enumerate(calls):
            begin = time.perf_counter()
            call()
            least[number] = min(least[number], time.perf_counter() - begin)
    return least


def _written(found: Fastest) -> bytes:
    return f"{found.packed},{found.changing}".encode()


def _read(contents: bytes) -> Fastest:
    packed, changing = contents.decode().split(",")
    return Fastest(packed, changing)
