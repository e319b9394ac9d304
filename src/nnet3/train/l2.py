"""Pulling parameters towards zero (docs/formulas.md, l2 regularisation)."""

from __future__ import annotations

from nnet3.nnet import Nnet


def add_l2(delta: Nnet, nnet: Nnet, scale: float) -> None:
    """delta -= 2 scale rate l2 times the model, in components whose `l2_regularize` is not 0; rates are the delta's."""
    for name, component in delta.components.items():
        updatable = component.updatable
        if updatable is not None and updatable.l2_regularize != 0.0:
            factor = -2.0 * scale * updatable.learning_rate * updatable.l2_regularize
            updatable.add_(factor, nnet.components[name])
