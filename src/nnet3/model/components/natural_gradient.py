"""Online natural gradient: row vectors are multiplied by the inverse of a running estimate of their covariance.

The estimate is of low rank plus a multiple of the identity (docs/formulas.md, natural gradient):

    F = V^T diag(d) V + rho I     with V (rank, dim), orthonormal rows
    beta = rho (1 + alpha) + alpha sum(d) / dim,   e = d / (beta + d),   W = diag(e)^(1/2) V
    X_hat = X - (X W^T) W         the rows of X times beta times the inverse of F, smoothed towards the identity
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Tensor

from nnet3.model.components.large_products import add_product
from nnet3.model.components.row_matrix import RowMatrix
from nnet3.model.components.row_sums import sum_and_count, sum_over_processes_, take_those_of_first_


@dataclass(frozen=True)
class Directions:
    """A preconditioned matrix X_hat = X - H W in factors, which suffice for some products with X_hat."""

    x: RowMatrix  # (rows, columns)
    has_ones: bool  # whether X is x with a column of ones appended
    projection: Tensor  # H = X W^T, (rows, rank)
    w: Tensor  # W transposed, (dim, rank), where dim is columns + has_ones
    norm: Tensor  # tr(X X^T), a float64 scalar; as all sums over rows it is that of all processes (row_sums.py)
    num_rows: int  # of all processes

    def matrix(self) -> tuple[Tensor, Tensor, Tensor]:
        """X_hat but for the column that belongs to the ones, that column (rows,), and the scale."""
        x, columns = self.x.dense(), self.x.shape[1]
        ones = x.new_ones(len(x))
        if self.w.shape[1] == 0:
            return x, ones, torch.ones_like(self.norm)
        x_hat = torch.empty_like(x)
        add_product(x_hat, self.projection, self.w[:columns].t(), x, -1.0)
        norm_hat = RowMatrix(x_hat).sum_of_squares()
        if self.has_ones:
            ones.addmv_(self.projection, self.w[columns], alpha=-1)
            norm_hat = norm_hat + ones.double().square().sum()
        sum_over_processes_(norm_hat)
        return x_hat, ones, self.scale(norm_hat)

    def norm_of_product(self) -> Tensor:
        """tr(X_hat X_hat^T) without X_hat, inexact where it is much smaller than tr(X X^T)."""
        gram = (self.projection.t() @ self.projection).double()
        change = (gram * (self.w.t() @ self.w).double()).sum() - 2 * gram.trace()
        sum_over_processes_(change)
        return self.norm + change

    def scale(self, norm_hat: Tensor) -> Tensor:
        """Returns the factor that restores the Frobenius norm of X, given tr(X_hat X_hat^T)."""
        ratio = self.norm / norm_hat
        return torch.where(ratio.isfinite() & (ratio > 0), ratio.sqrt(), 1.0)


class NaturalGradientState(NamedTuple):
    """An estimate: how many matrices it has seen, its rank, and rho, d (rank,) and W transposed (dim, rank)."""

    calls: int
    rank: int
    rho: float
    d: Tensor
    w: Tensor


@dataclass(eq=False, repr=False)
class OnlineNaturalGradient:
    """Preconditioner of "directions", the rows of the matrices given to `precondition`.

    All matrices must have equally many columns. The state is made at the first call, follows dtype and
    device of the matrices, is copied with the component and never written to a file. While `frozen` is set the
    estimate is used but does not change. `rank` is reduced to dim - 1 at the first call if it is not less than dim.
    """

    rank: int = 40
    update_period: int = 1
    num_samples_history: float = 2000.0
    num_minibatches_history: float = 0.0
    alpha: float = 4.0
    epsilon: float = 1e-10
    delta: float = 5e-4

    def __post_init__(self) -> None:
        assert min(self.rank, self.update_period, self.num_samples_history) > 0
        assert self.alpha >= 0
        assert self.num_minibatches_history == 0 or self.num_minibatches_history > 1
        self.frozen = False
        self._calls = 0
        self._rho = self.epsilon
        self._d = torch.empty(0, dtype=torch.float64)  # (rank,), always on the CPU
        self._w = torch.empty(0, 0)  # W transposed, (dim, rank): this layout makes X W^T fastest

    def state(self) -> NaturalGradientState:
        """The estimate so far, to be taken up by `load_state`; the tensors are never changed afterwards."""
        return NaturalGradientState(self._calls, self.rank, self._rho, self._d, self._w)

    def load_state(self, state: NaturalGradientState) -> None:
        """Go on from there."""
        self._calls, self.rank, self._rho, self._d, self._w = state

    def fresh(self) -> OnlineNaturalGradient:
        """A new preconditioner with equal settings."""
        return replace(self)

    def precondition(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """X_hat (rows, dim) and the scale, a float64 scalar, that gives it the Frobenius norm of x.

        The scale is for the caller to multiply the learning rate by. x is not changed, but may be what is returned.
        """
        x_hat, _, scale = self.directions(x).matrix()
        return x_hat, scale

    def directions(self, x: Tensor | RowMatrix, *, has_ones: bool = False) -> Directions:
        """The same in factors; if `has_ones`, for x with a column of ones appended."""
        if isinstance(x, Tensor):
            x = RowMatrix(x)
        rows, dim = x.shape[0], x.shape[1] + has_ones
        self._w = self._w.to(x.device, x.dtype)
        knows = self._calls > 0 and dim > 1
        projection, squares = self._project(x, has_ones) if knows else (None, x.sum_of_squares())
        norm, total_rows = sum_and_count(squares + (rows if has_ones else 0), rows)
        if dim == 1 or total_rows == 0:
            nothing = torch.zeros(rows + dim, 0, dtype=x.dtype, device=x.device)
            return Directions(x, has_ones, nothing[:rows], nothing[rows:], norm, total_rows)
        if projection is None:
            self._start(x, has_ones, norm, total_rows)
            projection, _ = self._project(x, has_ones)
        result = Directions(x, has_ones, projection, self._w, norm, total_rows)
        if self._is_time_to_update:
            self._update(result)
        self._calls += 1
        return result

    @property
    def _is_time_to_update(self) -> bool:
        return not self.frozen and (self._calls <= 10 or (self._calls - 10) % self.update_period == 0)

    def _project(self, x: RowMatrix, has_ones: bool) -> tuple[Tensor, Tensor]:
        """H = X W^T, (rows, rank), and the squares of X without the ones."""
        projection, squares = x.times(self._w[:-1] if has_ones else self._w)
        return projection.add_(self._w[-1]) if has_ones else projection, squares

    def _start(self, x: RowMatrix, has_ones: bool, norm: Tensor, rows: int) -> None:
        """Begin with a fixed sparse basis, then learn from the first matrix itself (docs/formulas.md, beginning)."""
        dim = x.shape[1] + has_ones
        rank = self.rank = min(self.rank, dim - 1)
        self._rho = self.epsilon
        self._d = torch.full((rank,), self.epsilon, dtype=torch.float64)
        column = torch.arange(dim)
        basis = torch.zeros(dim, rank, dtype=torch.float64)
        basis[column, column % rank] = torch.where(column < rank, 1.1, 1.0).double()
        basis /= basis.norm(dim=0)
        self._w = (basis * math.sqrt(1 / (2 + (dim + rank) * self.alpha / dim))).to(x.device, x.dtype)
        for _ in range(1 if rows <= rank else 3):
            self._update(Directions(x, has_ones, self._project(x, has_ones)[0], self._w, norm, rows))

    def _update(self, directions: Directions) -> None:
        """Move the estimate towards their covariance (docs/formulas.md, updating).

        A matrix with NaN or infinity is ignored. What is of size (rank, rank) is computed in float64 on the CPU.
        """
        x, projection = directions.x, directions.projection
        dim, rank = self._w.shape
        eta = self._forgetting(directions.num_rows)
        gain = eta / directions.num_rows
        d, rho = self._d, self._rho
        e = self._smoothed(rho, d)
        old = (1 - eta) * (d + rho)

        w = self._w.t().double()
        j = w.new_empty(rank, dim)
        j[:, : x.shape[1]] = x.left_times(projection.t())
        if directions.has_ones:
            j[:, -1] = projection.sum(0)
        sum_over_processes_(j)
        k = (j @ j.t()).cpu()
        l = (w @ j.t()).cpu()
        root = e.rsqrt()
        z = root[:, None] * (gain**2 * k + gain * (l + l.t()) / 2 * (old[:, None] + old)) * root
        z += torch.diag(old.square())
        c, u = _decreasing_eigenvalues(z, x.dtype)
        take_those_of_first_(c, u)  # rounding may turn eigenvectors of equal eigenvalues, and J is of all processes' W
        if not c.isfinite().all():
            return

        floor = (rho * (1 - eta)) ** 2
        spread = bool(c[0] > 1e6 * c[-1])
        floored = bool((c < floor).any())
        c = c.clamp(min=floor)
        root_c = c.sqrt()
        trace = gain * float(directions.norm) + (1 - eta) * (dim * rho + float(d.sum()))
        new_rho = (trace - float(root_c.sum())) / (dim - rank)
        new_d = root_c - new_rho
        least = max(self.epsilon, self.delta * float(root_c.max()))
        new_rho, new_d = max(new_rho, least), new_d.clamp(min=least)
        new_e = self._smoothed(new_rho, new_d)

        # rows of the new basis: diag(e')^(-1/2) A B with B = J + diag(old / gain) W
        a = gain * c.rsqrt()[:, None] * u.t() * root
        b = j.add_(w * (old / gain).to(w.device)[:, None])
        basis = a.to(w.device) @ b
        if spread or floored:
            basis = _orthonormal_rows(basis)
        self._rho, self._d = new_rho, new_d
        self._w = (basis * new_e.sqrt().to(w.device)[:, None]).to(x.dtype).t().contiguous()

    def _forgetting(self, rows: int) -> float:
        """eta, the weight of this minibatch in the estimate (docs/formulas.md, forgetting)."""
        if self.num_minibatches_history > 0:
            return 1 / self.num_minibatches_history
        return min(0.9, 1 - math.exp(-rows / self.num_samples_history))

    def _smoothed(self, rho: float, d: Tensor) -> Tensor:
        """Returns e = d / (beta + d), (rank,), with beta = rho (1 + alpha) + alpha sum(d) / dim."""
        beta = rho * (1 + self.alpha) + self.alpha * float(d.sum()) / self._w.shape[0]
        return d / (beta + d)


def _decreasing_eigenvalues(z: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Eigenvalues, the largest first, and eigenvectors in columns, computed in `dtype` and given in float64.

    In float32 the smallest eigenvalues consist of the rounding of the largest; the estimate shows the rounding in
    Kaldi, so more precision here would agree less. All are NaN if z is not finite.
    """
    if not z.isfinite().all():
        return torch.full_like(z[0], math.nan), torch.full_like(z, math.nan)
    scale = z.trace().clamp(min=1.0)
    values, vectors = torch.linalg.eigh((z / scale).to(torch.promote_types(dtype, torch.float32)))
    return values.double().flip(0) * scale, vectors.double().flip(1)


