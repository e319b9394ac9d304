"""A simple network over one utterance, whole or in chunks as Kaldi's nnet3-compute runs it; `nnet.compute`."""

from __future__ import annotations

import operator
import threading
import weakref
from collections.abc import Callable
from itertools import chain
from typing import NamedTuple, TypeVar, cast

import torch
from torch import Tensor

from nnet3.base.options.compiling import CompileOptions
from nnet3.base.options.declaring import Options
from nnet3.base.options.utterances import UtteranceOptions
from nnet3.engine.ir.matrices import Matrix
from nnet3.errors import check_kind
from nnet3.inference.inputs import checked_inputs
from nnet3.inference.running import ChunkRunner
from nnet3.inference.scores import Scoring, priors_of
from nnet3.model.nnet import AcousticModel, Nnet, device_of, network_of
from nnet3.model.nnet.fingerprint import with_parts

O = TypeVar("O", bound=Options)
C = TypeVar("C")


class UtteranceComputer:
    """Computes output `output` of a simple network, utterance by utterance. Threads take turns.

    The network runs in test mode, regardless of its mode. Later changes of parameters in place are seen; changes of the
    structure or of batch-norm statistics are not.

    `options` give the chunks; without options (`frames_per_chunk` 0) an utterance of any length is run whole. If a run
    takes more than 1 GiB besides features and outputs, the utterance is run in pieces that take less, provided that
    pieces make no difference: not for networks with recurrences, statistics or attention.
    """

    def __init__(
        self,
        nnet: Nnet,
        options: UtteranceOptions | None = None,
        device: str | torch.device = "cpu",
        *,
        compile_options: CompileOptions | None = None,
        debug: bool = False,
    ):
        self.options = options or UtteranceOptions()
        self._runner = ChunkRunner(nnet, self.options, device, compile_options=compile_options, debug=debug)
        self.nnet, self.device = self._runner.nnet, device

    def compute(self, features: Matrix, ivector: Matrix | None = None, online_ivectors: Matrix | None = None) -> Tensor:
        """Returns outputs (frames / subsampling factor, rounded up; dim), on the device, for features (frames, dim).

        A network with an input `ivector` is given either one vector (dim,) for the utterance, or online ivectors (rows,
        dim), one every `online_ivector_period` frames: a chunk takes the ivector at the chunk's middle. Matrices are
        tensors or arrays of any float or integer dtype. Raises ExecutionError if sizes do not fit, if the input or the
        output is not finite, or if a chunk would need more memory than 4 GiB; NotComputableError if the network cannot
        be computed from such an input.
        """
        inputs = checked_inputs(self.nnet, self.device, features, ivector, online_ivectors)
        chunks = self._runner.chunks(len(inputs.features))
        first = self._runner.run([(inputs, chunks[0])])[0]
        if len(chunks) == 1:
            return first
        rows = first.new_empty(chunks[-1].start + chunks[-1].num_outputs, first.shape[1])
        rows[: len(first)] = first
        for chunk in chunks[1:]:
            rows[chunk.start : chunk.start + chunk.num_outputs] = self._runner.run([(inputs, chunk)])[0]
        return rows


class _Kept(NamedTuple):
    """The computer of a network, and the network's state at the time: objects and facts."""

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
    """Returns output `output` of a simple network or model for an utterance; arguments as in `nnet3.Nnet.compute`."""
    check_kind(use_priors, bool, "use_priors", "True or False")
    nnet = network_of(model)
    scoring = Scoring(priors_of(model) if use_priors else None)
    computer = kept_computer(nnet, UtteranceOptions.named(**options), UtteranceComputer)
    rows = computer.compute(features, ivector, online_ivectors)
    return scoring.apply(rows)


def kept_computer(nnet: Nnet, options: O, make: Callable[[Nnet, O, torch.device], C]) -> C:
    """Returns the last call's computer, with its compiled programs, unless network, options or device changed."""
    device = device_of(nnet)
    objects, facts = _state(nnet)
    facts += [options, device, make]
    with _LOCK:
        kept = _KEPT.get(nnet)
        if kept is None or not kept.is_for(objects, facts):
            kept = _KEPT[nnet] = _Kept(objects, facts, make(nnet, options, device))
        return cast(C, kept.computer)


def _state(nnet: Nnet) -> tuple[list[object], list[object]]:
    """Returns the objects and facts under a computer: nodes, components, their settings and tensors.

    Values of tensors do not count: the computer shares the tensors.
    """
    flat = with_parts(nnet.components.values())
    values = list(chain.from_iterable(vars(each).values() for each in flat))
    facts: list[object] = [nnet.given_dtype, *nnet.components, *chain.from_iterable(map(vars, flat))]
    facts += [(each.dtype, each.device, each.data_ptr()) for each in values if isinstance(each, Tensor)]
    return [nnet.parts.nodes, *flat, *values], facts
