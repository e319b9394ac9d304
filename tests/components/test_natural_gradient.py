"""Online natural gradient against a slow one with dense matrices, its invariants, and inputs that might break it."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import NamedTuple

import pytest
import torch
from torch import Tensor

from nnet3.model.components.natural_gradient import OnlineNaturalGradient, add_natural_gradient, restoring_scale
from nnet3.model.components.row_sums import summed_by
from nnet3.training.runs.process_group import ProcessGroup
from tests.runs.thread_group import in_threads


class DenseNaturalGradient:
    """The same estimate with F as an explicit (dim, dim) float64 matrix: an update is one step of subspace iteration.

    T = eta X^T X / N + (1 - eta) F;  Y = R T with R the leading eigenvectors of F;  the new R spans the rows of Y.
    """

    def __init__(self, rank: int, history: float = 2000.0, alpha: float = 4.0):
        self.rank, self.history, self.alpha = rank, history, alpha
        self.f: Tensor | None = None

    def precondition(self, x: Tensor) -> Tensor:
        """X_hat with the norm of x."""
        if self.f is None:
            self.start(x)
        assert self.f is not None
        dim = len(self.f)
        smoothed = self.f + self.alpha * self.f.trace() / dim * torch.eye(dim, dtype=torch.float64)
        x_hat = x @ torch.linalg.inv(smoothed)
        self.update(x)
        return x_hat * x.norm() / x_hat.norm()

    def start(self, x: Tensor) -> None:
        dim = x.shape[1]
        self.rank = min(self.rank, dim - 1)
        basis = torch.zeros(self.rank, dim, dtype=torch.float64)
        for column in range(dim):
            basis[column % self.rank, column] = 1.1 if column < self.rank else 1.0
        basis /= basis.norm(dim=1, keepdim=True)
        self.f = 1e-10 * (basis.t() @ basis + torch.eye(dim, dtype=torch.float64))
        for _ in range(1 if len(x) <= self.rank else 3):
            self.update(x)

    def update(self, x: Tensor) -> None:
        assert self.f is not None
        dim, rank = len(self.f), self.rank
        eta = min(0.9, 1 - float(torch.exp(torch.tensor(-len(x) / self.history, dtype=torch.float64))))
        values, vectors = torch.linalg.eigh(self.f)
        rho, basis = float(values[0]), vectors[:, dim - rank :].t()
        target = eta / len(x) * x.t() @ x + (1 - eta) * self.f
        y = basis @ target
        c, u = torch.linalg.eigh(y @ y.t())
        roots = c.clamp(min=(rho * (1 - eta)) ** 2).sqrt()
        q, _ = torch.linalg.qr((u.t() @ y).flip(0).t())  # strongest first, so that noise yields to signal
        roots, basis = roots.flip(0), q.t()
        floor = max(1e-10, 5e-4 * float(roots.max()))
        new_rho = (float(target.trace()) - float(roots.sum())) / (dim - rank)
        d = (roots - new_rho).clamp(min=floor)
        self.f = basis.t() @ (d[:, None] * basis) + max(new_rho, floor) * torch.eye(dim, dtype=torch.float64)


def random_directions(rows: int, dim: int, seed: int, dtype: torch.dtype = torch.float64) -> Tensor:
    """Correlated rows: a spectrum that falls by a factor of 30, rotated."""
    rng = torch.Generator().manual_seed(seed)
    mixing = torch.randn(dim, dim, generator=torch.Generator().manual_seed(99), dtype=torch.float64)
    q, _ = torch.linalg.qr(mixing)
    spectrum = torch.logspace(0, -1.5, dim, dtype=torch.float64)
    return ((torch.randn(rows, dim, generator=rng, dtype=torch.float64) * spectrum) @ q).to(dtype)


def basis_of(preconditioner: OnlineNaturalGradient) -> Tensor:
    """diag(e)^(-1/2) W, (rank, dim), which should have orthonormal rows."""
    e = preconditioner._smoothed(preconditioner._rho, preconditioner._d)
    return (preconditioner._w.double() / e.sqrt()).t()


def relative_error(actual: Tensor, expected: Tensor) -> float:
    return float((actual.double() - expected.double()).norm() / expected.double().norm())


@pytest.mark.parametrize(
    ("rows", "dim", "rank"), [(40, 12, 4), (100, 30, 10), (12, 12, 11), (50, 6, 40), (64, 2, 1), (9, 30, 4)]
)
def test_agrees_with_dense_matrices(rows: int, dim: int, rank: int) -> None:
    fast, dense = OnlineNaturalGradient(rank), DenseNaturalGradient(rank)
    for minibatch in range(15):
        x = random_directions(rows, dim, seed=minibatch)
        x_hat, scale = fast.precondition(x)
        assert x_hat.dtype == torch.float64
        assert relative_error(x_hat * scale, dense.precondition(x)) < 1e-7, f"minibatch {minibatch}"


def test_agrees_with_dense_matrices_with_fewer_rows_than_rank() -> None:
    """What lies outside the span of the rows is arbitrary then, so all minibatches have the same span."""
    fast, dense = OnlineNaturalGradient(10), DenseNaturalGradient(10)
    rng = torch.Generator().manual_seed(3)
    x = random_directions(4, 30, seed=0)
    for _ in range(5):
        x_hat, scale = fast.precondition(x)
        assert relative_error(x_hat * scale, dense.precondition(x)) < 1e-6
        x = torch.randn(4, 4, generator=rng, dtype=torch.float64) @ x


@pytest.mark.parametrize("size", [1.0, 1e10])  # J J^T is beyond float32
def test_float32_agrees_with_float64(size: float) -> None:
    single, double = OnlineNaturalGradient(10), OnlineNaturalGradient(10)
    for minibatch in range(15):
        x = size * random_directions(100, 30, seed=minibatch)
        expected, scale = double.precondition(x)
        x_hat, scale32 = single.precondition(x.float())
        assert x_hat.dtype == torch.float32
        assert relative_error(x_hat * scale32, expected * scale) < 1e-4


def _with_ones(estimate: OnlineNaturalGradient, x: Tensor) -> tuple[Tensor, Tensor, float]:
    """X_hat of x with a column of ones appended, the column that belongs to the ones, and the scale."""
    directions = estimate.directions(x, has_ones=True)
    x_hat, last, norm = directions.matrix()
    return x_hat, last, restoring_scale(float(directions.norm), float(norm))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_ones_column_is_as_if_appended(dtype: torch.dtype) -> None:
    appended, apart = OnlineNaturalGradient(8), OnlineNaturalGradient(8)
    for minibatch in range(12):
        x = random_directions(50, 20, seed=minibatch, dtype=dtype)
        expected, expected_scale = appended.precondition(torch.cat([x, torch.ones(50, 1, dtype=dtype)], dim=1))
        x_hat, last, scale = _with_ones(apart, x)
        actual = torch.cat([x_hat, last[:, None]], dim=1)
        assert relative_error(actual * scale, expected * expected_scale) < (1e-4 if dtype == torch.float32 else 1e-10)


def test_norm_is_restored_and_input_unchanged() -> None:
    preconditioner = OnlineNaturalGradient(8)
    for minibatch in range(3):
        x = random_directions(50, 20, seed=minibatch, dtype=torch.float32)
        before = x.clone()
        x_hat, scale = preconditioner.precondition(x)
        assert torch.equal(x, before)
        assert float((x_hat * scale).double().norm()) == pytest.approx(float(x.double().norm()), rel=1e-6)


def test_basis_stays_orthonormal() -> None:
    preconditioner = OnlineNaturalGradient(10)
    for minibatch in range(30):
        preconditioner.precondition(random_directions(100, 30, seed=minibatch, dtype=torch.float32))
        basis = basis_of(preconditioner)
        assert float((basis @ basis.t() - torch.eye(10, dtype=torch.float64)).abs().max()) < 2e-3


def test_trace_of_the_estimate_is_kept() -> None:
    """The new trace is eta tr(X^T X) / N + (1 - eta) times the old one, where nothing was floored."""
    preconditioner = OnlineNaturalGradient(6, num_minibatches_history=4.0)
    preconditioner.precondition(random_directions(100, 20, seed=0))
    for minibatch in range(1, 5):
        old = 20 * preconditioner._rho + float(preconditioner._d.sum())
        x = random_directions(100, 20, seed=minibatch)
        preconditioner.precondition(x)
        new = 20 * preconditioner._rho + float(preconditioner._d.sum())
        assert new == pytest.approx(0.25 * float(x.square().sum()) / 100 + 0.75 * old, rel=1e-9)


def test_shrinks_strong_directions() -> None:
    x = random_directions(500, 10, seed=0)
    x_hat, scale = OnlineNaturalGradient(5).precondition(x)
    before, after = torch.linalg.svdvals(x), torch.linalg.svdvals(x_hat * scale)
    assert float(after[0] / after[-1]) < 0.5 * float(before[0] / before[-1])


def test_huge_alpha_leaves_directions_alone() -> None:
    x = random_directions(50, 20, seed=0)
    x_hat, scale = OnlineNaturalGradient(8, alpha=1e9).precondition(x)
    assert relative_error(x_hat * scale, x) < 1e-6


def test_update_period_and_freezing() -> None:
    preconditioner = OnlineNaturalGradient(5, update_period=4)
    changed = []
    for minibatch in range(24):
        preconditioner.frozen = minibatch in (2, 3, 18)
        old = preconditioner._w
        preconditioner.precondition(random_directions(40, 20, seed=minibatch))
        changed.append(old.shape != preconditioner._w.shape or not torch.equal(old, preconditioner._w))
    assert [minibatch for minibatch in range(24) if changed[minibatch]] == [0, 1, *range(4, 11), 14, 22]


def test_frozen_from_the_start_still_begins_with_the_first_matrix() -> None:
    x = random_directions(40, 20, seed=0)
    frozen, free = OnlineNaturalGradient(5), OnlineNaturalGradient(5)
    frozen.frozen = True
    first, _ = frozen.precondition(x)
    again, _ = frozen.precondition(x)
    assert torch.equal(first, free.precondition(x)[0])
    assert torch.equal(first, again)


def test_copies_are_independent() -> None:
    first = OnlineNaturalGradient(5)
    first.precondition(random_directions(40, 20, seed=0))
    second = copy.deepcopy(first)
    third = copy.deepcopy(first)
    x, y = random_directions(40, 20, seed=1), random_directions(40, 20, seed=2)
    second.precondition(y)
    assert torch.equal(first.precondition(x)[0], third.precondition(x)[0])
    assert not torch.equal(first.precondition(x)[0], second.precondition(x)[0])


def test_follows_the_dtype_of_the_input() -> None:
    preconditioner = OnlineNaturalGradient(5)
    for minibatch, dtype in enumerate([torch.float32, torch.float64, torch.float32]):
        x_hat, _ = preconditioner.precondition(random_directions(40, 20, seed=minibatch, dtype=dtype))
        assert x_hat.dtype == dtype


def test_rank_is_reduced_at_the_first_call() -> None:
    preconditioner = OnlineNaturalGradient(40)
    preconditioner.precondition(torch.randn(10, 8))
    assert preconditioner.rank == 7


@pytest.mark.parametrize("shape", [(5, 1), (0, 8)])
def test_nothing_to_do(shape: tuple[int, int]) -> None:
    preconditioner = OnlineNaturalGradient(3)
    x = torch.randn(shape)
    x_hat, scale = preconditioner.precondition(x)
    assert torch.equal(x_hat, x)
    assert float(scale) == 1.0
    assert preconditioner.rank == 3, "the state has changed"


def _difficult() -> dict[str, Tensor]:
    rng = torch.Generator().manual_seed(0)
    normal = torch.randn(30, 20, generator=rng)
    one = torch.randn(1, 20, generator=rng)
    return {
        "zero": torch.zeros(30, 20),
        "huge": normal * 1e15,
        "tiny": normal * 1e-15,
        "huge and equal": torch.full((3000, 300), 1e15),
        "huge and tiny columns": normal * torch.logspace(-15, 15, 20),
        "huge and tiny rows": normal * torch.logspace(-15, 15, 30)[:, None],
        "one row": one,
        "few rows": normal[:3],
        "equal rows": one.expand(30, 20),
        "equal columns": normal[:, :1].expand(30, 20),
        "one column only": normal * torch.eye(20)[0],
        "two columns": normal[:, :2],
        "subnormal": torch.full((30, 20), 1e-40),
    }


@pytest.mark.parametrize("name", _difficult())
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_difficult_inputs_stay_finite(name: str, dtype: torch.dtype) -> None:
    x = _difficult()[name].to(dtype)
    preconditioner = OnlineNaturalGradient(10)
    for _ in range(15):
        x_hat, scale = preconditioner.precondition(x)
        assert bool(x_hat.isfinite().all())
        assert 0 < float(scale) < 1e6
        norm, norm_hat = float(x.double().norm()), float(scale) * float(x_hat.double().norm())
        assert norm_hat == pytest.approx(norm, rel=1e-4) or norm < 1e-30


@pytest.mark.parametrize("rows", [1, 7, 60])
def test_stays_finite_for_long(rows: int) -> None:
    preconditioner = OnlineNaturalGradient(12, update_period=2)
    rng = torch.Generator().manual_seed(0)
    for minibatch in range(200):
        x = random_directions(rows, 25, seed=minibatch, dtype=torch.float32)
        x *= 10.0 ** float(6 * torch.rand((), generator=rng) - 3)
        if minibatch % 17 == 0:
            x.zero_()
        if minibatch % 13 == 0:
            x[:, 5:] = 0
        x_hat, scale = preconditioner.precondition(x)
        assert bool(x_hat.isfinite().all())
        assert 0 < float(scale) < 1e4
    basis = basis_of(preconditioner)
    assert float((basis @ basis.t() - torch.eye(12, dtype=torch.float64)).abs().max()) < 2e-3


@pytest.mark.parametrize("value", [torch.nan, torch.inf])
def test_one_bad_minibatch_does_not_spoil_the_estimate(value: float) -> None:
    preconditioner = OnlineNaturalGradient(5)
    preconditioner.precondition(torch.randn(40, 20))
    before = preconditioner._w.clone()
    bad = torch.randn(40, 20)
    bad[3, 4] = value
    preconditioner.precondition(bad)
    assert torch.equal(preconditioner._w, before)
    assert bool(preconditioner.precondition(torch.randn(40, 20))[0].isfinite().all())


# ---- the product of two preconditioned matrices ----


def _expected_change(x: Tensor, g: Tensor, into: OnlineNaturalGradient, out: OnlineNaturalGradient) -> Tensor:
    """s1 s2 G'^T [X 1]' through the matrices themselves."""
    x_hat, last, scale_in = _with_ones(into, x)
    g_hat, scale_out = out.precondition(g)
    return scale_in * scale_out * g_hat.t() @ torch.cat([x_hat, last[:, None]], dim=1)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(
    ("rows", "input_dim", "output_dim"), [(60, 20, 15), (60, 60, 2), (60, 9, 40), (60, 20, 1), (30, 40, 50)]
)
def test_product_is_that_of_the_matrices(dtype: torch.dtype, rows: int, input_dim: int, output_dim: int) -> None:
    pairs = [(OnlineNaturalGradient(7), OnlineNaturalGradient(5)) for _ in range(2)]
    weight, bias = torch.ones(output_dim, input_dim, dtype=dtype), torch.ones(output_dim, dtype=dtype)
    for minibatch in range(4):
        x = random_directions(rows, input_dim, seed=minibatch, dtype=dtype)
        g = torch.randn(rows, output_dim, dtype=dtype)
        old_weight, old_bias = weight.clone(), bias.clone()
        add_natural_gradient(weight, bias, 0.5, x, pairs[0][0], g, pairs[0][1])
        expected = 0.5 * _expected_change(x, g, *pairs[1])
        tolerance = 1e-4 if dtype == torch.float32 else 1e-9
        assert relative_error(weight - old_weight, expected[:, :-1]) < tolerance
        assert relative_error(bias - old_bias, expected[:, -1]) < tolerance


def test_product_without_bias() -> None:
    pairs = [(OnlineNaturalGradient(7), OnlineNaturalGradient(5)) for _ in range(2)]
    x, g = random_directions(60, 20, seed=0), random_directions(60, 15, seed=1)
    weight = torch.zeros(15, 20, dtype=torch.float64)
    add_natural_gradient(weight, None, 2.0, x, pairs[0][0], g, pairs[0][1])
    x_hat, scale_in = pairs[1][0].precondition(x)
    g_hat, scale_out = pairs[1][1].precondition(g)
    assert relative_error(weight, 2 * scale_in * scale_out * g_hat.t() @ x_hat) < 1e-10


@pytest.mark.parametrize("side", ["input", "output"])
def test_product_is_precise_where_one_direction_dominates(side: str) -> None:
    """Nearly everything cancels in X - H W: the difference of large factors would be off by more than one percent."""
    rng = torch.Generator().manual_seed(0)
    strong = torch.randn(2000, 1, generator=rng) @ torch.randn(1, 1200, generator=rng)
    strong += 1e-4 * torch.randn(2000, 1200, generator=rng)
    other = torch.randn(2000, 3, generator=rng)
    x, g = (strong, other) if side == "input" else (other, strong)
    pairs = [(OnlineNaturalGradient(4), OnlineNaturalGradient(2)) for _ in range(2)]
    weight, bias = torch.zeros(g.shape[1], x.shape[1]), torch.zeros(g.shape[1])
    add_natural_gradient(weight, bias, 1.0, x, pairs[0][0], g, pairs[0][1])
    expected = _expected_change(x.double(), g.double(), *pairs[1])
    assert relative_error(weight, expected[:, :-1]) < 2e-3


def test_a_minibatch_counts_for_nine_tenths_at_most() -> None:
    """However many rows it has beside the history: eta is capped."""
    preconditioner = OnlineNaturalGradient(6, num_samples_history=10.0)
    preconditioner.precondition(random_directions(100, 20, seed=0))
    for minibatch in range(1, 4):
        old = 20 * preconditioner._rho + float(preconditioner._d.sum())
        x = random_directions(100, 20, seed=minibatch) * 3.0**minibatch
        preconditioner.precondition(x)
        new = 20 * preconditioner._rho + float(preconditioner._d.sum())
        assert new == pytest.approx(0.9 * float(x.square().sum()) / 100 + 0.1 * old, rel=1e-9)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_state_is_taken_up_again(dtype: torch.dtype) -> None:
    estimate, other = OnlineNaturalGradient(30), OnlineNaturalGradient(30)
    for minibatch in range(3):
        estimate.precondition(random_directions(40, 20, seed=minibatch).to(dtype))
        assert estimate.state().w.is_contiguous()  # as it comes out of a file, so that products have the same bits
    state = estimate.state()
    kept = state.w.clone()
    x = random_directions(40, 20, seed=5).to(dtype)
    expected, scale = estimate.precondition(x)
    estimate.precondition(random_directions(40, 20, seed=6).to(dtype))
    assert torch.equal(state.w, kept)
    for again in (estimate, other):
        again.load_state(state)
        found, found_scale = again.precondition(x)
        assert torch.equal(found, expected)
        assert found_scale == scale


# ---- processes that share the rows ----


class Layer(NamedTuple):
    """A weight with a bias, and the preconditioners of what it reads and of what comes back."""

    weight: Tensor
    bias: Tensor
    into: OnlineNaturalGradient
    out: OnlineNaturalGradient

    @classmethod
    def new(cls) -> Layer:
        weight, bias = torch.zeros(5, 30, dtype=torch.float64), torch.zeros(5, dtype=torch.float64)
        return cls(weight, bias, OnlineNaturalGradient(6), OnlineNaturalGradient(2))

    def learn(self, x: Tensor, g: Tensor) -> None:
        add_natural_gradient(self.weight, self.bias, 1.0, x, self.into, g, self.out)


def test_processes_learn_together_what_one_does_and_exchange_little() -> None:
    """One of them has few rows, and multiplies matrices where the other one multiplies factors."""
    rows = [[torch.randn(60, 30, dtype=torch.float64), torch.randn(60, 5, dtype=torch.float64)] for _ in range(8)]

    def work(group: ProcessGroup) -> tuple[list[Layer], list[int]]:
        layers, exchanges, original = [Layer.new(), Layer.new()], list[int](), group.sum_

        def counted(tensors: Sequence[Tensor]) -> None:
            exchanges[-1] += 1
            original(tensors)

        group.sum_ = counted  # type: ignore[method-assign]
        own = slice(0, 3) if group.rank else slice(3, 60)
        for first in range(0, len(rows), 2):
            exchanges.append(0)
            with summed_by(group):
                for layer, (x, g) in zip(layers, rows[first : first + 2], strict=True):
                    layer.learn(x[own], g[own])
        return layers, exchanges

    found, alone = in_threads(2, work), [Layer.new(), Layer.new()]
    for number, (x, g) in enumerate(rows):
        alone[number % 2].learn(x, g)
    for number, layer in enumerate(alone):
        parts = [layers[number] for layers, _ in found]
        torch.testing.assert_close(parts[0].weight + parts[1].weight, layer.weight, rtol=1e-6, atol=1e-6)
        torch.testing.assert_close(parts[0].bias + parts[1].bias, layer.bias, rtol=1e-6, atol=1e-6)
    assert [exchanges[1:] for _, exchanges in found] == [[2, 2, 2], [2, 2, 2]]  # sums, then eigenvectors


def test_an_estimate_that_is_used_twice_knows_the_first_rows() -> None:
    x = torch.randn(4, 40, 20, dtype=torch.float64)

    def work(group: ProcessGroup) -> Tensor:
        estimate, own = OnlineNaturalGradient(4), slice(0, 15) if group.rank else slice(15, 40)
        with summed_by(group):
            for each in x:
                estimate.directions(each[own])
        return estimate.state().w

    alone = OnlineNaturalGradient(4)
    for each in x:
        alone.directions(each)
    for w in in_threads(2, work):
        torch.testing.assert_close(w @ w.t(), alone.state().w @ alone.state().w.t(), rtol=1e-6, atol=1e-6)
