"""TimeHeightConvolutionComponent: convolution over time, across rows, and height, within a row (components.md 11.2)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from nnet3.components.base import Component, Properties
from nnet3.components.convolution_model import ConvolutionModel, TimeTaps
from nnet3.components.fields import read_integer, read_matrix, read_number, read_vector, write_matrix, write_vector
from nnet3.components.index_arrays import IndexArrays
from nnet3.components.natural_gradient import OnlineNaturalGradient
from nnet3.components.registry import register
from nnet3.components.row_convolution import RowConvolution, row_convolution, suits_kernel
from nnet3.components.summary import format_number, mean_stddev, rms
from nnet3.components.time_blocks import TimeBlocks, order_rows, time_blocks
from nnet3.components.updatable import UpdatableComponent, UpdatableHeader

if TYPE_CHECKING:
    from typing_extensions import Self

    from nnet3.components.random_source import RandomSource
    from nnet3.kaldi_io import Reader, Writer
    from nnet3.text import ConfigLine


@dataclass(frozen=True)
class ConvolutionIndexes:
    blocks: TimeBlocks
    regular: RowConvolution | None


@register
class TimeHeightConvolutionComponent(UpdatableComponent):
    """y(t, h, k) = b_k + sum over offsets o and filters i of W[k, o Fin + i] x(t + dt_o, h sub + dh_o, i).

    Terms with an input height outside the input or with a missing time that is not required are zero. Parameters:
    linear_params (Fout, offsets * Fin), offsets sorted by time, then height; bias_params (Fout,).
    """

    type_name = "TimeHeightConvolutionComponent"
    properties = Properties.UPDATABLE | Properties.REORDERS_INDEXES | Properties.BACKPROP_NEEDS_INPUT
    parameter_names = ("linear_params", "bias_params")
    preconditioner_names = ("preconditioner_in", "preconditioner_out")
    identity_indexes = False
    needs_indexes = True

    def __init__(self, model: ConvolutionModel, linear_params: Tensor, bias_params: Tensor) -> None:
        super().__init__()
        self.model = model
        self.linear_params = linear_params
        self.bias_params = bias_params
        self.input_dim = model.input_dim
        self.output_dim = model.output_dim
        self.max_memory_mb = 200.0  # only kept: no temporary matrix is made here
        self.use_natural_gradient = True
        self.set_natural_gradient()

    def set_natural_gradient(
        self,
        ranks: tuple[int, int] = (-1, -1),
        alphas: tuple[float, float] = (4.0, 4.0),
        num_minibatches_history: float = 4.0,
    ) -> None:
        """New preconditioners of the rows and columns of the gradient; a rank below 0 means the default."""
        rank_in, rank_out = ranks
        rank_in = min(80, (self.model.num_columns + 2) // 2) if rank_in < 0 else rank_in
        rank_out = min(80, (self.model.num_filters_out + 1) // 2) if rank_out < 0 else rank_out
        history = num_minibatches_history
        self.preconditioner_in = OnlineNaturalGradient(rank_in, num_minibatches_history=history, alpha=alphas[0])
        self.preconditioner_out = OnlineNaturalGradient(rank_out, num_minibatches_history=history, alpha=alphas[1])

    # ---- configuration and files ----

    @classmethod
    def from_config(cls, line: ConfigLine, rng: RandomSource) -> Self:
        model = ConvolutionModel.from_config(line)
        stddev = line.number("param-stddev", -1.0)
        stddev = 1.0 / math.sqrt(model.num_columns) if stddev < 0 else stddev
        bias_stddev = line.number("bias-stddev", 0.0, minimum=0.0)
        if line.boolean("init-unit", False):
            linear = _unit_filters(line, model)
        else:
            linear = rng.normal_tensor(model.num_filters_out, model.num_columns) * stddev
        component = cls(model, linear, rng.normal_tensor(model.num_filters_out) * bias_stddev)
        component.max_memory_mb = line.number("max-memory-mb", 200.0, above=0.0)
        component.use_natural_gradient = line.boolean("use-natural-gradient", True)
        ranks = line.integer("rank-in", -1), line.integer("rank-out", -1)
        for key, rank in zip(("rank-in", "rank-out"), ranks, strict=True):
            if rank == 0:
                raise line.error(f"'{key}' must be positive, or negative for the default", key)
        alphas = line.number("alpha-in", 4.0, minimum=0.0), line.number("alpha-out", 4.0, minimum=0.0)
        component.set_natural_gradient(ranks, alphas, line.number("num-minibatches-history", 4.0, above=1.0))
        component.configure_updatable(line)
        return component

    @classmethod
    def read(cls, reader: Reader) -> Self:
        header = UpdatableHeader.read(reader)
        reader.expect("<Model>")
        model = ConvolutionModel.read(reader)
        reader.expect("<LinearParams>")
        linear = read_matrix(reader, "<LinearParams>", model.num_filters_out, model.num_columns)
        reader.expect("<BiasParams>")
        component = cls(model, linear, read_vector(reader, "<BiasParams>", model.num_filters_out))
        component.copy_header(header)
        reader.expect("<MaxMemoryMb>")
        component.max_memory_mb = read_number(reader, "<MaxMemoryMb>", above=0.0)
        reader.expect("<UseNaturalGradient>")
        component.use_natural_gradient = reader.boolean()
        reader.expect("<NumMinibatchesHistory>")
        history = read_number(reader, "<NumMinibatchesHistory>", above=1.0)
        reader.expect("<AlphaInOut>")
        alphas = read_number(reader, "<AlphaInOut>"), read_number(reader, "<AlphaInOut>")
        reader.expect("<RankInOut>")
        ranks = read_integer(reader, "<RankInOut>"), read_integer(reader, "<RankInOut>")
        component.set_natural_gradient(ranks, alphas, history)
        reader.expect("</TimeHeightConvolutionComponent>")
        return component

    def write_body(self, writer: Writer) -> None:
        self.write_header(writer)
        writer.token("<Model>")
        self.model.write(writer)
        writer.token("<LinearParams>")
        write_matrix(writer, self.linear_params)
        writer.token("<BiasParams>")
        write_vector(writer, self.bias_params)
        writer.token("<MaxMemoryMb>")
        writer.real(self.max_memory_mb)
        writer.token("<UseNaturalGradient>")
        writer.boolean(self.use_natural_gradient)
        writer.token("<NumMinibatchesHistory>")
        writer.real(self.preconditioner_in.num_minibatches_history)
        writer.token("<AlphaInOut>")
        writer.real(self.preconditioner_in.alpha)
        writer.real(self.preconditioner_out.alpha)
        writer.token("<RankInOut>")
        writer.int32(self.preconditioner_in.rank)
        writer.int32(self.preconditioner_out.rank)

    def info(self) -> str:
        text = f"{super().info()} {self.model.info()}{rms('filter-params', self.linear_params)}"
        text += f"{mean_stddev('bias-params', self.bias_params)}, num-params={self.num_parameters}"
        text += f", max-memory-mb={format_number(self.max_memory_mb)}"
        text += f", use-natural-gradient={int(self.use_natural_gradient)}"
        if not self.use_natural_gradient:
            return text
        first, second = self.preconditioner_in, self.preconditioner_out
        text += f", num-minibatches-history={format_number(first.num_minibatches_history)}"
        return f"{text}, rank-in={first.rank}, rank-out={second.rank}, alpha={format_number(first.alpha)}"

    # ---- index rules ----

    def wanted_inputs(self, outputs: np.ndarray) -> np.ndarray:
        wanted = np.repeat(outputs[:, np.newaxis], len(self.model.time_offsets), axis=1)
        wanted[:, :, 1] += np.array(self.model.time_offsets, np.int32)
        return wanted

    @property
    def needs_all_inputs(self) -> bool:
        return set(self.model.required_time_offsets) == set(self.model.time_offsets)

    def computable(self, outputs: np.ndarray, available: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        is_required = np.isin(self.model.time_offsets, self.model.required_time_offsets)
        return np.all(available[:, is_required], axis=1), available

    def reorder_indexes(self, inputs: np.ndarray, outputs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return order_rows(inputs, outputs, self.model.time_offsets)

    def precompute_indexes(self, inputs: np.ndarray, outputs: np.ndarray, *, need_backprop: bool) -> IndexArrays:
        return time_blocks(inputs, outputs, self.model.time_offsets)

    def load_indexes(self, arrays: Mapping[str, np.ndarray], device: torch.device | str) -> ConvolutionIndexes:
        blocks = TimeBlocks.load(arrays, device)
        return ConvolutionIndexes(blocks, row_convolution(self.model, blocks))

    # ---- arithmetic ----

    def _filters(self, taps: TimeTaps) -> Tensor:
        """The weights of one time offset: (Fout, taps * Fin), a view."""
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
        self,
        x: Tensor,
        y: Tensor,
        y_deriv: Tensor,
        memo: None,
        to_update: Component | None,
        x_deriv: Tensor | None,
        indexes: Any = None,
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
        """[dW db], (Fout, columns of W + 1)."""
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
            gradient, scale_in = self.preconditioner_in.precondition(gradient)
            transposed, scale_out = self.preconditioner_out.precondition(gradient.t().contiguous())
            gradient = transposed.t()
            rate *= float(scale_in * scale_out)
        self.linear_params.add_(gradient[:, :-1], alpha=rate)
        self.bias_params.add_(gradient[:, -1], alpha=rate)


def _add_product(target: Tensor, source: Tensor, weights: Tensor) -> None:
    """target += source @ weights for a batch of matrices; target (count, rows, filters)."""
    if len(target) == 1:
        target[0].addmm_(source[0], weights)
    else:
        target.baddbmm_(source, weights.expand(len(target), -1, -1))


def _unit_filters(line: ConfigLine, model: ConvolutionModel) -> Tensor:
    """The identity at offset (0, 0), zero elsewhere."""
    if model.num_filters_in != model.num_filters_out:
        raise line.error("'init-unit' needs num-filters-in = num-filters-out", "init-unit")
    if (0, 0) not in model.offsets:
        raise line.error("'init-unit' needs the offset 0,0", "init-unit")
    linear = torch.zeros(model.num_filters_out, model.num_columns)
    start = model.offsets.index((0, 0)) * model.num_filters_in
    linear[:, start : start + model.num_filters_in] = torch.eye(model.num_filters_in)
    return linear
