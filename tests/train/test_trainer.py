"""The trainer: a step by hand, momentum, l2, rates, statistics, backstitch, minibatches that are skipped."""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from nnet3 import ComputationCache
from nnet3.components import RandomSource
from nnet3.errors import TrainingError
from nnet3.model.nnet import Nnet
from nnet3.train import MatrixTarget, Minibatch, NetworkInput, OutputResult, StepResult, Trainer, TrainerOptions
from nnet3.training.train.minibatch import Target, grid
from nnet3.training.train.objectives import ObjectiveByNode, ObjectiveStats
from tests.train.networks import differing, everything, many, random_minibatch

CONFIG = """
input-node name=input dim=2
component name=affine type=AffineComponent input-dim=2 output-dim=1 {affine}
component-node name=affine component=affine input=input
output-node name=output input=affine objective=quadratic
"""
X = torch.tensor([[1.0, 0.0], [0.0, 2.0], [1.0, 1.0]])
Y = torch.tensor([[1.0], [-1.0], [0.5]])
FREE: dict[str, Any] = {"max_param_change": 0.0}


def network(affine: str = "") -> Nnet:
    return Nnet.from_config(CONFIG.format(affine=affine), seed=3)


def minibatch(x: Tensor = X, y: Tensor = Y) -> Minibatch:
    rows = grid(3, [0])
    return Minibatch([NetworkInput("input", rows, x)], [MatrixTarget("output", rows, y)], "the-key")


def gradient(parameters: Tensor) -> Tensor:
    """Of linear (1, 2) and bias (1,), flat, for the minibatch."""
    error = Y - (X @ parameters[:2, None] + parameters[2])
    return torch.cat([(error.t() @ X).flatten(), error.sum(0)])


def test_a_step_is_rate_times_the_summed_gradient() -> None:
    nnet = network("learning-rate-factor=0.5")
    before = nnet.flat_parameters()[0].clone()
    result = Trainer(nnet, TrainerOptions(**FREE)).train_minibatch(minibatch(), 0.1)
    torch.testing.assert_close(nnet.flat_parameters()[0], before + 0.05 * gradient(before))
    error = Y - (X @ before[:2, None] + before[2])
    assert result.total.objective == pytest.approx(-0.5 * float(error.square().sum()))
    assert (result.skipped, result.total.weight, list(result.stats)) == (None, 3.0, ["output"])


def test_nothing_of_a_minibatch_is_left_for_the_next_one() -> None:
    nnet = network()
    weights = nnet.flat_parameters()[0].clone()
    trainer = Trainer(nnet, TrainerOptions(**FREE))
    for _ in range(3):
        weights = weights + 0.1 * gradient(weights)
        trainer.train_minibatch(minibatch(), 0.1)
        torch.testing.assert_close(nnet.flat_parameters()[0], weights)


def test_rates_are_the_networks_own_until_one_is_given_and_stay() -> None:
    nnet = network("learning-rate=0.3 learning-rate-factor=0.5")
    weights = nnet.flat_parameters()[0].clone()
    trainer = Trainer(nnet, TrainerOptions(**FREE))
    own = nnet.components["affine"].updatable.learning_rate  # type: ignore[union-attr]
    for rate, given in ((own, None), (0.01, 0.02), (0.01, None)):
        weights = weights + rate * gradient(weights)
        trainer.train_minibatch(minibatch(), given)
        torch.testing.assert_close(nnet.flat_parameters()[0], weights)


def test_momentum_is_the_formula() -> None:
    """theta += (1 - m) D with D = m D + rate g."""
    nnet = network()
    weights, delta = nnet.flat_parameters()[0].clone(), torch.zeros(3)
    trainer = Trainer(nnet, TrainerOptions(momentum=0.75, **FREE))
    for _ in range(3):
        delta = 0.75 * delta + 0.1 * gradient(weights)
        weights = weights + 0.25 * delta
        trainer.train_minibatch(minibatch(), 0.1)
        torch.testing.assert_close(nnet.flat_parameters()[0], weights)


