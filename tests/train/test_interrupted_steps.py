"""Ctrl-C at any moment of a minibatch: the model is as before the minibatch or as after it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor

from nnet3 import cn
from nnet3.base.options.network_training import NetworkTrainingOptions
from nnet3.cn.network_in_training import NetworkInTraining
from nnet3.cn.network_trainer import NetworkTrainer
from nnet3.cn.options_by_name import OptionsByName
from nnet3.train import Trainer, TrainerOptions
from tests.effort import EFFORT
from tests.interrupts import interrupted, num_moments
from tests.seeds import RANDOM
from tests.train.networks import everything, many, random_minibatch

_WAYS: dict[str, dict[str, Any]] = {
    "plain": {},
    "momentum": {"momentum": 0.5},
    "backstitch": {"backstitch_training_scale": 0.3},
}
_X, _Y = RANDOM.integers(12, size=8), RANDOM.normal(size=(2, 8))


@dataclass
class Training:
    """`step` trains by one more minibatch; `state` copies all that it may change."""

    step: Callable[[], Any]
    state: Callable[[], dict[str, Tensor]]


def components(way: str) -> Training:
    nnet = many()
    trainer = Trainer(nnet, TrainerOptions(seed=3, **_WAYS[way]))
    return Training(
        lambda: trainer.train_minibatch(random_minibatch(trainer.num_minibatches), 0.01),
        lambda: everything(nnet) | trainer.state(),
    )


def computational(way: str) -> Training:
    """An embedding, whose table has a sparse gradient, and a matrix that learns by natural gradient."""
    classes, y = cn.input("c", classes=12), cn.input("y", 2)
    hidden = cn.tanh(cn.parameter("V", (4, 3)) @ cn.embedding(cn.parameter("table", (3, 12)), classes))
    network = cn.Network(cn.square_error(cn.parameter("W", (2, 4)) @ hidden, y), dtype=torch.float64, seed=1)
    options = NetworkTrainingOptions(**_WAYS[way])
    model = NetworkInTraining(network, options, OptionsByName(options.of_all, {"V": {"natural_gradient": True}}))
    trainer = NetworkTrainer(model, options)
    return Training(
        lambda: trainer.train_minibatch({"c": _X, "y": _Y}, 0.1),
        lambda: model.contents()["parameters"] | trainer.state(),
    )


def different(one: dict[str, Tensor], other: dict[str, Tensor]) -> bool:
    """What was printed and counted for the log may be lacking."""
    names = {name for name in {*one, *other} if not name.startswith("log.")}
    return any(name not in one or name not in other or not torch.equal(one[name], other[name]) for name in names)


def begun(training: Training) -> Training:
    for _ in range(2):
        training.step()
    return training


@pytest.mark.parametrize("way", _WAYS)
@pytest.mark.parametrize("make", [components, computational])
def test_the_model_is_as_before_or_as_after(make: Callable[[str], Training], way: str) -> None:
    """And the next minibatch gives what it gives to one that was never interrupted."""
    training, twin = begun(make(way)), begun(make(way))
    before = twin.state()
    last = num_moments(twin.step)
    after = twin.state()
    moments = [*RANDOM.integers(1, last, size=5 * EFFORT), *RANDOM.integers(last - last // 6, last, size=8 * EFFORT)]
    for moment in map(int, moments):
        interrupted(training.step, moment)
        if different(training.state(), before):
            assert not different(training.state(), after), f"moment {moment} of {last}"
            training = begun(make(way))
    training.step()
    assert not different(training.state(), after)
