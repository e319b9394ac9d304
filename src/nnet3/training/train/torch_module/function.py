"""Runs a program as a node of autograd's graph."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor

from nnet3.training.train.autograd import BackwardOnly, Gradients, only_once
from nnet3.training.train.torch_module.layout import BatchLayout, BatchShape
from nnet3.training.train.torch_module.memory import Witness
from nnet3.training.train.torch_module.programs import ModuleProgram, ProgramWorker
from nnet3.training.train.torch_module.survey import Survey


class Flight:
    """A forward run that waits for its backward run, with a computer to itself until run or forgotten."""

    def __init__(
        self, program: ModuleProgram, shape: BatchShape, layout: BatchLayout, found: Survey, witness: Witness
    ) -> None:
        """`witness` watches what must not change in the network before the backward run."""
        self.program, self.shape, self.layout = program, shape, layout
        self._witness, self._is_random = witness, found.is_random
        self._counting = found.with_running_statistics()
        self._worker: ProgramWorker | None = None
        self._random: Tensor | None = None

    def forward(self, features: Tensor, ivectors: Tensor | None, parameters: Sequence[Tensor]) -> tuple[Tensor, ...]:
        """Returns the outputs, (batch, frames, dim) each."""
        if self._is_random:
            self._random = torch.get_rng_state()
        with _without_autocast(features):
            worker = self.program.forward(self.shape, self._inputs(features, ivectors), parameters)
        for module in self._counting:
            module.finish_statistics()
        self._worker = worker
        outputs = tuple(self.layout.scatter(worker.computer.take_output(n)) for n in self.program.output_names)
        if not self.program.needs.backward:
            self.release()
        return outputs

    def _inputs(self, features: Tensor, ivectors: Tensor | None) -> dict[str, Tensor]:
        inputs = {"input": self.layout.gather(features)}
        return inputs if ivectors is None else {**inputs, "ivector": ivectors}

    def backward(
        self,
        derivs: Sequence[Tensor | None],
        features: Tensor,
        ivectors: Tensor | None,
        parameters: Sequence[Tensor],
    ) -> Gradients:
        """Returns derivatives of the features, the ivectors and all parameters."""
        program = self.program
        self._witness.check("the parameters, statistics or constants of the network")
        with _without_autocast(features):
            if self._worker is None:
                self._forward_again(features, ivectors, parameters)
            worker = self._worker
            assert worker is not None
            wanted = {port.name: (port.num_rows, port.num_cols) for port in worker.computer.wanted()}
            for name, deriv in zip(program.output_names, derivs, strict=True):
                if name in wanted:
                    given = features.new_zeros(wanted[name]) if deriv is None else self.layout.scatter_back(deriv)
                    worker.computer.accept_input(name, given)
            worker.collector.begin()
            worker.computer.run()
        for module in self._counting:  # composites count backward
            module.align()
        gradients: list[Tensor | None] = [None] * len(parameters)
        for number, gradient in zip(program.needs.parameters, worker.collector.take(), strict=True):
            gradients[number] = gradient
        of_features = of_ivectors = None
        if program.needs.features:
            of_features = self.layout.gather_back(worker.computer.take_output("input"), features)
        if program.needs.ivectors:
            of_ivectors = worker.computer.take_output("ivector")
        self.release()
        return of_features, of_ivectors, *gradients

    def _forward_again(self, features: Tensor, ivectors: Tensor | None, parameters: Sequence[Tensor]) -> None:
        """Runs forward for a second backward run (retain_graph=True): the same values, statistics not counted again."""
        now = torch.get_rng_state()
        try:
            if self._random is not None:
                torch.set_rng_state(self._random)
            inputs = self._inputs(features, ivectors)
            self._worker = self.program.forward(self.shape, inputs, parameters, statistics=False)
        finally:
            torch.set_rng_state(now)

    def release(self) -> None:
        """Gives the computer and its memory back."""
        worker, self._worker = self._worker, None
        if worker is not None:
            self.program.give_back(worker)

    def __del__(self) -> None:
        if getattr(self, "_worker", None) is not None:
            self.release()


def _without_autocast(tensor: Tensor) -> AbstractContextManager[Any]:
    device = tensor.device.type
    return torch.autocast(device, enabled=False) if torch.is_autocast_enabled(device) else nullcontext()


class NetworkFunction(BackwardOnly, torch.autograd.Function):
    """Maps features, ivectors (or None) and all parameters to the outputs of a `Flight`."""

    @staticmethod
    def forward(flight: Flight, features: Tensor, ivectors: Tensor | None, *parameters: Tensor) -> tuple[Tensor, ...]:
        return flight.forward(features, ivectors, parameters)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        ctx.flight, *tensors = inputs
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*tensors)

    @staticmethod
    def backward(ctx: Any, *derivs: Tensor | None) -> Gradients:
        flight: Flight = ctx.flight

        def compute(given: Sequence[Any]) -> Gradients:
            features, ivectors, *parameters = given[len(derivs) :]
            return flight.backward(given[: len(derivs)], features, ivectors, parameters)

        # Saved tensors are an error if a parameter was changed since.
        return None, *only_once(compute, "a TorchModule", (*derivs, *ctx.saved_tensors))