def test_l2_pulls_to_zero_by_the_number_of_sequences() -> None:
    nnet = network("l2-regularize=0.02")
    before = nnet.flat_parameters()[0].clone()
    Trainer(nnet, TrainerOptions(l2_regularize_factor=0.5, **FREE)).train_minibatch(minibatch(), 0.1)
    expected = before + 0.1 * gradient(before) - 2 * 3 * 0.5 * 0.1 * 0.02 * before
    torch.testing.assert_close(nnet.flat_parameters()[0], expected)


def test_max_change_limits_each_step() -> None:
    nnet = network("max-change=0.01")
    before = nnet.flat_parameters()[0].clone()
    result = Trainer(nnet, TrainerOptions(max_param_change=0.004)).train_minibatch(minibatch(), 10.0)
    assert float((nnet.flat_parameters()[0] - before).norm()) == pytest.approx(0.004, rel=1e-4)
    (update,) = result.updates
    assert update.factor == pytest.approx(0.4)
    assert list(update.shortened) == ["affine"]


def test_backstitch_by_hand() -> None:
    """A step of -alpha, then one of 1 + alpha from there; l2 in the second one alone, divided by 1 + alpha."""
    nnet = network("l2-regularize=0.02")
    before = nnet.flat_parameters()[0].clone()
    trainer = Trainer(nnet, TrainerOptions(backstitch_training_scale=0.3, **FREE))
    result = trainer.train_minibatch(minibatch(), 0.1)
    back = before - 0.3 * 0.1 * gradient(before)
    pull = 2 * 3 / 1.3 * 0.1 * 0.02 * back
    torch.testing.assert_close(nnet.flat_parameters()[0], back + 1.3 * (0.1 * gradient(back) - pull))
    assert result.stats["output"].objective > result.backstitch["output"].objective
    assert len(result.updates) == 2


def test_max_change_limits_both_steps_of_backstitch() -> None:
    """To alpha and 1 + alpha times what is allowed otherwise, for a component and for the whole."""
    for of_all, longest in ((0.004, 0.004), (0.0, 0.01)):
        nnet = network("max-change=0.01")
        before = nnet.flat_parameters()[0].clone()
        trainer = Trainer(nnet, TrainerOptions(backstitch_training_scale=0.3, max_param_change=of_all))
        trainer.train_minibatch(minibatch(), 10.0)
        back = before - 0.3 * longest * gradient(before) / gradient(before).norm()
        forward = back + 1.3 * longest * gradient(back) / gradient(back).norm()
        torch.testing.assert_close(nnet.flat_parameters()[0], forward)


@pytest.mark.parametrize("alpha", [0.0, 0.3])
def test_a_quarter_of_the_minibatches_constrains_matrices(alpha: float) -> None:
    """With a rate of 0 nothing else moves them; which minibatches these are depends on the seed."""
    config = "input-node name=input dim=2\ncomponent name=linear type=LinearComponent input-dim=2 output-dim=1 "
    config += "orthonormal-constraint=1.0\ncomponent-node name=linear component=linear input=input\n"
    config += "output-node name=output input=linear objective=quadratic\n"
    found = []
    for seed in (0, 1):
        nnet = Nnet.from_config(config, seed=3)
        trainer = Trainer(nnet, TrainerOptions(backstitch_training_scale=alpha, seed=seed))
        moved = []
        for _ in range(60):
            before = nnet.flat_parameters()[0].fill_(0.5).clone()
            trainer.train_minibatch(minibatch(), 0.0)
            moved.append(not torch.equal(before, nnet.flat_parameters()[0]))
        assert 6 <= sum(moved) <= 26
        found.append(moved)
    assert found[0] != found[1]


