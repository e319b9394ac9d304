"""Changes that the copy tools make to a model, in Kaldi's order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch

from nnet3.base.options.editing import CollapseOptions
from nnet3.errors import NetworkError
from nnet3.model.edits.collapse import prepare_for_test
from nnet3.model.edits.edits import apply_edits
from nnet3.model.nnet.acoustic_model import AcousticModel
from nnet3.model.nnet.network import Nnet


@dataclass(frozen=True)
class ConfigText:
    """A text and where it comes from, for messages."""

    text: str
    source: str


@dataclass(frozen=True)
class CopyOptions:
    """Changes to a copy. By default there are none, but a raw network's batch-norm is put in training mode.

    `edits`: texts, applied in order (Kaldi: --edits-config, then --edits). `learning_rate`: the underlying one.
    `scale`: multiplies parameters and statistics.
    """

    nnet_config: ConfigText | None = None
    seed: int = 0  # of initial values in nnet_config
    learning_rate: float | None = None
    learning_rates: Sequence[float] | None = None  # actual ones, of the updatable components in their order
    scale: float = 1.0
    edits: Sequence[ConfigText] = ()
    prepare_for_test: bool = False
    collapse: CollapseOptions | None = None  # how prepare_for_test collapses; None: by default
    batchnorm_test_mode: bool = False  # raw networks only, without prepare_for_test
    convert_repeated_to_block: bool = False  # acoustic models only
    set_raw_nnet: Nnet | None = None  # acoustic models only: takes the place of the network, which is not copied


def copy_raw(nnet: Nnet, options: CopyOptions) -> list[str]:
    """Changes a raw network in place as `nnet3-copy` does; returns warnings. Raises ConfigError for a bad text."""
    warnings = _apply_config(nnet, options)
    _set_learning_rate(nnet, options)
    _scale(nnet, options)
    warnings += _apply_edits(nnet, options)
    if options.prepare_for_test:
        prepare_for_test(nnet, options.collapse)
    else:
        for component in nnet.components.values():
            if component.has_running_statistics:
                component.set_test_mode(options.batchnorm_test_mode)
    return warnings


def copy_model(model: AcousticModel, options: CopyOptions) -> list[str]:
    """Changes an acoustic model in place as `nnet3-am-copy` does; returns warnings.

    Priors that no longer fit the output are dropped. Raises ConfigError for a bad text, NetworkError if the network
    is not one for an acoustic model afterwards.
    """
    if options.set_raw_nnet is not None:
        model.nnet = options.set_raw_nnet
    warnings = _apply_config(model.nnet, options)
    if options.convert_repeated_to_block:
        convert_repeated_to_block(model.nnet)
    _set_learning_rate(model.nnet, options)
    warnings += _apply_edits(model.nnet, options)
    _scale(model.nnet, options)
    if options.prepare_for_test:
        prepare_for_test(model.nnet, options.collapse)
    AcousticModel(model.transition_model, model.nnet)  # raises if the network is not simple
    dim = model.nnet.node_dim("output")
    if len(model.priors) not in (0, dim):
        warnings.append(f"the {len(model.priors)} priors are dropped: the output has dimension {dim} now")
        model.priors = torch.empty(0)
    return warnings + model.warnings


def convert_repeated_to_block(nnet: Nnet) -> None:
    """Turns RepeatedAffine types into BlockAffine, in place: W and b are repeated for each block."""
    converted = {name: component.without_repeats() or component for name, component in nnet.components.items()}
    nnet.replace_parts(replace(nnet.parts, components=converted))


def _apply_config(nnet: Nnet, options: CopyOptions) -> list[str]:
    if options.nnet_config is None:
        return []
    nnet.apply_config(options.nnet_config.text, source=options.nnet_config.source, seed=options.seed)
    return list(nnet.warnings)


def _set_learning_rate(nnet: Nnet, options: CopyOptions) -> None:
    if options.learning_rate is not None:
        nnet.set_learning_rate(options.learning_rate)
    if options.learning_rates is None:
        return
    components = {name: c.updatable for name, c in nnet.components.items() if c.updatable is not None}
    if len(options.learning_rates) != len(components):
        count = f"{len(options.learning_rates)} learning rates for {len(components)} updatable components"
        raise NetworkError(f"{count}: {', '.join(components)}")
    for component, rate in zip(components.values(), options.learning_rates, strict=True):
        component.set_actual_learning_rate(rate)


def _scale(nnet: Nnet, options: CopyOptions) -> None:
    if options.scale != 1.0:
        nnet.scale_(options.scale)


def _apply_edits(nnet: Nnet, options: CopyOptions) -> list[str]:
    return [warning for edits in options.edits for warning in apply_edits(nnet, edits.text, edits.source)]
