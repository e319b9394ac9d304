"""A network and its delta as the trainer sees them: going back to what was before a minibatch."""

from __future__ import annotations

from contextlib import nullcontext
from unittest.mock import patch

import pytest
import torch

from nnet3 import ComputationCache, Nnet
from nnet3.train import Trainer, TrainerOptions
from tests.train.networks import differing, everything, many, random_minibatch


@pytest.mark.parametrize("delta_is_zero", [True, False])
def test_going_back_restores_every_number(delta_is_zero: bool) -> None:
    nnet = many()
    trainer = Trainer(nnet, TrainerOptions(momentum=0.0 if delta_is_zero else 0.5))
    trainer.train_minibatch(random_minibatch(0), 0.01)
    kept, state = everything(nnet), trainer.state()
    assert trainer.model.delta_is_zero == delta_is_zero
    before = trainer.model.before()
    before.keep_parameters()
    trainer.train_minibatch(random_minibatch(1), 0.01)
    assert differing(kept, everything(nnet)) != []
    before.restore()
    assert differing(kept, everything(nnet)) == []
    left = differing({n: t for n, t in state.items() if n in trainer.state()}, trainer.state())
    assert all(name.startswith(("trainer.", "log.")) for name in left)


def test_contents_come_back_whatever_was_learnt_since() -> None:
    nnet = many()
    trainer = Trainer(nnet)
    trainer.train_minibatch(random_minibatch(0), 0.01)
    kept, contents = everything(nnet), trainer.contents()
    trainer.train_minibatch(random_minibatch(1), 0.01)
    trainer.load_contents(contents)
    assert differing(kept, everything(nnet)) == []


def test_a_frozen_component_saves_its_gradient_and_changes_nothing_else() -> None:
    """The rates of each minibatch count: from 0 a component learns again, by a program that has its gradient."""
    found = []
    for are_known in (True, False):
        nnet, cache = many(), ComputationCache()
        nnet.components["affine"].learning_rate_factor = 0.0  # type: ignore[attr-defined]
        trainer = Trainer(nnet, cache=cache)
        with nullcontext() if are_known else patch.object(Nnet, "frozen", frozenset()):
            for number in range(3):
                trainer.train_minibatch(random_minibatch(number), 0.01)
        frozen = everything(nnet)
        trainer.model.delta.components["affine"].learning_rate_factor = 1.0  # type: ignore[attr-defined]
        trainer.train_minibatch(random_minibatch(3), 0.01)
        assert {"affine.linear_params", "linear.params"} <= {*differing(frozen, everything(nnet))}
        assert cache.counts.compiled + cache.counts.continued == 1 + are_known
        found.append((frozen, everything(nnet)))
    (one, after), (other, _) = found
    assert torch.equal(one["affine.linear_params"], many().components["affine"].parameters()["linear_params"])
    assert [name for name in differing(one, other) if not name.startswith("relu.")] == []  # it had a derivative
    assert one["relu.oderiv_count"] == 0 < after["relu.oderiv_count"]