@pytest.mark.parametrize("interval", [2, 3, 4, 7])
@pytest.mark.parametrize("dropouts", [0, 1, 2])
@pytest.mark.parametrize(("seed", "drawn"), [(0, 71341), (1, 71341), (2, 20237), (14, 85220), (-1, 23078)])
def test_backstitch_falls_on_the_minibatches_of_kaldi(interval: int, seed: int, dropouts: int, drawn: int) -> None:
    """`drawn`: the number that nnet3-train and nnet3-chain-train draw first, in networks of all types of components."""
    config = CONFIG.format(affine="") + "".join(
        f"component name=drop{k} type=DropoutComponent dim=1 dropout-proportion=0.5\n" for k in range(dropouts)
    )
    options = TrainerOptions(backstitch_training_scale=0.3, backstitch_training_interval=interval, seed=seed)
    trainer = Trainer(Nnet.from_config(config, seed=3), options)
    found = [bool(trainer.train_minibatch(minibatch(), 1e-3).backstitch) for _ in range(2 * interval)]
    assert found == [number % interval == drawn % interval for number in range(2 * interval)]


def test_backstitch_uses_natural_gradient_in_the_first_step_and_learns_in_the_second(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    nnet = many()
    trainer = Trainer(nnet, TrainerOptions(backstitch_training_scale=0.3))
    seen: list[tuple[bool, Tensor]] = []
    original = trainer.model.gradient.add

    def add(*arguments: Any, **settings: Any) -> dict[str, ObjectiveStats]:
        estimate = trainer.model.delta.components["affine"].natural_gradients["preconditioner_in"]
        stats = original(*arguments, **settings)
        seen.append((estimate.frozen, estimate.state().w))
        return stats

    monkeypatch.setattr(trainer.model.gradient, "add", add)
    for number in range(2):
        trainer.train_minibatch(random_minibatch(number), 0.01)
    assert [frozen for frozen, _ in seen] == [True, False, True, False]
    assert torch.equal(seen[1][1], seen[2][1])
    assert not torch.equal(seen[2][1], seen[3][1])


def test_both_steps_of_backstitch_drop_the_same_units() -> None:
    config = "input-node name=input dim=50\ncomponent name=drop type=DropoutComponent dim=50 dropout-proportion=0.5\n"
    config += "component-node name=drop component=drop input=input\noutput-node name=output input=drop\n"
    rows = grid(4, [0])
    data = Minibatch(
        [NetworkInput("input", rows, torch.ones(4, 50))], [MatrixTarget("output", rows, torch.ones(4, 50))]
    )
    found = []
    trainer = Trainer(Nnet.from_config(config), TrainerOptions(backstitch_training_scale=0.3))
    for _ in range(2):
        result = trainer.train_minibatch(data)
        assert result.stats["output"].objective == result.backstitch["output"].objective
        found.append(result.stats["output"].objective)
    assert found[0] != found[1]


@pytest.mark.parametrize("scale", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("passes", [1, 2])
def test_batchnorm_statistics_fade_and_start_from_nothing(scale: float, passes: int) -> None:
    """Once for each minibatch, also where backstitch goes over it twice."""
    nnet = Nnet.from_config(
        "input-node name=input dim=2\ncomponent name=norm type=BatchNormComponent dim=2\n"
        "component-node name=norm component=norm input=input\noutput-node name=output input=norm objective=quadratic"
    )
    norm = nnet.components["norm"]
    y, memo = norm.propagate(X)
    norm.store_stats(X, y, memo)
    options = TrainerOptions(batchnorm_stats_scale=scale, backstitch_training_scale=0.3 * (passes - 1))
    trainer = Trainer(nnet, options)
    for _ in range(2):
        trainer.train_minibatch(minibatch(y=torch.zeros(3, 2)), 0.1)
    rows = 3 * passes
    assert norm.count == pytest.approx((rows * scale + rows) * scale)  # type: ignore[attr-defined]


def test_statistics_are_kept_or_not_stored_if_so_asked() -> None:
    nnet = many()
    Trainer(nnet).train_minibatch(random_minibatch(0), 0.01)
    relu: Any = nnet.components["relu"]
    count = relu.count
    assert count > 0
    Trainer(nnet, TrainerOptions(zero_component_stats=False, store_component_stats=False))
    assert relu.count == count
    Trainer(nnet, TrainerOptions(store_component_stats=False)).train_minibatch(random_minibatch(0), 0.01)
    assert relu.count == 0.0


def test_computations_are_kept_where_one_says() -> None:
    cache = ComputationCache()
    trainer = Trainer(network(), cache=cache)
    for _ in range(2):
        trainer.train_minibatch(minibatch(), 0.1)
    assert len(cache) == 1


def test_sums_over_outputs() -> None:
    result = StepResult({"output": ObjectiveStats(-1.0, weight=2.0), "xent": ObjectiveStats(-4.0, weight=3.0)})
    assert (result.total.objective, result.total.weight) == (-5.0, 5.0)
    assert result.total_of(["xent", "of-another-minibatch"]) == ObjectiveStats(-4.0, weight=3.0)


# ---- what is not finite ----


class Breaking(ObjectiveByNode):
    """Gives something that is not finite in the calls of these numbers."""

    def __init__(self, nnet: Nnet, what: str, calls: Sequence[int]) -> None:
        super().__init__(nnet)
        self.what, self.calls, self.count = what, calls, 0

    def evaluate(
        self, target: Target, outputs: Sequence[Tensor], *, rng: RandomSource, with_derivs: bool
    ) -> Sequence[OutputResult]:
        (result,) = super().evaluate(target, outputs, rng=rng, with_derivs=with_derivs)
        self.count += 1
        if self.count - 1 not in self.calls or self.what not in ("objective", "nan", "inf", "huge"):
            return [result]
        if self.what == "objective":
            return [OutputResult(result.name, ObjectiveStats(math.inf, weight=1.0), result.deriv)]
        assert result.deriv is not None
        if self.what == "huge":
            result.deriv.fill_(3e38)
        else:
            result.deriv[0, 0] = float(self.what)
        return [result]


STAGES = {
    "input": "input 'input' is not finite",
    "target": "the target of output 'output' is not finite",
    "objective": "the objective of output 'output' is not finite",
    "nan": "the derivative of the objective by output 'output' is not finite",
    "inf": "the derivative of the objective by output 'output' is not finite",
    "huge": "the gradient of component '",
    "overflow": "is not finite",
}


def poisoned(stage: str) -> Minibatch:
    bad = random_minibatch(50, key="bad-key")
    if stage == "input":
        bad.inputs[0].matrix[3, 1] = math.nan
    elif stage == "target":
        bad.targets[0].matrix.values[2] = math.inf  # type: ignore[attr-defined]
    elif stage == "overflow":
        bad.inputs[0].matrix.fill_(3e38)
    return bad


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("options", [{"momentum": 0.5}, {}, {"backstitch_training_scale": 0.3}], ids=str)
def test_what_is_not_finite_is_skipped_and_leaves_no_trace(
    stage: str, options: dict[str, float], caplog: pytest.LogCaptureFixture
) -> None:
    """All goes on as if the minibatch had not been there, but for the random draws of the later ones."""
    second_step = "backstitch_training_scale" in options
    calls = [5 if second_step else 2]  # of the third minibatch, in its last step
    nnet = many()
    trainer = Trainer(nnet, TrainerOptions(seed=3, **options), Breaking(nnet, stage, calls))  # type: ignore[arg-type]
    for number in range(2):
        assert trainer.train_minibatch(random_minibatch(number), 0.01).skipped is None
    before, state = everything(nnet), trainer.state()
    result = trainer.train_minibatch(poisoned(stage), 0.01)
    assert result.skipped is not None
    assert STAGES[stage] in result.skipped
    assert result.stats == {}
    assert differing(before, everything(nnet)) == []
    after = trainer.state()
    assert set(differing(state, after)) == {"trainer.num_minibatches", "trainer.num_skipped"}
    assert (trainer.num_minibatches, trainer.num_skipped) == (3, 1)
    assert f"minibatch 'bad-key' is skipped: {result.skipped}" in caplog.text
    assert trainer.train_minibatch(random_minibatch(3), 0.01).skipped is None
    assert all(bool(tensor.isfinite().all()) for tensor in everything(nnet).values())


def test_training_stops_when_too_much_is_skipped(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL)
    nnet = network()
    trainer = Trainer(nnet, TrainerOptions(max_skipped=2))
    before = nnet.flat_parameters()[0].clone()
    for _ in range(2):
        trainer.train_minibatch(minibatch(X * math.nan), 0.1)
    with pytest.raises(TrainingError, match=r"3 of 3 minibatches had to be skipped, .* 'the-key': input 'input'"):
        trainer.train_minibatch(minibatch(X * math.nan), 0.1)
    nameless = replace(minibatch(X * math.nan), key="")
    with pytest.raises(TrainingError, match=r"4 of 4 .* is minibatch 3: input 'input'"):
        trainer.train_minibatch(nameless, 0.1)
    assert torch.equal(nnet.flat_parameters()[0], before)


def test_an_error_in_the_middle_of_a_minibatch_leaves_no_trace() -> None:
    class Failing(ObjectiveByNode):
        def evaluate(self, *arguments: Any, **settings: Any) -> Sequence[OutputResult]:
            raise TrainingError("no")

    nnet = many()
    trainer = Trainer(nnet, objective=Failing(nnet))
    before, state = everything(nnet), trainer.state()
    with pytest.raises(TrainingError, match="no"):
        trainer.train_minibatch(random_minibatch(0))
    assert differing(before, everything(nnet)) == []
    assert differing(state, trainer.state()) == []


def test_large_numbers_are_no_infinities() -> None:
    """Their sum is infinite in float32, they are not."""
    x = torch.full((3, 2), 3e38)
    result = Trainer(network()).train_minibatch(minibatch(x), 0.0)
    assert result.skipped != "input 'input' is not finite"


BACKWARD = """
input-node name=input dim=2
component name=w type=NaturalGradientAffineComponent input-dim=5 output-dim=3 learning-rate=0.1
component-node name=w component=w input=Append(input, IfDefined(Offset(h, 2)))
component name=h type=TanhComponent dim=3 self-repair-scale=0
component-node name=h component=h input=w
output-node name=output input=h objective=quadratic
"""


def test_natural_gradient_sees_no_rows_without_derivatives_between_others() -> None:
    """The parameters that nnet3-train --optimization.max-deriv-time=2 has written.

    Times 2 and 3 are one step, and stand in front of 0 and 1; time 3 has no derivative.
    """
    nnet = Nnet.from_config(BACKWARD)
    linear, bias = nnet.components["w"].parameters().values()
    linear.copy_(torch.arange(15.0).sin().reshape(3, 5))
    bias.copy_(torch.arange(3.0).cos())
    x, y = ((torch.arange(1.0, 1 + size).square() / 7).sin() for size in (24, 18))
    given = NetworkInput("input", grid(2, range(6)), x.reshape(12, 2))
    trainer = Trainer(nnet, TrainerOptions(max_deriv_time=2, **FREE))
    for _ in range(2):
        trainer.train_minibatch(Minibatch([given], [MatrixTarget("output", grid(2, range(3)), y.reshape(6, 3))]))
    kaldis = [
        [-0.02599, 0.91665, 0.84657, 0.15989, -0.70331],
        [-1.00188, -0.48333, 0.58059, 0.86811, 0.47579],
        [-0.64079, -0.84908, -0.25368, 0.58394, 0.8965],
    ]
    torch.testing.assert_close(linear, torch.tensor(kaldis), rtol=0, atol=1e-5)
    torch.testing.assert_close(bias, torch.tensor([0.93388, 0.44914, -0.10526]), rtol=0, atol=1e-5)
