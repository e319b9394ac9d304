"""A network and its delta as the trainer sees them: going back to what was before a minibatch."""

from __future__ import annotations

import pytest

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
