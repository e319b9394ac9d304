"""TorchModule: a network as a module of PyTorch."""

from __future__ import annotations

import operator
from dataclasses import replace
from functools import lru_cache, partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from nnet3.base.options.compiling import CompileOptions
from nnet3.engine.driver import ComputationCache, default_cache
from nnet3.errors import ArgumentError, NetworkError, check_kind, shown
from nnet3.inference.long_utterances import is_the_same_in_pieces
from nnet3.model.nnet import AcousticModel, Nnet, network_of
from nnet3.model.nnet.conversion import check_number
from nnet3.model.nnet.flat_parameters import sent_by_value
from nnet3.model.structure.context import node_contexts
from nnet3.training.train.autograd import checked_lengths, uncompiled
from nnet3.training.train.torch_module.arguments import (
    check_not_traced,
    checked_factor,
    checked_features,
    checked_ivectors,
    checked_names,
    checked_network,
)
from nnet3.training.train.torch_module.batch_norm_module import BatchNormModule, GroupOfProcesses
from nnet3.training.train.torch_module.component_module import component_modules
from nnet3.training.train.torch_module.function import Flight, NetworkFunction
from nnet3.training.train.torch_module.layout import BatchShape, Framing, batch_layout
from nnet3.training.train.torch_module.memory import Witness, check_conversion, convert_component
from nnet3.training.train.torch_module.programs import ModuleProgram, Needs, Programs
from nnet3.training.train.torch_module.survey import Survey, survey, write_back
from nnet3.training.train.torch_module.tree import flat_components, grow, tied_parameters

_MADE_ANEW = ("_programs", "_cache", "_seen", "_memory")


class _SeenParts:
    """The nodes and components of a network. An object, because exporters copy tuples and lists of modules."""

    def __init__(self, network: Nnet) -> None:
        self._nodes, self._components = network.nodes, list(network.components.values())

    def are_those_of(self, network: Nnet) -> bool:
        now = network.components.values()
        is_same = network.nodes is self._nodes and len(now) == len(self._components)
        return is_same and all(map(operator.is_, now, self._components))


