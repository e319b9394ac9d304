"""RestrictedAttentionComponent: dot-product attention over a few times around each row.

Attention with time-stride s connects times that are congruent modulo s. Rows of equal n, x and t % s form a sequence
of positions t // s. The queries of a sequence are cut into windows of equal size; a window has all keys and values
read by the queries. So scores are products of small matrices, of which a band is used. Rows may be any set.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from typing_extensions import Self

from nnet3.base.index import IndexTable, T, find_rows, unique_rows
from nnet3.base.kaldi_io.reader import Reader
from nnet3.base.kaldi_io.writer import Writer
from nnet3.base.text import ConfigLine
from nnet3.model.components.base import Component, Properties
from nnet3.model.components.component_types import register
from nnet3.model.components.field_table import Check, Field, format_number, packed
from nnet3.model.components.index_arrays import IndexArrays
from nnet3.model.components.random_source import RandomSource
from nnet3.model.components.value_kinds import (
    BOOLEAN,
    COUNT,
    DOUBLE,
    POSITIVE,
    SIZE,
    IntegerKind,
    Kind,
    Values,
    Vector,
    too_wide,
)

_MOST_QUERIES = 64  # in a window; larger ones waste arithmetic outside the band, smaller ones repeat more of the input


@dataclass(frozen=True)
class AttentionWindows:
    """Each window has `num_queries` queries and `num_positions` positions; the context of query m begins at position
    m query_step. Positions are counted through windows and heads; rows count rows and heads.
    """

    num_queries: int
    query_step: int
    num_positions: int
    row_of_position: Tensor  # (windows * heads * positions,): row * heads + head of the input, anything if missing
    missing: Tensor  # positions of the matrices that have no input row
    is_permutation: bool  # whether each input row is at exactly one position and none is missing
    query_of_row: Tensor  # (output rows * heads,): number of its query


def attention_windows(
    inputs: IndexTable, outputs: IndexTable, num_heads: int, time_stride: int, num_left: int, context_dim: int
) -> IndexArrays:
    """Returns the fields of AttentionWindows.

    Each output row reads `context_dim` inputs, `time_stride` apart, `num_left` inputs before the row's time.
    """
    phases = outputs.copy()
    phases[:, T] %= time_stride
    sequences, sequence = unique_rows(phases)  # an (n, x) and a phase
    position = outputs[:, T].astype(np.int64) // time_stride
    first = np.full(len(sequences), np.iinfo(np.int64).max)
    np.minimum.at(first, sequence, position)
    step = int(np.gcd.reduce(position - first[sequence])) or 1
    query = (position - first[sequence]) // step
    num_queries = _window_size(int(query.max()) + 1, step, context_dim)
    in_window, window_of_sequence = query % num_queries, query // num_queries
    num_windows = int(window_of_sequence.max()) + 1
    keys, window = np.unique(sequence * num_windows + window_of_sequence, return_inverse=True)
    pairs = np.divmod(keys, num_windows)

    num_positions = (num_queries - 1) * step + context_dim
    start = first[pairs[0]] + pairs[1] * num_queries * step - num_left
    times = (start[:, np.newaxis] + np.arange(num_positions)) * time_stride + sequences[pairs[0], T][:, np.newaxis]
    context = np.repeat(sequences[pairs[0]], num_positions, axis=0)
    context[:, T] = times.ravel()
    row = find_rows(inputs, context).reshape(-1, 1, num_positions)
    head = np.arange(num_heads)
    found = row[row >= 0]
    is_permutation = len(found) == row.size == len(inputs) == np.count_nonzero(np.bincount(found))
    return {
        "num_queries": np.array(num_queries),
        "query_step": np.array(step),
        "num_positions": np.array(num_positions),
        "row_of_position": (np.maximum(row, 0) * num_heads + head[:, np.newaxis]).ravel(),
        "missing": np.flatnonzero(np.repeat(row < 0, num_heads, axis=1)),
        "is_permutation": np.array(is_permutation),
        "query_of_row": ((window.reshape(-1, 1) * num_heads + head) * num_queries + in_window[:, np.newaxis]).ravel(),
    }


def _window_size(longest: int, step: int, context_dim: int) -> int:
    """Returns the number of queries of a window: 1 without overlap of contexts, else a size for equal windows."""
    if step >= context_dim:
        return 1
    num_windows = -(-longest // _MOST_QUERIES)
    return -(-longest // num_windows)


_MOST_HEADS_SHOWN = 5


def _fault_of_context(right: int, values: Values) -> str:
    return "must not be 0 if num-left-inputs is" if right == values["num_left"] == 0 else ""


def _fault_of_width(stride: int, values: Values) -> str:
    context_dim = values["num_left"] + 1 + values["num_right"]
    wide = too_wide(context_dim, context_dim * stride)
    return f": {wide}" if wide else ""


@dataclass(frozen=True)
class _Required(IntegerKind):
    """A number of required inputs; in a config line a negative one, the default, stands for all."""

    side: str = ""
    minimum: int | None = 0

    def parse(self, line: ConfigLine, key: str, default: dict[str, Any]) -> int:
        value = line.integer(key, -1)
        return line.integer(f"num-{self.side}-inputs") if value < 0 else value


def _at_most_inputs(side: str) -> Check:
    def check(required: int, values: Values) -> str:
        most = values[f"num_{side}"]
        return "" if required <= most else f"must be <= {most}, got {required}"

    return check


def _fault_of_statistics(posteriors: Tensor, values: Values) -> str:
    heads, context = values["num_heads"], values["num_left"] + 1 + values["num_right"]
    sizes = tuple(values["entropy_stats"].shape), tuple(posteriors.shape)
    if sizes in (((0,), (0, 0)), ((heads,), (heads, context))):
        return ""
    return f"and <EntropyStats> must be of sizes {(heads, context)} and {heads}, or empty"


_SIZES = (
    Field("num_heads", SIZE, default=1),
    Field("key_dim", SIZE),
    Field("value_dim", SIZE),
    Field("num_left", COUNT, "num-left-inputs", "<NumLeftInputs>"),
    Field("num_right", COUNT, "num-right-inputs", "<NumRightInputs>", check=_fault_of_context),
    Field("time_stride", SIZE, default=1, check=_fault_of_width),
    *(
        Field(
            *(f"num_{side}_required", _Required(side=side), f"num-{side}-inputs-required"),
            f"<Num{side.title()}InputsRequired>",
            check=_at_most_inputs(side),
        )
        for side in ("left", "right")
    ),
)


@dataclass(frozen=True)
class AttentionSizes:
    num_heads: int
    key_dim: int
    value_dim: int
    num_left: int
    num_right: int
    time_stride: int
    num_left_required: int
    num_right_required: int

    @property
    def context_dim(self) -> int:
        return self.num_left + 1 + self.num_right


@dataclass(frozen=True)
class AttentionMemo:
    posteriors: Tensor  # (windows * heads, queries, context)
    query_of_row: Tensor  # which of them belong to which output row and head, flat: (rows * heads,)


class _Sums(Kind):
    def load(self, reader: Reader, what: str, values: Values) -> Tensor:
        return torch.from_numpy(reader.matrix(np.float64))

    def write(self, writer: Writer, value: Any) -> None:
        writer.matrix(value.cpu(), double=True)


def _statistics_info(component: RestrictedAttentionComponent) -> str:
    count = component.stats_count
    if count == 0:
        return ""
    text = f", entropy={_averages(component.entropy_stats, count)}"
    for head, sums in enumerate(component.posterior_stats[:_MOST_HEADS_SHOWN]):
        text += f" posterior-stats[{head}]={_averages(sums, count)} "
    return f"{text} stats-count={format_number(count)}"


@register
class RestrictedAttentionComponent(Component):
    """Each head: c = softmax over o of (s_o + key_scale q . k(t_o)), u = sum_o c_o v(t_o).

    There t_o = t + (o - num_left) time_stride. Inputs that are missing but not required count as rows of zeros.

    Input columns of a head [k (key_dim) | v (value_dim) | q (key_dim) | s (context_dim)], output columns
    [u (value_dim) | c (context_dim)], c only with output_context. No parameters.

    Statistics: posterior_stats (heads, context_dim), sums of c; entropy_stats (heads,); stats_count (rows).
    """

    properties = Properties.BACKPROP_NEEDS_INPUT | Properties.STORES_STATS | Properties.USES_MEMO
    statistic_names = ("posterior_stats", "entropy_stats", "stats_count")
    identity_indexes = False
    rules_period = 1
    needs_indexes = True
    needs_all_inputs = False
    indexes_type = AttentionWindows

    fields = (
        *_SIZES,
        Field("output_context", BOOLEAN, default=True),
        Field("key_scale", POSITIVE),
        Field("stats_count", DOUBLE, None),
        Field("entropy_stats", Vector(statistic=True, may_be_empty=True, double=True), None),
        Field("posterior_stats", _Sums(), None, "<PosteriorStats>", check=_fault_of_statistics),
    )
    shown = (
        *("num_heads", "time_stride", "key_dim", "value_dim", "num_left", "num_right", "context_dim"),
        *("num_left_required", "num_right_required", "output_context", "key_scale", _statistics_info),
    )

    def __init__(self, sizes: AttentionSizes, output_context: bool, key_scale: float) -> None:
        super().__init__()
        self.sizes = sizes
        self.__dict__.update(asdict(sizes), context_dim=sizes.context_dim)
        self.output_context = output_context
        self.key_scale = key_scale
        self.head_dim = 2 * sizes.key_dim + sizes.value_dim + sizes.context_dim
        self.input_dim = sizes.num_heads * self.head_dim
        self.output_dim = sizes.num_heads * (sizes.value_dim + sizes.context_dim * output_context)
        self.posterior_stats = torch.zeros(0, 0, dtype=torch.float64)
        self.entropy_stats = torch.zeros(0, dtype=torch.float64)
        self.stats_count = 0.0

    @classmethod
    def initial_values(cls, line: ConfigLine, rng: RandomSource) -> dict[str, Any]:
        key_scale = line.number("key-scale", -1.0, maximum=1.0)
        if key_scale == 0.0:
            raise line.error("'key-scale' must be > 0, or negative for the default", "key-scale")
        return {"key_scale": 1.0 / math.sqrt(line.integer("key-dim", minimum=1)) if key_scale < 0 else key_scale}

    @classmethod
    def from_values(cls, values: Mapping[str, Any]) -> Self:
        return super().from_values(packed(values, AttentionSizes, "sizes"))

    def _steps(self) -> np.ndarray:
        """Returns the times of the inputs wanted, in units of time_stride from the output."""
        return np.arange(-self.sizes.num_left, self.sizes.num_right + 1)

    def wanted_inputs(self, outputs: np.ndarray) -> np.ndarray:
        wanted = np.repeat(outputs[:, np.newaxis], self.sizes.context_dim, axis=1)
        wanted[:, :, 1] += (self._steps() * self.sizes.time_stride).astype(np.int32)
        return wanted

    def computable(self, outputs: np.ndarray, available: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        steps = self._steps()
        is_required = (steps >= -self.sizes.num_left_required) & (steps <= self.sizes.num_right_required)
        return np.all(available[:, is_required], axis=1), available

    def precompute_indexes(self, inputs: np.ndarray, outputs: np.ndarray, *, need_backprop: bool) -> IndexArrays:
        sizes = self.sizes
        window_sizes = (sizes.num_heads, sizes.time_stride, sizes.num_left, sizes.context_dim)
        return attention_windows(inputs, outputs, *window_sizes)

    # ---- arithmetic: matrices of one head in one window are (windows * heads, positions or queries, columns) ----

    def forward(self, x: Tensor, y: Tensor, indexes: Any = None) -> AttentionMemo:
        windows = indexes
        keys, values, queries, biases = self._parts(self._gather(x, windows), windows)
        scores = torch.bmm(queries, keys.transpose(1, 2))
        posteriors = torch.add(biases, _band(scores, windows), alpha=self.key_scale).softmax(-1)
        _band(scores.zero_(), windows).copy_(posteriors)
        result = torch.bmm(scores, values)
        if self.output_context:
            result = torch.cat([result, posteriors], dim=2)
        result = result.flatten(0, 1).index_select(0, windows.query_of_row)
        y.copy_(result.view(y.shape))
        return AttentionMemo(posteriors, windows.query_of_row)

    def fill_deriv(self, x: Tensor, y: Tensor, y_deriv: Tensor, memo: Any, x_deriv: Tensor, indexes: Any) -> None:
        """g_u, g_c are the output derivative: dc_o = g_u . v_o + g_c,o; db = c (dc - sum c dc); ds = db;
        dq = key_scale sum_o db_o k_o; dk_o += key_scale db_o q; dv_o += c_o g_u"""
        sizes, windows = self.sizes, indexes
        keys, values, queries, _ = self._parts(self._gather(x, windows), windows)
        posteriors = memo.posteriors
        derivs = y_deriv.reshape(len(memo.query_of_row), -1)
        derivs = derivs.new_zeros(posteriors.shape[0] * posteriors.shape[1], derivs.shape[1]).index_copy_(
            0, memo.query_of_row, derivs
        )
        derivs = derivs.unflatten(0, posteriors.shape[:2])
        of_values = derivs[:, :, : sizes.value_dim]

        dense = torch.bmm(of_values, values.transpose(1, 2))
        band = _band(dense, windows)
        posterior_derivs = band + derivs[:, :, sizes.value_dim :] if self.output_context else band.clone()
        posterior_derivs.mul_(posteriors)
        score_derivs = posterior_derivs.addcmul_(posteriors, posterior_derivs.sum(2, keepdim=True), value=-1.0)

        result = x.new_zeros(posteriors.shape[0], windows.num_positions, self.head_dim)
        to_keys, to_values, to_queries, to_biases = self._parts(result, windows)
        _band(dense.zero_(), windows).copy_(posteriors)
        to_values.copy_(torch.bmm(dense.transpose(1, 2), of_values))
        torch.mul(score_derivs, self.key_scale, out=band)
        to_keys.copy_(torch.bmm(dense.transpose(1, 2), queries))
        to_queries.copy_(torch.bmm(dense, keys))
        to_biases.copy_(score_derivs)
        self._scatter(result, x_deriv, windows)

    def _gather(self, x: Tensor, windows: AttentionWindows) -> Tensor:
        """Returns (windows * heads, positions, head_dim), zero where an input is missing."""
        gathered = x.reshape(-1, self.head_dim).index_select(0, windows.row_of_position)
        if len(windows.missing):
            gathered.index_fill_(0, windows.missing, 0.0)
        return gathered.unflatten(0, (-1, windows.num_positions))

    def _scatter(self, derivs: Tensor, x_deriv: Tensor, windows: AttentionWindows) -> None:
        """Sums the derivatives of each input over all positions of the input in windows."""
        derivs = derivs.flatten(0, 1)
        target = (
            x_deriv if x_deriv.is_contiguous() else torch.empty_like(x_deriv, memory_format=torch.contiguous_format)
        )
        rows = target.view(-1, self.head_dim)
        if windows.is_permutation:
            rows.index_copy_(0, windows.row_of_position, derivs)
        else:
            derivs.index_fill_(0, windows.missing, 0.0)
            rows.zero_().index_add_(0, windows.row_of_position, derivs)
        if target is not x_deriv:
            x_deriv.copy_(target)

    def _parts(self, gathered: Tensor, windows: AttentionWindows) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Keys and values of all positions, queries and score biases of the queries: views."""
        sizes = self.sizes
        keys, values, queries, biases = gathered.split(
            [sizes.key_dim, sizes.value_dim, sizes.key_dim, sizes.context_dim], dim=2
        )
        step = windows.query_step
        at_queries = slice(sizes.num_left, sizes.num_left + (windows.num_queries - 1) * step + 1, step)
        return keys, values, queries[:, at_queries], biases[:, at_queries]

    def store_stats(self, x: Tensor, y: Tensor, memo: AttentionMemo) -> None:
        """Sums over rows of c and of its entropy, on two thirds of the calls."""
        sizes = self.sizes
        if self.posterior_stats.numel() == 0:
            self.posterior_stats = torch.zeros(sizes.num_heads, sizes.context_dim, dtype=torch.float64, device=x.device)
            self.entropy_stats = torch.zeros(sizes.num_heads, dtype=torch.float64, device=x.device)
        if self.rng.integer(0, 2) == 0:
            return
        posteriors = memo.posteriors.flatten(0, 1).index_select(0, memo.query_of_row)
        posteriors = posteriors.unflatten(0, (-1, sizes.num_heads))  # (rows, heads, context)
        self.posterior_stats.add_(posteriors.sum(0))
        self.entropy_stats.sub_((posteriors * posteriors.clamp(min=1e-20).log()).sum((0, 2)))
        self.stats_count += len(posteriors)


def _band(dense: Tensor, windows: AttentionWindows) -> Tensor:
    """Returns the context of each query, (batch, queries, context), as a view of (batch, queries, positions)."""
    batch, num_queries, num_positions = dense.shape
    context = num_positions - (num_queries - 1) * windows.query_step
    strides = (num_queries * num_positions, num_positions + windows.query_step, 1)
    return dense.as_strided((batch, num_queries, context), strides)


def _averages(sums: Tensor, count: float) -> str:
    return "".join(f"{format_number(value / count)}," for value in sums.tolist())
