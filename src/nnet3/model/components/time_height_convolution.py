"""TimeHeightConvolutionComponent: convolution over time, across rows, and height, within a row.

Where rows and offsets are regular enough, all is one ordinary 2-D convolution. Rows are ordered by time, then sequence.
So neighbouring times of one sequence lie as many rows apart as there are sequences, and a convolution over time is one
over rows with this dilation, of a picture with channels last. On the CPU PyTorch's kernel for it is faster than matrix
products; on a GPU it would round to fewer bits.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import conv2d, pad

from nnet3.base.text import ConfigLine
from nnet3.base.text.values import above
from nnet3.model.components.base import Deriv, Properties, UpdatableComponent, Updated
from nnet3.model.components.component_types import register
from nnet3.model.components.convolution_model import ConvolutionModel, ModelKind, TimeTaps
from nnet3.model.components.field_table import Field, Summary, format_number, mean_stddev, rms, show
from nnet3.model.components.index_arrays import IndexArrays
from nnet3.model.components.natural_gradient import OnlineNaturalGradient
from nnet3.model.components.random_source import RandomSource
from nnet3.model.components.row_sums import whole_gradient
from nnet3.model.components.time_blocks import TimeBlocks, order_rows, time_blocks
from nnet3.model.components.updatable import RANKS_IN_ONE, TwoPreconditioners
from nnet3.model.components.value_kinds import BOOLEAN, NUMBER, POSITIVE, MatrixKind, NumberKind, Values, Vector

_MOST_WASTE = 1.5  # rows computed for each row wanted


@dataclass(frozen=True)
class RowConvolution:
    """Axes of pairs: rows, heights. The wanted output begins at `first` in the result of the convolution."""

    kernel: tuple[int, int]
    stride: tuple[int, int]
    padding: tuple[int, int]
    dilation: tuple[int, int]
    first: tuple[int, int]
    result: tuple[int, int]  # rows and heights of the result

    def forward(self, x: Tensor, y: Tensor, weights: Tensor, bias: Tensor, model: ConvolutionModel) -> None:
        """Fills y from x."""
        picture = _picture(x, model.height_in)
        kernel = self._kernel(weights, model)
        result = conv2d(picture, kernel, bias, self.stride, self.padding, self.dilation)[0].permute(1, 2, 0)
        wanted = result[self.first[0] : self.first[0] + len(y), self.first[1] : self.first[1] + model.height_out]
        y.unflatten(1, wanted.shape[1:]).copy_(wanted)

    def backward_data(self, y_deriv: Tensor, x_deriv: Tensor, weights: Tensor, model: ConvolutionModel) -> None:
        """Fills x_deriv from y_deriv."""
        of_result = _picture(y_deriv, model.height_out)
        margins = [(first, size - first - wanted) for first, size, wanted in self._margins(of_result)]
        if any(map(any, margins)):
            (before_rows, after_rows), (before_heights, after_heights) = margins
            of_result = pad(of_result, (before_heights, after_heights, before_rows, after_rows))
        shape = (1, model.num_filters_in, len(x_deriv), model.height_in)
        x_like = x_deriv.new_empty(()).expand(shape)  # only its shape matters
        derivs, _, _ = torch.ops.aten.convolution_backward(
            of_result, x_like, self._kernel(weights, model), None,
            self.stride, self.padding, self.dilation, False, (0, 0), 1, (True, False, False),
        )  # fmt: skip
        x_deriv.unflatten(1, (model.height_in, -1)).copy_(derivs[0].permute(1, 2, 0))

    def _margins(self, of_result: Tensor) -> list[tuple[int, int, int]]:
        return list(zip(self.first, self.result, of_result.shape[2:], strict=True))

    def _kernel(self, weights: Tensor, model: ConvolutionModel) -> Tensor:
        return weights.unflatten(1, (*self.kernel, model.num_filters_in)).permute(0, 3, 1, 2)


def suits_kernel(*matrices: Tensor) -> bool:
    """Returns True if the fast kernel takes these matrices without a copy."""
    return all(
        matrix.device.type == "cpu" and matrix.dtype == torch.float32 and matrix.is_contiguous() for matrix in matrices
    )


def row_convolution(
    model: ConvolutionModel, blocks: TimeBlocks, num_input_rows: int, num_rows: int
) -> RowConvolution | None:
    """Returns an equal convolution over rows, unless it would compute much more than needed."""
    heights = sorted({height for _, height in model.offsets})
    num_times = len(model.time_offsets)
    if len(model.offsets) != num_times * len(heights) or len(blocks.blocks) != num_times:
        return None
    shifts = []  # input row less output row, of each time offset
    for block in sorted(blocks.blocks, key=lambda block: block.offset):
        shift = block.input_start - block.output_start
        first, last = max(0, -shift), min(num_rows, num_input_rows - shift)
        if block.input_step != 1 or (block.output_start, num_rows + block.output_end) != (first, last):
            return None
        shifts.append(shift)
    row_step, height_step = _constant_step(shifts), _constant_step(heights)
    if row_step is None or height_step is None:
        return None
    rows = _axis(num_input_rows, num_rows, shifts, row_step, 1)
    columns = _axis(model.height_in, model.height_out, heights, height_step, model.height_subsample_out)
    if rows[2] * columns[2] > _MOST_WASTE * num_rows * model.height_out:
        return None
    padding, first_wanted, result = zip(rows, columns, strict=True)
    dilation = (row_step, height_step)
    return RowConvolution(
        (num_times, len(heights)), (1, model.height_subsample_out), padding, dilation, first_wanted, result
    )


def _picture(matrix: Tensor, height: int) -> Tensor:
    """Returns (rows, height * filters) as one picture (1, filters, rows, height)."""
    return matrix.unflatten(1, (height, -1)).permute(2, 0, 1).unsqueeze(0)


def _constant_step(values: list[int]) -> int | None:
    """Returns the step of rising values, 1 for a single one, None if there are several steps."""
    steps = np.unique(np.diff(values))
    if len(steps) == 0:
        return 1
    return int(steps[0]) if len(steps) == 1 and steps[0] > 0 else None


def _axis(num_in: int, num_out: int, offsets: list[int], step: int, stride: int) -> tuple[int, int, int]:
    """Returns the padding on both sides, where the wanted output begins in the result, and the result's length."""
    padding = max(0, -offsets[0], (num_out - 1) * stride + offsets[-1] - (num_in - 1))
    padding += -(offsets[0] + padding) % stride
    length = (num_in + 2 * padding - step * (len(offsets) - 1) - 1) // stride + 1
    return padding, (offsets[0] + padding) // stride, length


