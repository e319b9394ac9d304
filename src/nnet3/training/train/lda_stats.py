"""Statistics of classes of feature vectors, for linear discriminant analysis."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from nnet3.base.kaldi_io.general import sparse_of
from nnet3.base.kaldi_io.reader import Reader
from nnet3.base.kaldi_io.sparse import SparseMatrix
from nnet3.base.kaldi_io.writer import Writer
from nnet3.base.options.training import FeatureTransformOptions
from nnet3.errors import TrainingError
from nnet3.model.nnet import Nnet
from nnet3.training.examples.example import Example
from nnet3.training.train.evaluation import ExampleOutputs
from nnet3.training.train.minibatch import Minibatch
from nnet3.training.train.to_minibatch import to_unlabelled

_SEED = 0
Labelled = tuple[Minibatch, SparseMatrix]  # what to compute, and the class weights of the rows of `output`


@dataclass(frozen=True, eq=False)
class LdaStats:
    """Sums over weighted feature vectors x, in float64.

    `zero` (classes,): the weights w of each class; `first` (classes, dim): w x; `second` (dim, dim): w x x^T of all.
    """

    zero: np.ndarray
    first: np.ndarray
    second: np.ndarray

    @classmethod
    def of_rows(cls, features: np.ndarray, weights: SparseMatrix) -> LdaStats:
        """Returns the statistics of features (rows, dim) with class weights (rows, classes)."""
        row, classes, values = weights.row_of_element(), weights.cols, weights.values.astype(np.float64)
        x = features.astype(np.float64)[row]
        first = np.zeros((classes, x.shape[1]))
        np.add.at(first, weights.ids, values[:, None] * x)
        return cls(np.bincount(weights.ids, values, classes), first, (values[:, None] * x).T @ x)

    def __add__(self, other: LdaStats) -> LdaStats:
        """Raises TrainingError if the numbers of classes or dimensions differ."""
        if self.first.shape != other.first.shape:
            shown = " and ".join(f"{each.first.shape[0]} classes of {each.first.shape[1]}" for each in (self, other))
            raise TrainingError(f"statistics cannot be added: {shown} dimensions")
        return LdaStats(self.zero + other.zero, self.first + other.first, self.second + other.second)

    def _of_means(self) -> np.ndarray:
        """Returns the sum over classes of zero m m^T, m the class's mean, (dim, dim)."""
        seen = self.zero != 0
        return (self.first[seen] / self.zero[seen, None]).T @ self.first[seen]

    def covariances(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Returns the mean (dim,), the total and the between-class covariance (dim, dim)."""
        total = self.zero.sum()
        mean = self.first.sum(0) / total
        square = np.outer(mean, mean)
        return mean, self.second / total - square, self._of_means() / total - square

    @classmethod
    def read(cls, reader: Reader) -> LdaStats:
        """Reads `<LDAACCS> ... </LDAACCS>`. Raises ModelFormatError."""
        start = reader.position
        reader.expect("<LDAACCS>")
        dim = reader.after("<VECSIZE>").int32()
        classes = reader.after("<NUMCLASSES>").int32()
        zero = reader.after("<ZERO_ACCS>").vector(np.float64)
        first = reader.after("<FIRST_ACCS>").matrix(np.float64)
        packed = reader.after("<SECOND_ACCS>").packed(np.float64)
        reader.expect("</LDAACCS>")
        if zero.shape != (classes,) or first.shape != (classes, dim) or len(packed) != dim * (dim + 1) // 2:
            raise reader.error_at(start, f"the parts are not those of {classes} classes and {dim} dimensions")
        stats = cls(zero, first, np.zeros((dim, dim)))
        within = unpacked(packed)
        return cls(zero, first, within + stats._of_means())

    def write_to(self, writer: Writer) -> None:
        """Writes a file for `read`, in float32: of second-order statistics the part within classes."""
        writer.token("<LDAACCS>")
        writer.token("<VECSIZE>").int32(self.first.shape[1])
        writer.token("<NUMCLASSES>").int32(len(self.zero))
        writer.token("<ZERO_ACCS>").vector(self.zero)
        writer.token("<FIRST_ACCS>").matrix(self.first)
        writer.token("<SECOND_ACCS>").packed(packed(self.second - self._of_means()))
        writer.token("</LDAACCS>")


def beside(parts: Sequence[LdaStats]) -> LdaStats:
    """Returns statistics of equal features with the classes of all parts in a row."""
    first, *_ = parts
    second = sum((each.second for each in parts), np.zeros_like(first.second))
    return LdaStats(
        np.concatenate([each.zero for each in parts]), np.concatenate([each.first for each in parts]), second
    )


def packed(matrix: np.ndarray) -> np.ndarray:
    """Returns the lower triangle of a matrix (dim, dim), row after row."""
    return matrix[np.tril_indices(len(matrix))]


def unpacked(elements: np.ndarray) -> np.ndarray:
    """Returns the symmetric matrix (dim, dim) of a lower triangle."""
    dim = int(np.sqrt(2 * len(elements)))
    matrix = np.zeros((dim, dim))
    matrix[np.tril_indices(dim)] = elements
    return matrix + np.tril(matrix, -1).T


def pruned(weights: SparseMatrix, threshold: float, rng: np.random.Generator) -> SparseMatrix:
    """Returns weights; a weight below the threshold becomes 0 or the threshold, at random, with its mean kept."""
    if threshold <= 0:
        return weights
    values = weights.values
    size = np.abs(values)
    drawn = np.where(rng.random(len(values)) * threshold < size, np.copysign(np.float32(threshold), values), 0.0)
    kept = np.where(size < threshold, drawn, values).astype(np.float32)
    seen = kept != 0
    indptr = np.concatenate([[0], np.cumsum(seen)])[weights.indptr]
    return SparseMatrix(weights.rows, weights.cols, indptr, weights.ids[seen], kept[seen])


@dataclass(frozen=True, eq=False)
class FeatureTransform:
    """`matrix` (rows, dim), or (rows, dim + 1) with an offset, float32; `cholesky` (dim, dim) of the covariance within
    classes; `log`: lines about singular values, as Kaldi has them."""

    matrix: np.ndarray
    cholesky: np.ndarray
    log: list[str] = field(default_factory=list)


def estimate_transform(stats: LdaStats, options: FeatureTransformOptions) -> FeatureTransform:
    """Returns the transform that statistics give: LDA, with smaller rows where classes differ little.

    W is the covariance within classes, B that between them; W = C C^T and C^-1 B C^-T = U diag(d) U^T, d falling. Row i
    is row i of U^T C^-1 times sqrt((f + d_i) / (1 + d_i)), f the within-class factor. Singular values are cut at the
    largest allowed one; the offset makes the mean zero. Raises TrainingError for too few data.
    """
    dim = stats.first.shape[1]
    rows = dim if options.dim <= 0 else options.dim
    if rows > dim:
        raise TrainingError(f"dim must be at most {dim}, the dimension of the features, got {rows}")
    if not stats.zero.sum() > 0:
        raise TrainingError("the statistics have no data")
    mean, total, between = stats.covariances()
    cholesky = _cholesky(total - between)
    inverse = np.linalg.inv(cholesky)
    left, singular, _ = np.linalg.svd(inverse @ between @ inverse.T)
    log = [
        f"Data count is {stats.zero.sum():g}",
        f"LDA singular values are  [ {' '.join(f'{value:g}' for value in singular)} ]",
        f"Sum of all singular values is {singular.sum():g}",
        f"Sum of selected singular values is {singular[:rows].sum():g}",
    ]
    matrix = (left.T @ inverse)[:rows].astype(np.float32)
    if options.within_class_factor != 1.0:
        factor = np.sqrt((options.within_class_factor + singular[:rows]) / (1.0 + singular[:rows]))
        matrix *= factor.astype(np.float32)[:, None]
    matrix = _with_ceiling(matrix, options.max_singular_value, log)
    if options.remove_offset:
        matrix = np.column_stack([matrix, -(matrix @ mean.astype(np.float32))])
    return FeatureTransform(matrix, cholesky, log)


def _cholesky(within: np.ndarray) -> np.ndarray:
    """Returns the lower factor of a covariance; unless positive definite, the matrix gets a little on its diagonal."""
    smoothing = 0.001 * np.trace(within) / len(within)
    try:
        return np.linalg.cholesky(within)
    except np.linalg.LinAlgError:
        pass
    try:
        return np.linalg.cholesky(within + smoothing * np.eye(len(within)))
    except np.linalg.LinAlgError:
        raise TrainingError("the features do not vary within classes: give more data") from None


def _with_ceiling(matrix: np.ndarray, ceiling: float, log: list[str]) -> np.ndarray:
    """Returns the matrix with its singular values cut, and says so, if any is above a ceiling above 0."""
    if ceiling <= 0:
        return matrix
    left, values, right = np.linalg.svd(matrix, full_matrices=False)
    above = values > np.float32(ceiling)
    if not above.any():
        return matrix
    log.append(
        f"Applied ceiling to {above.sum()} out of {len(values)} singular values of transform using ceiling "
        f"{ceiling:g}, max is {values.max():g}"
    )
    cut: np.ndarray = (left * np.minimum(values, np.float32(ceiling))) @ right
    return cut


def labelled_by_class(nnet: Nnet) -> Callable[[str, Example], Labelled]:
    """Returns a function from key and example to the minibatch that computes `output`, and class weights of its rows.

    The function raises TrainingError for an example without `output`.
    """
    inputs, names = nnet.input_dims, nnet.output_names

    def labelled(key: str, example: Example) -> Labelled:
        weights = next((io.matrix for io in example.ios if io.name == "output"), None)
        if weights is None:
            raise TrainingError("there is no 'output' in the example")
        return to_unlabelled(example.ios, inputs, names, key), sparse_of(weights)

    return labelled


def accumulated(nnet: Nnet, examples: Iterable[Labelled], rand_prune: float) -> tuple[LdaStats | None, int]:
    """Returns statistics of the network's `output`, None without any weight, and the number of examples.

    Weights below `rand_prune` become that or 0, at random.
    """
    computer, rng, total, count = ExampleOutputs(nnet), np.random.default_rng(_SEED), None, 0
    for minibatch, weights in examples:
        features = computer.compute(minibatch)["output"].cpu().numpy()
        own = LdaStats.of_rows(features, pruned(weights, rand_prune, rng))
        total = own if total is None else total + own
        count += 1
    return (None if total is None or total.zero.sum() == 0 else total), count
