"""Every component type in training, with every option: what a run changes is a parameter or a declared statistic."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import nnet3
from nnet3 import Nnet
from nnet3.chain import ChainObjective, ChainTarget, Denominator
from nnet3.components import Component, create
from nnet3.model.components.natural_gradient import OnlineNaturalGradient
from nnet3.model.components.random_source import RandomSource
from nnet3.train import MatrixTarget, Minibatch, NetworkInput, Trainer, TrainerOptions
from nnet3.training.chain.supervision import merge_supervisions
from nnet3.training.train.objectives import Objective
from tests.chain.chain_data import indexes, random_acceptor, small_graph, supervision_of
from tools.component_samples import SAMPLES

DIM = 5
#: Settings with which all statistics of a type come to change soon.
BUSY = {
    "ClipGradientComponent": "dim=4 clipping-threshold=1e-6 norm-based-clipping=true",
    "CompositeComponent": "num-components=2 component1='type=AffineComponent input-dim=6 output-dim=4' "
    "component2='type=TanhComponent dim=4 self-repair-scale=1e-5 self-repair-lower-threshold=1'",
    "RectifiedLinearComponent": "dim=4 self-repair-scale=1e-5 self-repair-lower-threshold=0.999",
    "SigmoidComponent": "dim=4 self-repair-scale=1e-5 self-repair-lower-threshold=0.25",
    "TanhComponent": "dim=4 self-repair-scale=1e-5 self-repair-lower-threshold=1",
}
CACHES = {"_affine", "_group_of_column"}  # made of statistics, and forgotten with them, or of settings
#: Softmax types have these because Kaldi's files do.
NEVER = {
    "SoftmaxComponent": {"deriv_sum", "num_dims_self_repaired", "num_dims_processed"},
    "LogSoftmaxComponent": {"deriv_sum", "num_dims_self_repaired", "num_dims_processed", "value_sum", "count"},
}


@dataclass(frozen=True)
class Way:
    """One way to train."""

    options: TrainerOptions = field(default_factory=TrainerOptions)
    chain: bool = False


WAYS = {
    "plain": Way(),
    "momentum, deriv-times": Way(TrainerOptions(momentum=0.5, min_deriv_time=2, max_deriv_time=3)),
    "backstitch, bounds": Way(
        TrainerOptions(
            backstitch_training_scale=0.3, max_param_change=1e-4, l2_regularize_factor=0.5, batchnorm_stats_scale=0.5
        )
    ),
    "no-statistics": Way(TrainerOptions(store_component_stats=False, zero_component_stats=False)),
    "chain": Way(TrainerOptions(backstitch_training_scale=0.3, backstitch_training_interval=2), chain=True),
}


def network(type_name: str) -> Nnet:
    """The type between two affine ones, so that derivatives go through it."""
    config = BUSY.get(type_name, SAMPLES[type_name])
    component = create(type_name, config)
    first, source = component.input_dim, "first"
    lines = [f"component name=tested type={type_name} {config}"]
    if type_name == "StatisticsPoolingComponent":
        first, source = 3, "extract"
        lines += [
            "component name=extract type=StatisticsExtractionComponent input-dim=3 input-period=1 output-period=2",
            "component-node name=extract component=extract input=first",
        ]
        lines[0] = lines[0].replace("input-period=1", "input-period=2")
    return Nnet.from_config(
        "\n".join(
            [
                f"input-node name=input dim={DIM}",
                f"component name=first type=NaturalGradientAffineComponent input-dim={DIM} output-dim={first}",
                "component-node name=first component=first input=input",
                *lines,
                f"component-node name=tested component=tested input={source}",
                "component name=last type=LinearComponent orthonormal-constraint=-1 max-change=0.5 "
                f"input-dim={component.output_dim} output-dim=3",
                "component-node name=last component=last input=tested",
                "output-node name=output input=last objective=quadratic",
            ]
        ),
        seed=1,
    )


def minibatches(way: Way) -> Iterator[Minibatch]:
    """Outputs at t = 2 and 4 of two sequences."""
    inputs = np.array([[n, t, 0] for t in range(8) for n in range(2)], np.int32)
    outputs = indexes(2, 2, step=2) + np.array([0, 2, 0], np.int32)
    supervision = merge_supervisions([supervision_of([random_acceptor(seed, 2, 3)], 2, 3) for seed in range(2)])
    for _ in range(2):
        x = NetworkInput("input", inputs, torch.randn(len(inputs), DIM))
        if way.chain:
            yield Minibatch([x], [ChainTarget("output", outputs, supervision)])
        else:
            yield Minibatch([x], [MatrixTarget("output", outputs, torch.randn(len(outputs), 3))])


def leaves(nnet: Nnet) -> Iterator[tuple[str, Component]]:
    for name, component in nnet.components.items():
        yield name, component
        for prefix, leaf in component.leaves():
            if leaf is not component:
                yield f"{name}.{prefix}", leaf


def fields(nnet: Nnet) -> dict[tuple[str, str], Any]:
    """All attributes of all components, but for what draws random numbers and what natural gradient has learnt."""
    return {
        (name, key): value.clone() if isinstance(value, Tensor) else value
        for name, leaf in leaves(nnet)
        for key, value in vars(leaf).items()
        if not isinstance(value, RandomSource | OnlineNaturalGradient) and key not in CACHES
    }


def changed(before: dict[tuple[str, str], Any], nnet: Nnet) -> set[tuple[str, str]]:
    after = fields(nnet)
    assert before.keys() == after.keys()
    return {key for key, value in before.items() if not _same(value, after[key])}


def _same(one: Any, other: Any) -> bool:
    return torch.equal(one, other) if isinstance(one, Tensor) else bool(np.all(one == other))


def declared(nnet: Nnet) -> tuple[set[tuple[str, str]], set[tuple[str, str]]]:
    """Parameters and statistics by leaf and attribute."""
    parameters = {(name, key) for name, leaf in leaves(nnet) for key in leaf.parameter_names}
    return parameters, {(name, key) for name, leaf in leaves(nnet) for key in leaf.statistic_names}


def compiled(nnet: Nnet, minibatch: Minibatch) -> nnet3.NnetComputer:
    request = minibatch.request([("output",)], train=True, store_stats=True)
    return nnet3.NnetComputer(nnet3.compile(nnet, request), nnet, nnet.gradient_copy(), nnet_to_store_stats=nnet)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("type_name", sorted(SAMPLES))
def test_what_a_run_changes_is_declared(type_name: str, way: str) -> None:
    nnet, data = network(type_name), list(minibatches(WAYS[way]))
    computer, fingerprint = compiled(nnet, data[0]), nnet.fingerprint()
    objective: Objective | None = ChainObjective(Denominator(small_graph(), 0.1)) if WAYS[way].chain else None
    trainer = Trainer(nnet, WAYS[way].options, objective)
    before = fields(nnet)
    for minibatch in data:
        assert trainer.train_minibatch(minibatch, 0.1).skipped is None
    parameters, statistics = declared(nnet)
    found = changed(before, nnet)
    assert ("last", "params") in found
    assert found <= parameters | statistics
    assert nnet.fingerprint() == fingerprint
    computer.accept_input("input", data[0].inputs[0].matrix)
    computer.run()

    kept = fields(nnet)
    back = trainer.model.before()
    back.keep_parameters()
    trainer.train_minibatch(data[0], 0.1)
    back.restore()
    assert changed(kept, nnet) == set()
    nnet.zero_stats()
    assert all(not torch.as_tensor(fields(nnet)[key]).any() for key in statistics)


@pytest.mark.parametrize("type_name", sorted(SAMPLES))
def test_every_statistic_changes(type_name: str) -> None:
    nnet = network(type_name)
    trainer = Trainer(nnet, TrainerOptions(max_param_change=0.0))
    before = fields(nnet)
    _, statistics = declared(nnet)
    never = {("tested", key) for key in NEVER.get(type_name, ())}
    for _ in range(8):  # some change at random steps
        for minibatch in minibatches(WAYS["plain"]):
            trainer.train_minibatch(minibatch, 1e-3)
        if statistics - changed(before, nnet) <= never:
            break
    assert statistics - changed(before, nnet) == never
