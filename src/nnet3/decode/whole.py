"""The short way from a model and features to outputs, which `nnet.compute` and `am.compute` take."""

from __future__ import annotations

import threading
import weakref
from typing import NamedTuple

import torch
from torch import Tensor

from nnet3.components import Component
from nnet3.decode.scores import Scoring, log_priors
from nnet3.decode.utterance import UtteranceComputer, with_options
from nnet3.errors import NetworkError, check_kind
from nnet3.ir.matrices import Matrix
from nnet3.nnet import AcousticModel, Nnet
from nnet3.options import UtteranceOptions


class _Kept(NamedTuple):
    """The computer of a network, and a fingerprint of the network and the options that it was made for."""

    fingerprint: tuple[object, ...]
    computer: UtteranceComputer


_KEPT: weakref.WeakKeyDictionary[Nnet, _Kept] = weakref.WeakKeyDictionary()
_LOCK = threading.Lock()


def compute_utterance(
    model: Nnet | AcousticModel,
    features: Matrix,
    ivector: Matrix | None = None,
    online_ivectors: Matrix | None = None,
    use_priors: bool = False,
    **options: int,
) -> Tensor:
    """Returns output `output` of a simple network for an utterance; see `nnet3.Nnet.compute`."""
    check_kind(use_priors, bool, "use_priors", "True or False")
    nnet = model.nnet if isinstance(model, AcousticModel) else model
    scoring = Scoring(_priors(model) if use_priors else None)
    rows = _computer(nnet, with_options(**options)).compute(features, ivector, online_ivectors)
    return scoring.apply(rows)


def _priors(model: Nnet | AcousticModel) -> Tensor:
    priors = log_priors(model) if isinstance(model, AcousticModel) else None
    if priors is None:
        kind = "this acoustic model has none" if isinstance(model, AcousticModel) else "a raw network has none"
        raise NetworkError(f"use_priors was asked for, but {kind}: do without, or set them (am.priors = ...)")
    return priors


def _computer(nnet: Nnet, options: UtteranceOptions) -> UtteranceComputer:
    """Returns the computer of the last call, with what it has compiled, unless something has changed."""
    device = next((t.device for c in nnet.components.values() for t in c.parameters().values()), torch.device("cpu"))
    fingerprint = (options, device, nnet.parts.nodes, *_state(nnet))
    with _LOCK:
        kept = _KEPT.get(nnet)
        if kept is None or kept.fingerprint != fingerprint:
            kept = _KEPT[nnet] = _Kept(fingerprint, UtteranceComputer(nnet, options, device))
        return kept.computer


def _state(nnet: Nnet) -> list[object]:
    """Returns what a computer depends on: components, their settings and tensors.

    Values of tensors do not count: they are shared with the computer.
    """
    state: list[object] = []
    for name, component in nnet.components.items():
        state.append(name)
        _add_state(component, state)
    return state


def _add_state(component: Component, state: list[object]) -> None:
    state.append(id(component))
    for key, value in vars(component).items():
        if isinstance(value, Tensor):
            state += [key, id(value), value.dtype, value.device, value.data_ptr()]
        elif isinstance(value, bool | int | float | str | tuple) and not key.startswith("_"):
            state += [key, value]
        elif isinstance(value, list):
            for part in value:
                if isinstance(part, Component):
                    _add_state(part, state)