@sent_by_value
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
        compile_options: CompileOptions | None = None,
    ) -> None:
        """`outputs`: names of the output nodes to compute, by default all. With several a forward gives a dict.
        `compile_options` says which passes run: `nnet3.CompileOptions(level=0)` for none. It may be set later, too.

        Raises ArgumentError for anything but a network or a model, NetworkError for a network that is not simple
        (inputs `input` and maybe `ivector`).
        """
        super().__init__()
        self._model = nnet
        network = checked_network(self._network)
        self.frame_subsampling_factor = checked_factor(frame_subsampling_factor)
        self._output_names = checked_names(network, outputs)
        contexts = node_contexts(network.parts)  # an output besides `output` may look further
        lefts, rights = zip(*(contexts.get(name, (0, 0)) for name in self._output_names), strict=True)
        left, right = max(network.left_context, *lefts), max(network.right_context, *rights)
        self._framing = Framing(left, right, self.frame_subsampling_factor)
        self._rows_are_independent = is_the_same_in_pieces(network)
        check_kind(cache, (ComputationCache, type(None)), "the cache", "a ComputationCache or None")
        self._cache = cache
        self.compile_options = compile_options
        self._memory = network.flat_parameters()  # now, so that it moves no memory later
        self._paths = grow(self, network.components)
        self.batchnorm_stats_scale = batchnorm_stats_scale
        self._begin()

    @property
    def compile_options(self) -> CompileOptions | None:
        """The options of the compiler; None for the default options."""
        return self._compile_options

    @compile_options.setter
    def compile_options(self, options: CompileOptions | None) -> None:
        check_kind(options, (CompileOptions, type(None)), "the compile_options of a TorchModule", "CompileOptions")
        self._compile_options = options

    @property
    def batchnorm_stats_scale(self) -> float:
        """The factor of running statistics after each forward in training."""
        return self._batchnorm_stats_scale

    @batchnorm_stats_scale.setter
    def batchnorm_stats_scale(self, scale: float) -> None:
        self._batchnorm_stats_scale = float(np.float32(check_number("batchnorm_stats_scale", scale, 0.0)))
        for module in component_modules(self):
            if module.component_name in self._network.components:
                module.statistics_scale = self._batchnorm_stats_scale

    def synchronize_batch_norm(self, process_group: Any = None) -> TorchModule:
        """Normalises batch-norm in training by the rows of all processes of a group (None: of all processes).

        Use it beside `DistributedDataParallel`, in place of `torch.nn.SyncBatchNorm.convert_sync_batchnorm`. All
        processes must run forward and backward equally often. Returns the module.
        """
        for module in component_modules(self):
            if isinstance(module, BatchNormModule):
                module.reduction = GroupOfProcesses(process_group)
        return self

    # ---- the network ----

    @property
    def nnet(self) -> Nnet | AcousticModel:
        """The network or model from which the module was made: `module.nnet.save(path)` writes the present values.

        Parametrized components get their present values. Raises NetworkError if a module unknown to networks
        stands in the place of a component (an nn.Linear of equal size may stand for an affine component).
        """
        components = self._network.components
        for name, replacement in self._look().replacements.items():
            write_back(replacement.module, name, components[name])
        return self._model

    @property
    def _network(self) -> Nnet:
        return network_of(self._model)

    def _begin(self) -> None:
        """Makes what copies do not take along."""
        self._programs = Programs()
        self._seen = _SeenParts(self._network)

    def align(self) -> None:
        """Gives module and network common memory again after either was converted, moved or loaded.

        Every forward aligns first, as does every reader of module and network. Raises NetworkError if the network has
        got other nodes or components, or if a component's module is gone.
        """
        self._look()

    def _look(self) -> Survey:
        """Aligns, and returns a survey of who computes what."""
        network = self._network
        if not self._seen.are_those_of(network):
            raise NetworkError("the network has got other nodes or components: make a new TorchModule of it")
        found = survey(self, network.components, self._paths)
        modules = found.all_modules()
        for module in modules:
            module.align()
        if any(module.has_moved for module in modules):
            self._memory = network.flat_parameters()
            for module in modules:
                module.align()
                module.has_moved = False
        return found

    # ---- what PyTorch calls ----

    def _apply(self, fn: Any, recurse: bool = True) -> TorchModule:
        check_conversion(fn)
        super()._apply(fn, recurse)
        here = {id(module.component) for module in component_modules(self)}
        for _, component in flat_components(self._network.components):
            if id(component) not in here:
                convert_component(component, fn)
        self.align()
        self._programs.clear()
        return self

    def __getstate__(self) -> dict[str, Any]:
        state = {name: value for name, value in self.__dict__.items() if name not in _MADE_ANEW}
        return {**state, "_ties": tied_parameters(self._network.components)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        ties = state.pop("_ties")
        super().__setstate__(state)
        self._cache = None
        components = dict(flat_components(self._network.components))
        for (first, key), *others in ties:
            for name, other in others:
                setattr(components[name], other, getattr(components[first], key))
        self._memory = self._network.flat_parameters()
        tied: dict[int, nn.Parameter] = {}
        for module in component_modules(self):
            if module.component_name in components:
                module.attach(components[module.component_name], tied)
        self._begin()

    # ---- running ----

    def output_lengths(self, lengths: Any) -> Tensor:
        """Returns the output frames of sequences of these many frames: int64, in the shape of `lengths`.

        Raises ArgumentError for a negative number, and for what are no numbers.
        """
        try:
            given = torch.as_tensor(lengths)
        except (TypeError, ValueError, RuntimeError):
            raise ArgumentError(f"lengths are numbers of frames, got {shown(lengths)}") from None
        if (given < 0).any():
            raise ArgumentError(f"lengths are numbers of frames of at least 0, got {given.min().item()}")
        return (given.long() + self.frame_subsampling_factor - 1) // self.frame_subsampling_factor

    @uncompiled("a TorchModule is compiled already, by its own compiler")
    def forward(
        self, features: Tensor, ivectors: Tensor | None = None, lengths: Any = None
    ) -> Tensor | dict[str, Tensor]:
        """Returns outputs (batch, output frames, dim) for features (batch, frames, dim): a tensor, or a dict by name if
        there are several outputs.

        `ivectors` (batch, dim) if the network has an input `ivector`. `lengths` (batch,): the frames that each sequence
        has; a tensor, an array or a list of integers. Raises ArgumentError for wrong shapes, dtypes or devices,
        NotComputableError for sequences that are too short for the network.
        """
        check_not_traced(features)
        found = self._look()
        tensors = (tensor for c in self._network.components.values() for tensor in c.parameters().values())
        like = next((tensor for tensor in tensors if tensor.numel()), None)
        features = checked_features(features, self._network.node_dim("input"), like)
        ivectors = checked_ivectors(ivectors, features, self._network, like)
        batch, frames = features.shape[:2]
        counts = None if lengths is None else checked_lengths(lengths, batch, frames)
        if counts is not None and counts.min() == frames:
            counts = None  # none is shorter than the others
        flight = self._flight(features, ivectors, counts, found)
        outputs = NetworkFunction.apply(flight, features, ivectors, *found.parameters)
        if len(self._output_names) == 1:
            return outputs[0]
        return dict(zip(self._output_names, outputs, strict=True))

    def _flight(self, features: Tensor, ivectors: Tensor | None, lengths: np.ndarray | None, found: Survey) -> Flight:
        needs = Needs()
        if torch.is_grad_enabled():
            needs = Needs(
                tuple(number for number, parameter in enumerate(found.parameters) if parameter.requires_grad),
                features.requires_grad,
                ivectors is not None and ivectors.requires_grad,
            )
        # A replacement may do with rows what it likes: none may be there that is no frame of a sequence.
        rows_are_independent = self._rows_are_independent and not found.replacements
        exact = lengths is not None and not (rows_are_independent and not found.with_running_statistics())
        present = tuple(lengths.tolist()) if exact and lengths is not None else None
        shape = BatchShape(features.shape[0], features.shape[1], present)
        key = needs, found.key, features.device, features.dtype, self.compile_options
        program = self._programs.get(key, lambda: self._program(needs, features.device, found))
        layout = program.layout_of(shape)
        if lengths is not None and not exact:
            layout = batch_layout(shape, self._framing, lengths, features.device)
        own = [*(tensor for tensor, _ in found.own), *self._memory, *found.constants()]
        return Flight(program, shape, layout, found, Witness(own if needs.backward else ()))

    def _program(self, needs: Needs, device: torch.device, found: Survey) -> ModuleProgram:
        layout_of = lru_cache(32)(partial(batch_layout, framing=self._framing, lengths=None, device=device))
        cache = default_cache() if self._cache is None else self._cache
        survey_alone = replace(found, parameters=[])  # what is given for one call is not kept
        return ModuleProgram(
            self._network,
            survey_alone,
            found.kinds(),
            layout_of,
            needs,
            self._output_names,
            cache,
            device,
            self.compile_options,
        )
