"""TorchModule: a network as PyTorch people know it."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from nnet3.compiler import ComputationCache, default_cache
from nnet3.decode.pieces import is_the_same_in_pieces
from nnet3.errors import NetworkError
from nnet3.nnet import AcousticModel, Nnet
from nnet3.nnet.conversion import check_number
from nnet3.train.torch_module.arguments import (
    checked_factor,
    checked_features,
    checked_ivectors,
    checked_lengths,
    checked_names,
    checked_network,
)
from nnet3.train.torch_module.component_module import ComponentModule, component_modules
from nnet3.train.torch_module.function import Flight, RunNetwork
from nnet3.train.torch_module.layout import BatchShape, Framing, batch_layout
from nnet3.train.torch_module.programs import Needs, Program, Programs
from nnet3.train.torch_module.tree import flat_components, grow
from nnet3.train.torch_module.views import NetworkView

_MADE_ANEW = ("_programs", "_cache", "_component_modules", "_seen", "_memory")


class TorchModule(nn.Module):
    """A network, or an acoustic model, as a `torch.nn.Module`.

        module = nnet3.TorchModule(nnet)
        outputs = module(features)                      # (batch, time, dim) -> (batch, output frames, outputs)
        loss_function(outputs, targets).backward()      # by the network's own backward pass
        optimizer.step()                                # torch.optim; the network's own parameters change
        module.nnet.save("tuned.raw")

    **Frames.** Output frame i of a sequence is the network's output at t = i * frame_subsampling_factor; there are
    ceil(length / frame_subsampling_factor). The context that the network needs at the ends is made by repeating the
    first and the last frame, as `nnet.compute` does. Rows beyond the `lengths` of a padded batch have no influence on
    anything; outputs there are 0.

    **Parameters** are named as in the network (`module.tdnn1.affine.linear_params`), and are the network's own
    memory: what changes one changes the other. Gradients are plain sums: no natural gradient, learning-rate factors,
    max-change, l2 or self-repair, which belong to nnet3's own training. Parameters that do not require grad cost
    nothing: no update is computed for them, and no derivative below the lowest one that learns.

    **Modes.** `train()` and `eval()`, of the module or of a part of it, say how batch-norm and dropout behave,
    whatever modes the network itself has, which stay as they are. In training the running statistics of batch-norm
    are added to and then multiplied by `batchnorm_stats_scale`, as in Kaldi's trainer (only added to inside a
    composite component, and there by the backward pass). `torch.manual_seed` says what dropout draws.

    **Dtypes.** Features must have the dtype and be on the device of the parameters. Under autocast they are converted
    to it, and the network computes in the dtype of its parameters: for bfloat16 convert the module.
    """

    def __init__(
        self,
        nnet: Nnet | AcousticModel,
        *,
        frame_subsampling_factor: int = 1,
        outputs: list[str] | None = None,
        batchnorm_stats_scale: float = 0.8,
        cache: ComputationCache | None = None,
    ) -> None:
        """`outputs`: names of the output nodes to compute, by default all. With several a forward gives a dict.

        Raises ArgumentError for anything but a network or a model, NetworkError for a network that is not simple
        (inputs `input` and maybe `ivector`).
        """
        super().__init__()
        self._model = nnet
        network = checked_network(self._network)
        self.frame_subsampling_factor = checked_factor(frame_subsampling_factor)
        self.batchnorm_stats_scale = float(
            np.float32(check_number("batchnorm_stats_scale", batchnorm_stats_scale, 0.0))
        )
        self._output_names = checked_names(network, outputs)
        self._framing = Framing(network.left_context, network.right_context, self.frame_subsampling_factor)
        self._rows_are_independent = is_the_same_in_pieces(network)
        self._cache = cache
        self._memory = network.flat_parameters()  # now, so that it moves no memory later
        grow(self, network.components)
        self._begin()

    # ---- the network ----

    @property
    def nnet(self) -> Nnet | AcousticModel:
        """What the module was made of: `module.nnet.save(path)` writes it with its parameters as they are now."""
        self.align()
        return self._model

    @property
    def _network(self) -> Nnet:
        return self._model.nnet if isinstance(self._model, AcousticModel) else self._model

    def _begin(self) -> None:
        """What is made anew in copies."""
        self._programs = Programs()
        components = self._network.components
        by_name = {module.component_name: module for module in component_modules(self)}
        self._component_modules = [by_name[name] for name, _ in flat_components(components)]
        self._seen = self._network.nodes, list(components.values())

    def align(self) -> None:
        """Let module and network share all memory again after either was converted, moved or loaded.

        Done before each forward and whatever else looks at both. Raises NetworkError if the network has got other
        nodes or components.
        """
        network, (nodes, components) = self._network, self._seen
        now = network.components.values()
        if network.nodes is not nodes or len(now) != len(components) or not all(map(operator.is_, now, components)):
            raise NetworkError("the network has got other nodes or components: make a new TorchModule of it")
        for module in self._component_modules:
            module.align()

    def _tensors(self) -> list[tuple[nn.Parameter, Tensor]]:
        """The parameters, and the tensors of the network that they are."""
        found: dict[int, tuple[nn.Parameter, Tensor]] = {}
        for module in self._component_modules:
            for parameter, tensor in module.tensors():
                found.setdefault(id(parameter), (parameter, tensor))
        return list(found.values())

    # ---- what PyTorch calls ----

    def _apply(self, fn: Any, recurse: bool = True) -> TorchModule:
        super()._apply(fn, recurse)
        self._memory = self._network.flat_parameters()
        self.align()
        self._programs.clear()
        return self

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name not in _MADE_ANEW}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self._cache = None
        self._memory = self._network.flat_parameters()
        tied: dict[int, nn.Parameter] = {}
        by_name = {module.component_name: module for module in component_modules(self)}
        for name, component in flat_components(self._network.components):
            by_name[name].attach(component, tied)
        self._begin()

    # ---- running ----

    def output_lengths(self, lengths: Any) -> Tensor:
        """How many output frames sequences of these many frames have: int64, in the shape of `lengths`."""
        given = torch.as_tensor(lengths)
        return (given.long() + self.frame_subsampling_factor - 1) // self.frame_subsampling_factor

    def forward(
        self, features: Tensor, ivectors: Tensor | None = None, lengths: Any = None
    ) -> Tensor | dict[str, Tensor]:
        """Outputs (batch, output frames, dim) for features (batch, frames, dim): a tensor, or if there are several
        outputs a dict by name.

        `ivectors` (batch, dim) if the network has an input `ivector`. `lengths` (batch,): how many frames of each
        sequence are there; a tensor, an array or a list of integers.
        Raises ArgumentError for wrong shapes, dtypes or devices, NotComputableError for sequences that are too short
        for the network.
        """
        self.align()
        tensors = self._tensors()
        like = next((parameter for parameter, _ in tensors), None)
        features = checked_features(features, self._network.node_dim("input"), like)
        ivectors = checked_ivectors(ivectors, features, self._network, like)
        counts = checked_lengths(lengths, features)
        flight = self._flight(features, ivectors, counts, tensors)
        if flight.program.needs.backward:
            outputs = RunNetwork.apply(flight, features, ivectors, *(parameter for parameter, _ in tensors))
        else:
            with torch.no_grad():
                outputs = flight.forward(features, ivectors)
        self._after_forward()
        if len(self._output_names) == 1:
            return outputs[0]
        return dict(zip(self._output_names, outputs, strict=True))

    def _flight(
        self,
        features: Tensor,
        ivectors: Tensor | None,
        lengths: np.ndarray | None,
        tensors: list[tuple[nn.Parameter, Tensor]],
    ) -> Flight:
        needs = Needs()
        if torch.is_grad_enabled():
            needs = Needs(
                tuple(number for number, (parameter, _) in enumerate(tensors) if parameter.requires_grad),
                features.requires_grad,
                ivectors is not None and ivectors.requires_grad,
            )
        modes = tuple(module.training for module in self._component_modules if module.has_modes)
        exact = lengths is not None and not (self._rows_are_independent and not self._running_statistics())
        present = tuple(lengths.tolist()) if exact and lengths is not None else None
        shape = BatchShape(features.shape[0], features.shape[1], present)
        key = shape, needs, modes, features.device, features.dtype
        program = self._programs.get(key, lambda: self._program(shape, needs, features.device, tensors))
        layout = program.layout
        if lengths is not None and not exact:
            layout = batch_layout(shape, self._framing, lengths, features.device)
        return Flight(program, layout, len(tensors), self._memory)

    def _program(
        self, shape: BatchShape, needs: Needs, device: torch.device, tensors: list[tuple[nn.Parameter, Tensor]]
    ) -> Program:
        wanted = [tensors[number][1] for number in needs.parameters]
        learning = {id(tensor) for tensor in wanted}
        frozen = [
            name
            for name, component in self._network.components.items()
            if needs.backward and not any(id(tensor) in learning for tensor in component.parameters().values())
        ]
        training = {id(module.component): module.training for module in self._component_modules if module.has_modes}
        view = NetworkView(self._network, training=training, frozen=frozen)
        layout = batch_layout(shape, self._framing, None, device)
        cache = default_cache() if self._cache is None else self._cache
        return Program(view, layout, needs, self._output_names, wanted, cache, device)

    def _running_statistics(self) -> list[ComponentModule]:
        """The modules of batch-norm that are in training mode."""
        return [module for module in self._component_modules if module.training and module.has_running_statistics]

    def _after_forward(self) -> None:
        """Let running statistics of top-level components fade, and tell the buffers."""
        for module in self._running_statistics():
            component = self._network.components.get(module.component_name)
            if component is not None:
                component.scale_stats_(self.batchnorm_stats_scale)
            module.align()
