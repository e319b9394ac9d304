"""Minibatches shared by several processes: each takes some of the sequences, and gradients are added up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from nnet3.cn.network import Network
from nnet3.cn.samples import Sequences, sequences
from nnet3.cn.sparse import SparseColumns, as_array
from nnet3.model.components.row_sums import RowReduction


def share_of(network: Network, batch: Mapping[str, Any], reduction: RowReduction) -> dict[str, Any] | None:
    """Returns this process's share of a minibatch; None if some process would have nothing to do.

    Process r of N takes sequences r, r + N, ... (or samples, if there are no sequences). So all processes have about
    equally many frames of data sorted by length. Inputs with unequal numbers of sequences are not shared out: all
    processes then raise the same error.
    """
    given = [node for node in network.inputs if node.shape.has_samples and network.names[node] in batch]
    axis = -1 if network.layout == "columns" else 0
    values = {name: batch[name] for name in (network.names[node] for node in given)}
    arrays = {name: _known(value, f"input '{name}'", axis) for name, value in values.items()}
    lengths = [_lengths(value, axis) for value in arrays.values()]
    if len({len(each) for each in lengths}) != 1:
        return None
    if not all(any(each[rank :: reduction.size]) for each in lengths for rank in range(reduction.size)):
        return None
    own = slice(reduction.rank, None, reduction.size)
    return {**batch, **{name: _some(value, own, axis) for name, value in arrays.items()}}


def _known(value: Any, what: str, axis: int) -> Sequences | SparseColumns | np.ndarray:
    if isinstance(value, Sequences):
        return value
    sparse = SparseColumns.of(value, what, turned=axis == 0)
    return as_array(value, what) if sparse is None else sparse


def _lengths(value: Sequences | SparseColumns | np.ndarray, axis: int) -> Sequence[int]:
    """Returns the frames of every sequence; 1 for a sample without a sequence."""
    if isinstance(value, Sequences):
        return value.lengths
    if isinstance(value, SparseColumns):
        return (1,) * value.shape[1]
    return (1,) * (value.shape[axis] if value.ndim else 0)


def _some(value: Sequences | SparseColumns | np.ndarray, own: slice, axis: int) -> Any:
    if isinstance(value, Sequences):
        return sequences(list(value)[own])
    if isinstance(value, SparseColumns):
        return value[:, own]
    return value[own] if axis == 0 or value.ndim == 1 else value[..., own]


def sum_gradients(gradients: Sequence[Tensor], reduction: RowReduction) -> None:
    """Replaces each gradient by the sum over all processes; sparse gradients stay sparse."""
    reduction.sum_([gradient for gradient in gradients if not gradient.is_sparse])
    for gradient in gradients:
        if gradient.is_sparse:
            _sum_sparse(gradient, reduction)


def _sum_sparse(gradient: Tensor, reduction: RowReduction) -> None:
    """Sums a sparse gradient over processes: every process writes rows to separate places of summed tables."""
    own = gradient.coalesce()
    counts = torch.zeros(reduction.size, dtype=torch.float64)
    counts[reduction.rank] = own.values().shape[0]
    reduction.sum_([counts])
    ends = counts.long().cumsum(0).tolist()
    place = slice(ends[reduction.rank] - own.values().shape[0], ends[reduction.rank])
    rows = torch.zeros(ends[-1], dtype=torch.float64, device=gradient.device)
    values = own.values().new_zeros(ends[-1], gradient.shape[1])
    rows[place], values[place] = own.indices()[0].double(), own.values()
    reduction.sum_([rows, values])
    total = torch.sparse_coo_tensor(rows.long()[None], values, gradient.shape, check_invariants=False)
    gradient.zero_().add_(total)
