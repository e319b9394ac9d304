"""The short way from a model and features to outputs, which `nnet.compute` and `am.compute` take."""

from __future__ import annotations

import operator
import threading
import weakref
from collections.abc import Callable
from itertools import chain
from typing import NamedTuple, TypeVar, cast

import torch
from torch import Tensor

from nnet3.decode.scores import Scoring, priors_of
from nnet3.decode.utterance import UtteranceComputer
from nnet3.errors import check_kind
from nnet3.ir.matrices import Matrix
from nnet3.nnet import AcousticModel, Nnet
from nnet3.nnet.fingerprint import with_parts
from nnet3.options import Options, UtteranceOptions

O = TypeVar("O", bound=Options)
C = TypeVar("C")


class _Kept(NamedTuple):
    """The computer of a network, and the state for which it was made: objects that it had, and facts."""

    objects: list[object]
    facts: list[object]
    computer: object

    def is_for(self, objects: list[object], facts: list[object]) -> bool:
        same = len(objects) == len(self.objects) and all(map(operator.is_, objects, self.objects))
        return same and facts == self.facts


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
    scoring = Scoring(priors_of(model) if use_priors else None)
    computer = kept_computer(nnet, UtteranceOptions.named(**options), UtteranceComputer)
    rows = computer.compute(features, ivector, online_ivectors)
    return scoring.apply(rows)


def kept_computer(nnet: Nnet, options: O, make: Callable[[Nnet, O, torch.device], C]) -> C:
    """Returns the computer that the last call made, with what it has compiled, unless something has changed."""
    components = nnet.components.values()
    held = (getattr(each, key) for each in components for key in each.parameter_names + each.constant_names)
    device = next((tensor.device for tensor in held), torch.device("cpu"))
    objects, facts = _state(nnet)
    facts += [options, device, make]
    with _LOCK:
        kept = _KEPT.get(nnet)
        if kept is None or not kept.is_for(objects, facts):
            kept = _KEPT[nnet] = _Kept(objects, facts, make(nnet, options, device))
        return cast(C, kept.computer)


def _state(nnet: Nnet) -> tuple[list[object], list[object]]:
    """Returns what a computer depends on: nodes, components, their settings and tensors.

    Values of tensors do not count: they are shared with the computer.
    """
    flat = with_parts(nnet.components.values())
    values = list(chain.from_iterable(vars(each).values() for each in flat))
    facts: list[object] = [*nnet.components, *chain.from_iterable(map(vars, flat))]
    facts += [(each.dtype, each.device, each.data_ptr()) for each in values if isinstance(each, Tensor)]
    return [nnet.parts.nodes, *flat, *values], facts
