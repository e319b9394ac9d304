"""The state of networks in training by name."""

from __future__ import annotations

import pytest
import torch

from nnet3.train import Trainer, TrainerOptions, evaluate
from nnet3.training.train.running_state import natural_gradients, statistics
from tests.train.networks import everything, many, random_minibatch


def test_statistics_and_natural_gradients_have_names() -> None:
    nnet = many()
    assert {"relu.value_sum", "norm.stats_sum", "lstm.count"} <= statistics(nnet).keys()
    assert {"affine.preconditioner_in", "linear.preconditioner_out", "lstm.preconditioner"} <= natural_gradients(
        nnet
    ).keys()


def test_a_statistic_that_is_set_has_memory_of_its_own() -> None:
    """Also one that nothing was ever stored in."""
    trained = many()
    Trainer(trained).train_minibatch(random_minibatch(0), 0.01)
    values = {name: torch.full_like(each.copy(), 4.0) for name, each in statistics(trained).items()}
    for nnet in (many(), trained):
        for name, each in statistics(nnet).items():
            each.set(values[name])
        assert all(torch.equal(each.copy(), values[name]) for name, each in statistics(nnet).items())
        for component in nnet.components.values():
            component.scale_stats_(0.5)
        assert all(bool((value == 4.0).all()) for value in values.values())
        assert all(bool((each.copy() == 2.0).all()) for each in statistics(nnet).values())


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")
def test_training_on_a_gpu_is_training() -> None:
    nets = [many(), many().to("cuda")]
    for net in nets:
        trainer = Trainer(net, TrainerOptions(seed=1, momentum=0.5))
        for number in range(3):
            assert trainer.train_minibatch(random_minibatch(number), 0.01).skipped is None
    for name, tensor in everything(nets[0]).items():
        torch.testing.assert_close(everything(nets[1])[name].cpu(), tensor, rtol=1e-3, atol=1e-4, msg=name)
    one, other = (evaluate(net, [random_minibatch(9)])["output"].average for net in nets)
    assert one == pytest.approx(other, rel=1e-3)
