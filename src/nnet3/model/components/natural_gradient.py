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

import numpy as np
import torch
from torch import Tensor

from nnet3.model.components.large_products import add_product
from nnet3.model.components.row_matrix import RowMatrix
from nnet3.model.components.row_sums import (
    rows_are_divided,
    settle_sums,
    sum_and_count,
    sum_later_,
    sum_over_processes_,
    take_those_of_first_later_,
    type_of_sums,
)


@dataclass(frozen=True)
class Directions:
    """A preconditioned matrix X_hat = X - H W in factors, which suffice for some products with X_hat.

    All numbers are of the rows here; other processes may have more (row_sums.py).
    """

    x: RowMatrix  # (rows, columns)
    has_ones: bool  # whether X is x with a column of ones appended
    projection: Tensor  # H = X W^T, (rows, rank)
    w: Tensor  # W transposed, (dim, rank), where dim is columns + has_ones
    norm: Tensor  # tr(X X^T), a float64 scalar

    def matrix(self) -> tuple[Tensor, Tensor | None, Tensor]:
        """Returns X_hat without the column of the ones, this column (rows,) if there is one, and tr(X_hat X_hat^T)."""
        x, (rows, columns) = self.x.dense(), self.x.shape
        ones = x.new_ones(rows) if self.has_ones else None
        if self.w.shape[1] == 0:
            return x, ones, self.norm
        x_hat = torch.empty_like(x)
        add_product(x_hat, self.projection, self.w[:columns].t(), x, -1.0)
        norm_hat = RowMatrix(x_hat).sum_of_squares()
        if ones is not None:
            ones.addmv_(self.projection, self.w[columns], alpha=-1)
            norm_hat += torch.linalg.vector_norm(ones, dtype=norm_hat.dtype).square_()
        return x_hat, ones, norm_hat

    def precise_norm(self) -> Tensor | None:
        """Returns tr(X_hat X_hat^T), X_hat not made; None where inexact: far smaller than tr(X X^T)."""
        gram = _product(self.projection.t(), self.projection).double()
        of_w = _product(self.w.t(), self.w).double()
        of_w.diagonal().sub_(2)
        norm = self.norm + torch.dot(gram.view(-1), of_w.view(-1))
        return norm if norm > _LEAST_NORM * self.norm else None


