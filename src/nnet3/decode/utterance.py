"""A simple network over one utterance, whole or in chunks, as Kaldi's nnet3-compute runs it."""

from __future__ import annotations

import torch
from torch import Tensor

from nnet3.decode.inputs import checked_inputs
from nnet3.decode.running import ChunkRunner
from nnet3.ir.matrices import Matrix
from nnet3.nnet import Nnet
from nnet3.options import CompileOptions, UtteranceOptions


class UtteranceComputer:
    """Computes output `output` of a simple network for one utterance after another. Threads take turns.

    The network runs in test mode, whatever mode it is in. Later changes of parameters in place are seen; changes of its
    structure or its batch-norm statistics are not.

    `options` give the chunks; without (`frames_per_chunk` 0) an utterance of any length is run whole. If that takes
    more than 1 GiB besides features and outputs, it is run in pieces that take less, provided that these make no
    difference: not for networks with recurrences, statistics or attention.
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

        A network with an input `ivector` is given either one vector (dim,) for the utterance, or online ones
        (rows, dim), one every `online_ivector_period` frames, of which each chunk takes the one at its middle.
        Matrices are tensors or arrays of any float or integer dtype.
        Raises ExecutionError if sizes do not fit, if the input or the output is not finite, or if a chunk would need
        more memory than 4 GiB; NotComputableError if the network cannot be computed from such an input.
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