def _orthonormal_rows(basis: Tensor) -> Tensor:
    """Make rows orthonormal; each row keeps its direction off the span of the rows before it."""
    gram = basis @ basis.t()
    identity = torch.eye(gram.shape[0], dtype=gram.dtype, device=gram.device)
    if (gram - identity).abs().max() <= 1e-3:
        return basis
    factor, failure = torch.linalg.cholesky_ex(gram)
    if failure == 0:
        inverse = torch.linalg.solve_triangular(factor, identity, upper=False)
        if inverse.abs().max() < 100:
            return inverse @ basis
    return _gram_schmidt(basis)


def _gram_schmidt(basis: Tensor) -> Tensor:
    """Gram-Schmidt in row order by Householder reflections, which give dependent rows an arbitrary new direction."""
    q, r = torch.linalg.qr(basis.t())
    return (q * torch.where(r.diagonal() < 0, -1.0, 1.0)).t()


_LEAST_NORM = 0.01  # share of the squared norm that must be left: with less, the product would lose too much precision


def add_natural_gradient(
    weight: Tensor,
    bias: Tensor | None,
    rate: float,
    x: Tensor | RowMatrix,
    preconditioner_in: OnlineNaturalGradient,
    y_deriv: Tensor,
    preconditioner_out: OnlineNaturalGradient,
) -> None:
    """weight += rate s1 s2 G'^T X' with (X', s1) = PD_in(X), (G', s2) = PD_out(G).

    weight is (output_dim, input_dim), x (rows, input_dim), y_deriv (rows, output_dim). With a bias (output_dim,), X is
    x with a column of ones appended, and the bias moves by that column of the product.

    X' = X (I - W^T W), so that with many rows it is less work to multiply G^T X by the matrix in brackets than X.
    """
    into = preconditioner_in.directions(x, has_ones=bias is not None)
    out = preconditioner_out.directions(y_deriv)
    output_dim, input_dim = weight.shape
    may_follow = out.num_rows / 2 if y_deriv.device.type == "cpu" else 0  # the same choice in all processes
    scale_in = _precise_scale(into) if may_follow >= output_dim else None
    scale_out = _precise_scale(out) if may_follow >= input_dim else None
    w, v = into.w, out.w
    of_rows, ones, g = into.x, w.new_ones(len(y_deriv)), y_deriv
    if scale_in is None:
        x_hat, ones, scale_in = into.matrix()
        of_rows, w = RowMatrix(x_hat), w[:, :0]
    if scale_out is None:
        g, _, scale_out = out.matrix()
        v = v[:, :0]
    rate *= float(scale_in * scale_out)
    if w.shape[1] == v.shape[1] == 0:
        of_rows.add_product(weight, g, rate)
        if bias is not None:
            bias.addmv_(g.t(), ones, alpha=rate)
        return
    product, column = weight.new_zeros(weight.shape), g.t() @ ones  # G^T [X 1]
    of_rows.add_product(product, g, 1.0)
    add_product(product, v, v.t() @ product, product, -1.0)
    column.addmv_(v, v.t() @ column, alpha=-1)
    of_w = product @ w[:input_dim]
    if bias is not None:
        of_w.addr_(column, w[input_dim])
        bias.add_(column, alpha=rate).addmv_(of_w, w[input_dim], alpha=-rate)
    add_product(weight.add_(product, alpha=rate), of_w, w[:input_dim].t(), weight, -rate)


def _precise_scale(directions: Directions) -> Tensor | None:
    """The scale, if it need not be that of X' itself to be precise."""
    norm = directions.norm_of_product()
    return directions.scale(norm) if norm > _LEAST_NORM * directions.norm else None
