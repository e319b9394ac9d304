"""A run that is continued from the state of a trainer ends with the same bits."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import torch

from nnet3.errors import TrainingError
from nnet3.model.nnet import Nnet, load
from nnet3.train import Trainer, TrainerOptions
from tests.train.networks import differing, everything, many, random_minibatch

OPTIONS: dict[str, dict[str, Any]] = {
    "plain": {},
    "momentum": {"momentum": 0.7, "l2_regularize_factor": 0.5},
    "backstitch": {"backstitch_training_scale": 0.3, "backstitch_training_interval": 2},
}


@pytest.mark.parametrize("kind", OPTIONS)
@pytest.mark.parametrize("through_a_file", [False, True])
def test_continuation_is_exact(tmp_path: Path, kind: str, through_a_file: bool) -> None:
    options = TrainerOptions(print_interval=3, seed=7, **OPTIONS[kind])
    many().save(tmp_path / "start.raw")
    whole, lines = load(tmp_path / "start.raw"), []
    trainer = Trainer(whole, options, say=lines.append)
    for number in range(8):
        trainer.train_minibatch(random_minibatch(number), 0.01 * 0.9**number)
    trainer.log.finish()

    part, part_lines = load(tmp_path / "start.raw"), []
    first = Trainer(part, options, say=part_lines.append)
    for number in range(4):
        first.train_minibatch(random_minibatch(number), 0.01 * 0.9**number)
    state = first.state()
    kept = part.copy()
    first.train_minibatch(random_minibatch(99), 0.5)  # the state is a copy: this does not reach it
    if through_a_file:
        kept.save(tmp_path / "kept.raw")
        torch.save(state, tmp_path / "state")
        kept, state = load(tmp_path / "kept.raw"), torch.load(tmp_path / "state", weights_only=True)
    second = Trainer(kept, options, say=part_lines.append)
    second.load_state(state)
    assert second.num_minibatches == 4
    for number in range(4, 8):
        second.train_minibatch(random_minibatch(number), 0.01 * 0.9**number)
    second.log.finish()
    assert differing(everything(whole), everything(kept)) == []
    assert lines[-2:] == part_lines[-2:]
    assert differing(trainer.state(), second.state()) == []


def test_after_a_continuation_a_skipped_minibatch_leaves_no_trace() -> None:
    """Of the delta that is kept by momentum, too, though some of it is 0."""
    whole = many()
    whole.components["last"].updatable.learning_rate_factor = 0.0  # type: ignore[union-attr]
    first = Trainer(whole, TrainerOptions(momentum=0.5, seed=7))
    for number in range(2):
        first.train_minibatch(random_minibatch(number), 0.01)
    part = whole.copy()
    second = Trainer(part, TrainerOptions(momentum=0.5, seed=1))
    state = first.state()
    kept = {name: tensor.clone() for name, tensor in state.items()}
    second.load_state(state)
    bad = random_minibatch(2)
    bad.inputs[0].matrix.fill_(torch.nan)
    for minibatch in (bad, random_minibatch(3)):
        skipped = [trainer.train_minibatch(minibatch, 0.01).skipped is not None for trainer in (first, second)]
        assert skipped == [minibatch is bad] * 2
    assert differing(everything(whole), everything(part)) == []
    assert differing(first.state(), second.state()) == []
    assert differing(kept, state) == [], "going on from a state does not change it"


def test_states_are_flat_tensors() -> None:
    trainer = Trainer(many(), TrainerOptions(momentum=0.5))
    trainer.train_minibatch(random_minibatch(0), 0.01)
    state = trainer.state()
    assert all(isinstance(value, torch.Tensor) and value.is_contiguous() for value in state.values())
    assert len({value.data_ptr() for value in state.values() if value.numel()}) == sum(
        value.numel() > 0 for value in state.values()
    ), "no two share memory"
    assert int(state["trainer.num_minibatches"]) == 1


def test_without_a_state_the_continuation_differs(tmp_path: Path) -> None:
    """The comparison can fail: natural gradient and momentum matter."""
    nets = [many(), many()]
    trainers = [Trainer(net, TrainerOptions(momentum=0.5, seed=7)) for net in nets]
    for number in range(3):
        for trainer in trainers:
            trainer.train_minibatch(random_minibatch(number), 0.01)
    assert differing(everything(nets[0]), everything(nets[1])) == []
    trainers[1] = Trainer(nets[1], TrainerOptions(momentum=0.5, seed=7, zero_component_stats=False))
    for trainer in trainers:
        trainer.train_minibatch(random_minibatch(3), 0.01)
    assert differing(everything(nets[0]), everything(nets[1])) != []


def test_states_of_other_networks() -> None:
    state = Trainer(many()).state()
    other = Nnet.from_config(
        "input-node name=input dim=2\ncomponent name=affine type=AffineComponent input-dim=2 output-dim=1\n"
        "component-node name=affine component=affine input=input\noutput-node name=output input=affine\n"
    )
    with pytest.raises(TrainingError, match=r"the state of the trainer has, unlike this network, \d+ entries"):
        Trainer(other).load_state(state)
    with pytest.raises(TrainingError, match=r"lacks 1 entries, such as 'trainer.first_seed'"):
        Trainer(many()).load_state({name: value for name, value in state.items() if name != "trainer.first_seed"})
    state["delta.parameters.linear.params"] = torch.zeros(2, 2)
    with pytest.raises(TrainingError, match=r"of another network: 'delta.parameters.linear.params' was \(2, 2\)"):
        Trainer(many()).load_state(state)


@pytest.mark.parametrize("kind", OPTIONS)
def test_a_copied_trainer_goes_on_alone(kind: str) -> None:
    """With a network of its own, in the same way."""
    trainer = Trainer(many(), TrainerOptions(seed=7, **OPTIONS[kind]))
    for number in range(2):
        trainer.train_minibatch(random_minibatch(number), 0.01)
    twin, kept = copy.deepcopy(trainer), everything(trainer.nnet)
    twin.train_minibatch(random_minibatch(2), 0.01)
    assert differing(kept, everything(trainer.nnet)) == []
    trainer.train_minibatch(random_minibatch(2), 0.01)
    assert differing(everything(twin.nnet), everything(trainer.nnet)) == []
