"""Minibatches: the inputs and targets of a step of training, and their computers."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from nnet3.base.kaldi_io.sparse import SparseMatrix
from nnet3.base.options.compiling import CompileOptions
from nnet3.engine.driver import ComputationCache, default_cache
from nnet3.engine.ir.computation import NnetComputation
from nnet3.engine.ir.matrices import is_finite
from nnet3.engine.runtime import NnetComputer
from nnet3.engine.runtime.recent import ChangedComputers
from nnet3.errors import LostError, Nnet3Error, TrainingError
from nnet3.model.nnet import Nnet, device_of
from nnet3.model.requests import ComputationRequest, IoSpecification


@dataclass(frozen=True, eq=False)
class NetworkInput:
    """The rows of an input: indexes (rows, 3) n, t, x and a dense matrix (rows, columns).

    `take_deriv`, if given, gets the derivative of the objective by the matrix in training.
    """

    name: str
    indexes: np.ndarray
    matrix: Tensor
    take_deriv: Callable[[Tensor], None] | None = None


class Target(Protocol):
    """The target of an output node. Every `Objective` knows its own kind of target, with further fields."""

    @property
    def name(self) -> str:
        """The output node."""

    @property
    def indexes(self) -> np.ndarray:
        """The rows that the output shall have, (rows, 3) n, t, x."""

    @property
    def is_finite(self) -> bool:
        """False if something is NaN or infinite that must not be."""


@dataclass(frozen=True, eq=False)
class MatrixTarget:
    """A target that is a matrix (rows, columns) of the size of the output, dense or sparse.

    For a linear objective it holds the labels' probabilities.
    """

    name: str
    indexes: np.ndarray
    matrix: Tensor | SparseMatrix

    @property
    def is_finite(self) -> bool:
        if isinstance(self.matrix, SparseMatrix):
            return bool(np.isfinite(self.matrix.values).all())
        return is_finite(self.matrix)

    def dense(self) -> Tensor:
        """Returns the matrix, (rows, columns)."""
        return torch.from_numpy(self.matrix.dense()) if isinstance(self.matrix, SparseMatrix) else self.matrix


@dataclass(frozen=True, eq=False)
class WantedOutput:
    """A target without values: rows of an output that are computed, but not trained."""

    name: str
    indexes: np.ndarray
    is_finite: bool = True


@dataclass(frozen=True, eq=False)
class Minibatch:
    """Inputs, and targets for one or more output nodes; `key` is the example's, for messages."""

    inputs: Sequence[NetworkInput]
    targets: Sequence[Target]
    key: str = ""

    @property
    def num_sequences(self) -> int:
        """The sequence number n of the last row, plus one; inputs and targets must agree in it."""
        ios: list[NetworkInput | Target] = [*self.inputs, *self.targets]
        counts = {io.name: int(io.indexes[-1, 0]) + 1 for io in ios if len(io.indexes)}
        if len(set(counts.values())) != 1:
            shown = ", ".join(f"{name} {count}" for name, count in counts.items()) or "no rows"
            raise TrainingError(f"inputs and targets of a minibatch must have equally many sequences, got {shown}")
        return next(iter(counts.values()))

    def request(
        self,
        outputs: Sequence[Sequence[str]] | None = None,
        *,
        train: bool,
        store_stats: bool | None = None,
        frozen: Collection[str] = (),
    ) -> ComputationRequest:
        """Returns what to compile: with derivatives and statistics for training, outputs alone for evaluation.

        `outputs`: for each target the nodes to compute, by default its own. `store_stats`: by default as `train`.
        `frozen`: the components that get no gradient.
        """
        names = [(target.name,) for target in self.targets] if outputs is None else outputs
        return ComputationRequest(
            [IoSpecification(io.name, io.indexes, train and io.take_deriv is not None) for io in self.inputs],
            [
                IoSpecification(name, target.indexes, has_deriv=train)
                for target, own in zip(self.targets, names, strict=True)
                for name in own
            ],
            need_model_derivative=train,
            store_component_stats=train if store_stats is None else store_stats,
            frozen=frozen,
        )


class MinibatchComputers:
    """Computers for minibatches, made at the first minibatch of a structure; the computers used last are kept.

    `to_update` collects gradients; without it computers only run forward. `stats_to`: the network that gets statistics,
    by default the network itself.
    """

    def __init__(
        self,
        nnet: Nnet,
        to_update: Nnet | None,
        cache: ComputationCache | None,
        compile_options: CompileOptions | None = None,
        *,
        store_stats: bool,
        stats_to: Nnet | None = None,
    ) -> None:
        self._nnet, self._to_update, self._store_stats = nnet, to_update, store_stats
        self._stats_to = nnet if stats_to is None else stats_to
        self._cache = default_cache() if cache is None else cache
        self._compile_options = compile_options
        self._recent = ChangedComputers()

    def get(self, minibatch: Minibatch, outputs: Sequence[Sequence[str]]) -> NnetComputer:
        """Returns the computer of a minibatch. `outputs`: for each target the output nodes to compute."""
        train, frozen = (False, ()) if self._to_update is None else (True, self._to_update.frozen)
        request = minibatch.request(outputs, train=train, store_stats=self._store_stats, frozen=frozen)

        def program() -> NnetComputation:
            return self._cache.compile(self._nnet, request, self._compile_options)

        def make(computation: NnetComputation) -> NnetComputer:
            nnet, device = self._nnet, device_of(self._nnet)
            return NnetComputer(
                computation, nnet, self._to_update, device, nnet_to_store_stats=self._stats_to, check_finite=False
            )

        return self._recent.get(request.key(), program, make)

    def run_forward(self, minibatch: Minibatch, outputs: Sequence[Sequence[str]]) -> NnetComputer:
        """Returns the computer after its forward run; outputs may be had, and derivatives be given."""
        computer = self.get(minibatch, outputs)
        computer.reset()  # what was interrupted is not gone on with
        for io in minibatch.inputs:
            computer.accept_input(io.name, io.matrix)
        computer.run()
        return computer


@contextmanager
def naming(minibatch: Minibatch) -> Iterator[None]:
    """Turns each error in the `with` block into a TrainingError that names the minibatch, if the minibatch has a key.

    An error about a lost process stays as it is: the minibatch is not to blame.
    """
    try:
        yield
    except LostError:
        raise
    except Nnet3Error as error:
        if not minibatch.key:
            raise
        raise TrainingError(f"minibatch '{minibatch.key}': {error}") from error


def one_hot(labels: np.ndarray, num_classes: int) -> SparseMatrix:
    """Returns a target (rows, num_classes) for integer labels (rows,)."""
    rows = len(labels)
    return SparseMatrix(rows, num_classes, np.arange(rows + 1), np.asarray(labels, np.int32), np.ones(rows, np.float32))


def grid(num_sequences: int, times: Sequence[int]) -> np.ndarray:
    """Returns indexes (num_sequences * len(times), 3) of all sequences at all times, sequence by sequence."""
    n, t = np.meshgrid(np.arange(num_sequences), np.asarray(times), indexing="ij")
    return np.stack([n.ravel(), t.ravel(), np.zeros(n.size, int)], axis=1).astype(np.int32)