@dataclass(frozen=True)
class ConvolutionIndexes:
    blocks: TimeBlocks
    regular: RowConvolution | None


def _filter_size(values: Values) -> tuple[int, int]:
    model: ConvolutionModel = values["model"]
    return model.num_filters_out, model.num_columns


def _settings_info(component: TimeHeightConvolutionComponent) -> str:
    text = show(component, (), ("max_memory_mb",))
    text = f", num-params={component.num_parameters}{text}, use-natural-gradient={int(component.use_natural_gradient)}"
    if not component.use_natural_gradient:
        return text
    text += show(component, (), ("num_minibatches_history", "rank_in", "rank_out"))
    return f"{text}, alpha={format_number(component.alpha_in)}"


@register
class TimeHeightConvolutionComponent(TwoPreconditioners, UpdatableComponent):
    """y(t, h, k) = b_k + sum over offsets o and filters i of W[k, o Fin + i] x(t + dt_o, h sub + dh_o, i).

    Terms with an input height outside the input or with a missing time that is not required are zero. Parameters:
    linear_params (Fout, offsets * Fin), offsets sorted by time, then height; bias_params (Fout,).
    """

    properties = Properties.UPDATABLE | Properties.REORDERS_INDEXES | Properties.BACKPROP_NEEDS_INPUT
    parameter_names = ("linear_params", "bias_params")
    identity_indexes = False
    rules_period = 1
    needs_indexes = True
    indexes_go_on = True

    fields = (
        Field("model", ModelKind(), None),
        Field("linear_params", MatrixKind(_filter_size), None),
        Field("bias_params", Vector(lambda values: values["model"].num_filters_out), None),
        Field("max_memory_mb", POSITIVE, default=200.0),
        Field("use_natural_gradient", BOOLEAN, default=True),
        Field("num_minibatches_history", NumberKind(above(1)), default=4.0),
        Field("alpha_in", NUMBER, default=4.0, token="<AlphaInOut>"),
        Field("alpha_out", NUMBER, default=4.0, token=""),
        *RANKS_IN_ONE,
    )
    shown = (
        lambda component: f" {component.model.info()}",
        Summary(rms, "linear_params", "filter-params"),
        Summary(mean_stddev, "bias_params"),
        _settings_info,
    )

    def __init__(self, model: ConvolutionModel, linear_params: Tensor, bias_params: Tensor) -> None:
        super().__init__()
        self.model = model
        self.linear_params = linear_params
        self.bias_params = bias_params
        self.input_dim = model.input_dim
        self.output_dim = model.output_dim
        self.max_memory_mb = 200.0  # only kept: no temporary matrix is made here
        self.use_natural_gradient = True
        rank_in, rank_out = min(80, (model.num_columns + 2) // 2), min(80, (model.num_filters_out + 1) // 2)
        self.preconditioner_in = OnlineNaturalGradient(rank_in, num_minibatches_history=4.0)
        self.preconditioner_out = OnlineNaturalGradient(rank_out, num_minibatches_history=4.0)

    @classmethod
    def initial_values(cls, line: ConfigLine, rng: RandomSource) -> dict[str, Any]:
        model = ConvolutionModel.from_config(line)
        stddev = line.number("param-stddev", -1.0)
        stddev = 1.0 / math.sqrt(model.num_columns) if stddev < 0 else stddev
        if line.boolean("init-unit", False):
            linear = _unit_filters(line, model)
        else:
            linear = rng.normal_tensor(model.num_filters_out, model.num_columns) * stddev
        bias = rng.normal_tensor(model.num_filters_out) * line.number("bias-stddev", 0.0, minimum=0.0)
        return {"model": model, "linear_params": linear, "bias_params": bias}

    def wanted_inputs(self, outputs: np.ndarray) -> np.ndarray:
        wanted = np.repeat(outputs[:, np.newaxis], len(self.model.time_offsets), axis=1)
        wanted[:, :, 1] += np.array(self.model.time_offsets, np.int32)
        return wanted

    @property
    def needs_all_inputs(self) -> bool:  # type: ignore[override]
        return set(self.model.required_time_offsets) == set(self.model.time_offsets)

    def computable(self, outputs: np.ndarray, available: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        is_required = np.isin(self.model.time_offsets, self.model.required_time_offsets)
        return np.all(available[:, is_required], axis=1), available

    def reorder_indexes(self, inputs: np.ndarray, outputs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return order_rows(inputs, outputs, self.model.time_offsets)

    def precompute_indexes(self, inputs: np.ndarray, outputs: np.ndarray, *, need_backprop: bool) -> IndexArrays:
        sizes = {"sizes": np.array([len(inputs), len(outputs)])}
        return time_blocks(inputs, outputs, self.model.time_offsets, need_backprop=need_backprop) | sizes

    def load_indexes(self, arrays: Mapping[str, np.ndarray], device: torch.device | str) -> ConvolutionIndexes:
        blocks = TimeBlocks.load(arrays, device)
        return ConvolutionIndexes(blocks, row_convolution(self.model, blocks, *arrays["sizes"].tolist()))

    def _filters(self, taps: TimeTaps) -> Tensor:
        """Returns the weights of one time offset: (Fout, taps * Fin), a view."""
        filters_in = self.model.num_filters_in
        return self.linear_params[:, taps.first_column * filters_in : (taps.first_column + taps.num_taps) * filters_in]

    def forward(self, x: Tensor, y: Tensor, indexes: Any = None) -> None:
        x = indexes.blocks.input_without_padding(x)
        if indexes.regular and suits_kernel(x):
            indexes.regular.forward(x, y, self.linear_params, self.bias_params, self.model)
            return
        filters_in, filters_out = self.model.num_filters_in, self.model.num_filters_out
        y.unflatten(1, (self.model.height_out, filters_out)).copy_(self.bias_params)
        for block in indexes.blocks.blocks:
            taps = self.model.taps[block.offset]
            weights = self._filters(taps).t()
            source, target = block.of_input(x), block.of_output(y)
            for piece in taps.forward:
                part = weights[piece.first_tap * filters_in : (piece.first_tap + piece.num_taps) * filters_in]
                _add_product(piece.of_target(target, filters_out), piece.of_source(source, filters_in), part)

    def backward(
        self, x: Tensor, y: Tensor, y_deriv: Tensor, memo: Any, to_update: Updated, x_deriv: Deriv, indexes: Any = None
    ) -> None:
        """g_x(t + dt_o, h sub + dh_o, i) += sum_k g_y(t, h, k) W[k, o Fin + i] for all o"""
        blocks = indexes.blocks
        y_deriv = blocks.output_without_padding(y_deriv)
        if x_deriv is not None and indexes.regular and suits_kernel(y_deriv):
            indexes.regular.backward_data(y_deriv, x_deriv, self.linear_params, self.model)
        elif x_deriv is not None:
            self._backward_data(y_deriv, x_deriv, blocks)
        if to_update is not None:
            assert isinstance(to_update, TimeHeightConvolutionComponent)
            to_update._update(blocks.input_without_padding(x), y_deriv, blocks)

    def _backward_data(self, y_deriv: Tensor, x_deriv: Tensor, indexes: TimeBlocks) -> None:
        filters_in, filters_out = self.model.num_filters_in, self.model.num_filters_out
        x_deriv.zero_()
        for block in indexes.blocks:
            taps = self.model.taps[block.offset]
            weights = self._filters(taps).unflatten(1, (taps.num_taps, filters_in)).transpose(0, 1)
            weights = weights[list(taps.backward_order)].flatten(0, 1)  # (taps * Fout, Fin)
            source, target = block.of_output(y_deriv), block.of_input(x_deriv)
            for piece in taps.backward:
                part = weights[piece.first_tap * filters_out : (piece.first_tap + piece.num_taps) * filters_out]
                _add_product(piece.of_target(target, filters_in), piece.of_source(source, filters_out), part)

    def _gradient(self, x: Tensor, y_deriv: Tensor, indexes: TimeBlocks) -> Tensor:
        """Returns [dW db], (Fout, columns of W + 1)."""
        filters_in, filters_out = self.model.num_filters_in, self.model.num_filters_out
        gradient = x.new_zeros(filters_out, self.model.num_columns + 1)
        for block in indexes.blocks:
            taps = self.model.taps[block.offset]
            source, target = block.of_input(x), block.of_output(y_deriv)
            for piece in taps.forward:
                first = taps.first_column + piece.first_tap
                part = gradient[:, first * filters_in : (first + piece.num_taps) * filters_in]
                derivs = piece.of_target(target, filters_out).transpose(1, 2)
                part.addbmm_(derivs, piece.of_source(source, filters_in))
        gradient[:, -1] = y_deriv.sum(0).unflatten(0, (self.model.height_out, filters_out)).sum(0)
        return gradient

    def _update(self, x: Tensor, y_deriv: Tensor, indexes: TimeBlocks) -> None:
        """[W b] += lr [dW db], whose rows and then whose columns are preconditioned unless this collects gradients."""
        rate = self.learning_rate
        if rate == 0.0:
            return
        gradient = self._gradient(x, y_deriv, indexes)
        if self.use_natural_gradient and not self.is_gradient:
            with whole_gradient(gradient) as share:
                gradient, scale_in = self.preconditioner_in.precondition(gradient)
                transposed, scale_out = self.preconditioner_out.precondition(gradient.t().contiguous())
            gradient = transposed.t()
            rate *= share * scale_in * scale_out
        self.linear_params.add_(gradient[:, :-1], alpha=rate)
        self.bias_params.add_(gradient[:, -1], alpha=rate)


def _add_product(target: Tensor, source: Tensor, weights: Tensor) -> None:
    """target += source @ weights for a batch of matrices; target (count, rows, filters)."""
    if len(target) == 1:
        target[0].addmm_(source[0], weights)
    else:
        target.baddbmm_(source, weights.expand(len(target), -1, -1))


def _unit_filters(line: ConfigLine, model: ConvolutionModel) -> Tensor:
    """Returns the identity at offset (0, 0), zero elsewhere."""
    if model.num_filters_in != model.num_filters_out:
        raise line.error("'init-unit' needs num-filters-in = num-filters-out", "init-unit")
    if (0, 0) not in model.offsets:
        raise line.error("'init-unit' needs the offset 0,0", "init-unit")
    linear = torch.zeros(model.num_filters_out, model.num_columns)
    start = model.offsets.index((0, 0)) * model.num_filters_in
    linear[:, start : start + model.num_filters_in] = torch.eye(model.num_filters_in)
    return linear