def restoring_scale(norm: float, norm_hat: float) -> float:
    """Returns the factor that restores the Frobenius norm of X, from tr(X X^T) and tr(X_hat X_hat^T)."""
    ratio = norm / norm_hat if norm_hat else math.nan
    return math.sqrt(ratio) if 0 < ratio < math.inf else 1.0


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
        self._waits = False  # for sums over the rows of other processes

    def state(self) -> NaturalGradientState:
        """Returns the estimate so far, to be taken up by `load_state`; the tensors are never changed afterwards."""
        return NaturalGradientState(self._calls, self.rank, self._rho, self._d, self._w)

    def load_state(self, state: NaturalGradientState) -> None:
        """Goes on from an earlier estimate."""
        self._calls, self.rank, self._rho, self._d, self._w = state

    def fresh(self) -> OnlineNaturalGradient:
        """Returns a new preconditioner with equal settings."""
        return replace(self)

    def precondition(self, x: Tensor) -> tuple[Tensor, float]:
        """Returns X_hat (rows, dim) and the scale that gives it the Frobenius norm of x.

        The scale is for the caller to multiply the learning rate by. x is not changed, but may be what is returned.
        """
        directions = self.directions(x)
        x_hat, _, norm_hat = directions.matrix()
        norms = torch.stack([directions.norm, norm_hat])
        sum_over_processes_(norms)
        return x_hat, restoring_scale(*norms.tolist())

    def directions(self, x: Tensor | RowMatrix, *, has_ones: bool = False) -> Directions:
        """Returns X_hat in factors; if `has_ones`, for x with a column of ones appended."""
        if isinstance(x, Tensor):
            x = RowMatrix(x)
        if self._waits:
            settle_sums()
        rows, dim = x.shape[0], x.shape[1] + has_ones
        self._w = self._w.to(x.device, x.dtype)
        knows = self._calls > 0 and dim > 1
        projection, squares = self._project(x, has_ones) if knows else (None, x.sum_of_squares())
        norm = squares + rows if has_ones else squares
        if projection is None and self._start(x, has_ones, norm, rows):
            projection, _ = self._project(x, has_ones)
        if projection is None or (rows == 0 and not rows_are_divided()):
            nothing = torch.zeros(rows + dim, 0, dtype=x.dtype, device=x.device)
            return Directions(x, has_ones, nothing[:rows], nothing[rows:], norm)
        result = Directions(x, has_ones, projection, self._w, norm)
        if self._is_time_to_update:
            self._waits = rows_are_divided()
            self._update(result)
        self._calls += 1
        return result

    @property
    def _is_time_to_update(self) -> bool:
        return not self.frozen and (self._calls <= 10 or (self._calls - 10) % self.update_period == 0)

    def _project(self, x: RowMatrix, has_ones: bool) -> tuple[Tensor, Tensor]:
        """Returns H = X W^T, (rows, rank), and the squares of X without the ones."""
        projection, squares = x.times(self._w[:-1] if has_ones else self._w)
        return projection.add_(self._w[-1]) if has_ones else projection, squares

    def _start(self, x: RowMatrix, has_ones: bool, norm: Tensor, rows: int) -> bool:
        """Begins with a fixed sparse basis, then learns from the first matrix itself (docs/formulas.md, beginning).

        Returns False if there is nothing to learn.
        """
        dim = x.shape[1] + has_ones
        total_rows = sum_and_count(norm, rows)[1] if dim > 1 else 0
        if total_rows == 0:
            return False
        rank = self.rank = min(self.rank, dim - 1)
        self._rho = self.epsilon
        self._d = torch.full((rank,), self.epsilon, dtype=torch.float64)
        column = torch.arange(dim)
        basis = torch.zeros(dim, rank, dtype=torch.float64)
        basis[column, column % rank] = torch.where(column < rank, 1.1, 1.0).double()
        basis /= basis.norm(dim=0)
        self._w = (basis * math.sqrt(1 / (2 + (dim + rank) * self.alpha / dim))).to(x.device, x.dtype)
        for _ in range(1 if total_rows <= rank else 3):
            self._update(Directions(x, has_ones, self._project(x, has_ones)[0], self._w, norm))
            settle_sums()
        return True

    def _update(self, directions: Directions) -> None:
        """Moves the estimate towards their covariance (docs/formulas.md, updating), once all processes' sums are known.

        A matrix with NaN or infinity is ignored. What is of size (rank, rank) is computed in float64 on the CPU.
        """
        x, projection = directions.x, directions.projection
        j = projection.new_empty(self._w.shape, dtype=type_of_sums(projection))
        j[: x.shape[1]] = x.transposed_times(projection)
        if directions.has_ones:
            j[-1] = projection.sum(0)
        norm_and_rows = torch.stack([directions.norm, torch.full_like(directions.norm, len(projection))])
        sum_later_((j, norm_and_rows), lambda: self._move(j, *norm_and_rows.tolist()))

    def _move(self, j: Tensor, norm: float, rows: float) -> None:
        """Does the rest of `_update`, given sums over all rows: J^T = X^T H, tr(X X^T) and the number of rows."""
        self._waits = False
        if rows == 0:
            return
        dim, rank = j.shape
        eta = self._forgetting(rows)
        unit = 2.0 ** min(max(math.frexp(norm)[1], -100), 100)  # J J^T of large J is more than float32 holds
        j.mul_(1 / unit)
        gain = eta / rows * unit
        d, rho = self._d.numpy(), self._rho
        e = self._smoothed(rho, d)
        old = (1 - eta) * (d + rho)

        w = self._w.to(j.dtype)
        k, l = _in_float64(j.t() @ j), _in_float64(w.t() @ j)
        root = 1 / np.sqrt(e)
        with np.errstate(invalid="ignore"):
            z = root[:, None] * (gain**2 * k + gain / 2 * (l + l.T) * (old[:, None] + old)) * root + np.diag(old**2)
        of_first = _decreasing_eigenvalues(torch.from_numpy(z), self._w.dtype)
        b = j.addcmul_(w, torch.from_numpy(old / gain).to(j))  # J^T + W^T diag(old / gain)

        def turn() -> None:
            c, u = (each.numpy() for each in of_first)
            if not np.isfinite(c).all():
                return
            floor = (rho * (1 - eta)) ** 2
            is_uneven = c[0] > 1e6 * c[-1] or c[-1] < floor
            floored = c.clip(min=floor)
            root_c = np.sqrt(floored)
            trace = eta / rows * norm + (1 - eta) * (dim * rho + d.sum())
            new_rho = (trace - root_c.sum()) / (dim - rank)
            new_d = root_c - new_rho
            least = max(self.epsilon, self.delta * float(root_c.max()))
            new_rho, new_d = max(float(new_rho), least), new_d.clip(min=least)
            new_e = np.sqrt(self._smoothed(new_rho, new_d))

            # rows of the new basis: diag(e')^(-1/2) A B; here B^T and A^T
            a = gain * root[:, None] * u / root_c
            if is_uneven:
                basis = _orthonormal_rows((b.double() @ torch.from_numpy(a).to(b.device)).t()).t()
                self._w = (basis * torch.from_numpy(new_e).to(b.device)).to(self._w.dtype).contiguous()
            else:
                self._w = (b @ torch.from_numpy(a * new_e).to(b)).to(self._w.dtype)
            self._rho, self._d = new_rho, torch.from_numpy(new_d)

        # Rounding may turn eigenvectors of equal eigenvalues, and J is of all processes' W.
        take_those_of_first_later_(of_first, turn)

    def _forgetting(self, rows: float) -> float:
        """Returns eta, the weight of this minibatch in the estimate (docs/formulas.md, forgetting)."""
        if self.num_minibatches_history > 0:
            return 1 / self.num_minibatches_history
        return min(0.9, 1 - math.exp(-rows / self.num_samples_history))

    def _smoothed(self, rho: float, d: np.ndarray) -> np.ndarray:
        """Returns e = d / (beta + d), (rank,), with beta = rho (1 + alpha) + alpha sum(d) / dim."""
        beta = rho * (1 + self.alpha) + self.alpha * d.sum() / self._w.shape[0]
        return d / (beta + d)


