"""Averages of networks, as after parallel training."""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence

from nnet3.errors import NetworkError
from nnet3.model.nnet.network import Nnet

_LOG = logging.getLogger("nnet3")
_ROUNDING = 1e-7  # of a sum of float32 numbers, in parts of their size


def average(
    models: Sequence[Nnet], weights: Sequence[float] | None = None, *, names: Sequence[str] | None = None
) -> Nnet:
    """Returns the weighted mean of parameters and statistics; all else comes from the first network.

    `weights` (equal by default) are divided by their sum, with a warning in the log if that is not 1. Raises
    NetworkError for networks that differ in components and for weights that cannot be normalised; messages call the
    networks by `names`, or by number.
    """
    if not models:
        raise NetworkError("there are no networks to average")
    shares = _normalized(weights, len(models)) if weights is not None else [1.0 / len(models)] * len(models)
    if names is None:
        names = ["the first network", *(f"network {number}" for number in range(2, len(models) + 1))]
    for name, model in zip(names[1:], models[1:], strict=True):
        _check_alike(models[0], model, names[0], name)
    result = models[0].copy()
    result.scale_(shares[0])
    for share, model in zip(shares[1:], models[1:], strict=True):
        result.add_(share, model)
    return result


def _normalized(weights: Sequence[float], count: int) -> list[float]:
    if len(weights) != count:
        raise NetworkError(f"expected one weight for each of {count} networks, got {len(weights)} weights")
    total = sum(weights)
    if not math.isfinite(total) or abs(total) <= _ROUNDING * sum(map(abs, weights)):
        raise NetworkError(f"the weights are divided by their sum, which must be finite and not 0, got {total:g}")
    if abs(total - 1.0) > 1e-5:
        _LOG.warning("the weights of the networks sum to %g: they are divided by that", total)
    return [weight / total for weight in weights]


def _check_alike(first: Nnet, other: Nnet, first_name: str, other_name: str) -> None:
    """Raises NetworkError unless `other` can be added to the first."""
    absent = [name for name in first.components if name not in other.components]
    extra = [name for name in other.components if name not in first.components]
    for names, here, there in ((absent, first_name, other_name), (extra, other_name, first_name)):
        if names:
            which = f"component{'s' * (len(names) > 1)} '{names[0]}'" + (" ..." if len(names) > 1 else "")
            raise NetworkError(f"{here} has {which}, but {there} has not: they cannot be averaged")
    if list(first.components) != list(other.components):
        raise NetworkError(f"{first_name} and {other_name} do not have their components in the same order")
    for name, component in first.components.items():
        twin = other.components[name]
        shapes, theirs = ({key: tensor.shape for key, tensor in c.parameters().items()} for c in (component, twin))
        if component.type_name != twin.type_name or shapes != theirs:
            raise NetworkError(
                f"component '{name}' is {component!r} in {first_name}, but {twin!r} in {other_name}: "
                "they cannot be averaged"
            )
