"""Runs a network over examples as it is, for what is gathered of its outputs: posteriors, statistics of features."""

from __future__ import annotations

import torch
from torch import Tensor

from nnet3.nnet import Nnet
from nnet3.train.evaluation import with_modes
from nnet3.train.minibatch import Minibatch, MinibatchComputers, naming


class ExampleOutputs:
    """Computes outputs for minibatches; batch-norm and dropout stay in the modes of the network.

    Outside test mode batch-norm takes the statistics of each minibatch. The network stays as it is.
    """

    def __init__(self, nnet: Nnet) -> None:
        self._computers = MinibatchComputers(
            with_modes(nnet, batchnorm_test_mode=False, dropout_test_mode=False), None, None, store_stats=False
        )

    @torch.no_grad()
    def compute(self, minibatch: Minibatch) -> dict[str, Tensor]:
        """Returns the outputs (rows, columns) that the targets name, by node. Errors name the minibatch."""
        names = [target.name for target in minibatch.targets]
        with naming(minibatch):
            computer = self._computers.run_forward(minibatch, [(name,) for name in names])
            return {name: computer.get_output(name) for name in names}