def _in_float64(small: Tensor) -> np.ndarray:
    return small.cpu().numpy().astype(np.float64)


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
    """Makes rows orthonormal: from each row subtracts the projection on the rows before, then scales."""
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


def _product(left: Tensor, right: Tensor) -> Tensor:
    result = left.new_empty(left.shape[0], right.shape[1])
    add_product(result, left, right)
    return result


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
    (rows, output_dim), input_dim = y_deriv.shape, weight.shape[1]
    may_follow = rows / 2 if y_deriv.device.type == "cpu" else 0
    norm_in = into.precise_norm() if may_follow >= output_dim else None
    norm_out = out.precise_norm() if may_follow >= input_dim else None
    w, v = into.w, out.w
    of_rows, g = into.x, y_deriv
    ones = None if bias is None else g.new_ones(rows)
    if norm_in is None:
        x_hat, ones, norm_in = into.matrix()
        of_rows, w = RowMatrix(x_hat), w[:, :0]
    if norm_out is None:
        g, _, norm_out = out.matrix()
        v = v[:, :0]
    norms = torch.stack([into.norm, norm_in, out.norm, norm_out])

    def restored() -> float:
        norm_in, norm_in_hat, norm_out, norm_out_hat = norms.tolist()
        return rate * restoring_scale(norm_in, norm_in_hat) * restoring_scale(norm_out, norm_out_hat)

    if w.shape[1] == v.shape[1] == 0 and not rows_are_divided():
        alpha = restored()
        of_rows.add_product(weight, g, alpha)
        if bias is not None and ones is not None:
            bias.addmv_(g.t(), ones, alpha=alpha)
        return
    product, column = weight.new_zeros(weight.shape), None if ones is None else g.t() @ ones  # G^T [X 1]
    of_rows.add_product(product, g, 1.0)
    if v.shape[1]:
        add_product(product, v, _product(v.t(), product), product, -1.0)
    of_w = product @ w[:input_dim]
    if column is not None:
        column.addmv_(v, v.t() @ column, alpha=-1)
        if w.shape[1]:
            of_w.addr_(column, w[input_dim])

    def add() -> None:
        alpha = restored()
        if bias is not None and column is not None:
            bias.add_(column, alpha=alpha)
            if w.shape[1]:
                bias.addmv_(of_w, w[input_dim], alpha=-alpha)
        weight.add_(product, alpha=alpha)
        if w.shape[1]:
            add_product(weight, of_w, w[:input_dim].t(), weight, -alpha)

    sum_later_([norms], add)
