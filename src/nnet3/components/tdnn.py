"""TdnnComponent: an affine transform of the input at several time offsets (components.md 7.4)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from nnet3.components.base import Component, Properties
from nnet3.components.fields import read_integer, read_matrix, read_number, too_wide, write_matrix, write_vector
from nnet3.components.index_arrays import IndexArrays
from nnet3.components.natural_gradient import OnlineNaturalGradient
from nnet3.components.natural_gradient_product import add_natural_gradient
from nnet3.components.orthonormal import OrthonormalComponent
from nnet3.components.registry import register
from nnet3.components.row_matrix import RowMatrix, SplicedMatrix
from nnet3.components.summary import format_number, mean_stddev, rms, row_and_column_norms
from nnet3.components.time_blocks import TimeBlocks, order_rows, time_blocks
from nnet3.components.updatable import UpdatableHeader

if TYPE_CHECKING:
    from typing_extensions import Self

    from nnet3.components.random_source import RandomSource
    from nnet3.kaldi_io import Reader, Writer
    from nnet3.text import ConfigLine

_UPDATE_PERIOD = 4


@register
class TdnnComponent(OrthonormalComponent):
    """y(t) = b + sum_i W_i x(t + o_i), for the same n and x; all those inputs are required.

    Parameters: linear_params (output_dim, offsets * input_dim), the W_i side by side; bias_params (output_dim,), with
    no elements if there is no bias.
    """

    type_name = "TdnnComponent"
    properties = Properties.UPDATABLE | Properties.REORDERS_INDEXES | Properties.BACKPROP_NEEDS_INPUT
    parameter_names = ("linear_params", "bias_params")
    preconditioner_names = ("preconditioner_in", "preconditioner_out")
    identity_indexes = False
    needs_indexes = True

    def __init__(self, time_offsets: tuple[int, ...], linear_params: Tensor, bias_params: Tensor) -> None:
        super().__init__()
        self.time_offsets = time_offsets
        self.linear_params = linear_params
        self.bias_params = bias_params
        self.output_dim = linear_params.shape[0]
        self.input_dim = linear_params.shape[1] // len(time_offsets)
        self.use_natural_gradient = True
        self.set_natural_gradient()

    @property
    def has_bias(self) -> bool:
        return self.bias_params.numel() > 0

    def set_natural_gradient(
        self,
        ranks: tuple[int, int] = (-1, -1),
        alphas: tuple[float, float] = (4.0, 4.0),
        num_samples_history: float = 2000.0,
    ) -> None:
        """New preconditioners of the spliced input and of the output derivative; a rank below 0 means the default."""
        rank_in, rank_out = ranks
        rank_in = min(20, (self.linear_params.shape[1] + 1) // 2) if rank_in < 0 else rank_in
        rank_out = min(80, (self.output_dim + 1) // 2) if rank_out < 0 else rank_out
        settings = (_UPDATE_PERIOD, num_samples_history)
        self.preconditioner_in = OnlineNaturalGradient(rank_in, *settings, alpha=alphas[0])
        self.preconditioner_out = OnlineNaturalGradient(rank_out, *settings, alpha=alphas[1])

    # ---- configuration and files ----

    @classmethod
    def from_config(cls, line: ConfigLine, rng: RandomSource) -> Self:
        offsets = line.integers("time-offsets", separators=",")
        fault = _fault_of_offsets(offsets)
        if fault:
            raise line.error(f"'time-offsets': {fault}", "time-offsets")
        input_dim = line.integer("input-dim", minimum=1)
        output_dim = line.integer("output-dim", minimum=1)
        stddev = line.number("param-stddev", -1.0)
        if stddev < 0:
            stddev = 1.0 / math.sqrt(input_dim * len(offsets))
        bias_stddev = line.number("bias-stddev", 1.0, minimum=0.0)
        bias_mean = line.number("bias-mean", 0.0)
        linear = rng.normal_tensor(output_dim, len(offsets) * input_dim) * stddev
        bias_dim = output_dim if line.boolean("use-bias", True) else 0
        component = cls(tuple(offsets), linear, rng.normal_tensor(bias_dim) * bias_stddev + bias_mean)
        component.configure_orthonormal(line)
        component.use_natural_gradient = line.boolean("use-natural-gradient", True)
        ranks = line.integer("rank-in", -1), line.integer("rank-out", -1)
        for key, rank in zip(("rank-in", "rank-out"), ranks, strict=True):
            if rank == 0:
                raise line.error(f"'{key}' must be positive, or negative for the default", key)
        alphas = line.number("alpha-in", 4.0, minimum=0.0), line.number("alpha-out", 4.0, minimum=0.0)
        component.set_natural_gradient(ranks, alphas, line.number("num-samples-history", 2000.0, above=0.0))
        component.configure_updatable(line)
        return component

    @classmethod
    def read(cls, reader: Reader) -> Self:
        header = UpdatableHeader.read(reader)
        reader.expect("<TimeOffsets>")
        offsets = reader.int_vector().tolist()
        fault = _fault_of_offsets(offsets)
        if fault:
            raise reader.error(f"<TimeOffsets>: {fault}")
        reader.expect("<LinearParams>")
        linear = read_matrix(reader, "<LinearParams>")
        if linear.shape[1] % len(offsets):
            shape = f"{linear.shape[0]} x {linear.shape[1]}"
            raise reader.error(f"<LinearParams> has size {shape}, which does not fit {len(offsets)} time offsets")
        reader.expect("<BiasParams>")
        bias = reader.vector()
        if len(bias) not in (0, len(linear)):
            raise reader.error(f"<BiasParams> must have {len(linear)} elements, or none, got {len(bias)}")
        component = cls(tuple(offsets), linear, torch.from_numpy(bias))
        component.copy_header(header)
        component._read_settings(reader)
        return component

    def _read_settings(self, reader: Reader) -> None:
        """What stands behind the parameters, the closing token included."""
        self.read_orthonormal(reader)
        reader.expect("<UseNaturalGradient>")
        self.use_natural_gradient = reader.boolean()
        reader.expect("<NumSamplesHistory>")
        history = read_number(reader, "<NumSamplesHistory>", above=0.0)
        alpha_token = reader.expect("<AlphaInOut>", "<Alpha>")  # <Alpha> is of old files
        alpha_in = read_number(reader, alpha_token)
        alpha_out = read_number(reader, alpha_token) if alpha_token == "<AlphaInOut>" else alpha_in
        reader.expect("<RankInOut>")
        ranks = read_integer(reader, "<RankInOut>"), read_integer(reader, "<RankInOut>")
        self.set_natural_gradient(ranks, (alpha_in, alpha_out), history)
        reader.expect("</TdnnComponent>")

    def write_body(self, writer: Writer) -> None:
        self.write_header(writer)
        writer.token("<TimeOffsets>")
        writer.int_vector(self.time_offsets)
        writer.token("<LinearParams>")
        write_matrix(writer, self.linear_params)
        writer.token("<BiasParams>")
        write_vector(writer, self.bias_params)
        writer.token("<OrthonormalConstraint>")
        writer.real(self.orthonormal_constraint)
        writer.token("<UseNaturalGradient>")
        writer.boolean(self.use_natural_gradient)
        writer.token("<NumSamplesHistory>")
        writer.real(self.preconditioner_in.num_samples_history)
        writer.token("<AlphaInOut>")
        writer.real(self.preconditioner_in.alpha)
        writer.real(self.preconditioner_out.alpha)
        writer.token("<RankInOut>")
        writer.int32(self.preconditioner_in.rank)
        writer.int32(self.preconditioner_out.rank)

    def info(self) -> str:
        text = f"{super().info()}{self.orthonormal_info()}, time-offsets={','.join(map(str, self.time_offsets))}"
        text += rms("linear-params", self.linear_params) + row_and_column_norms("linear-params", self.linear_params)
        text += mean_stddev("bias", self.bias_params) if self.has_bias else ", has-bias=false"
        if not self.use_natural_gradient:
            return f"{text}, use-natural-gradient=false"
        first, second = self.preconditioner_in, self.preconditioner_out
        return (
            f"{text}, rank-in={first.rank}, rank-out={second.rank}"
            f", num-samples-history={format_number(first.num_samples_history)}, update-period={first.update_period}"
            f", alpha-in={format_number(first.alpha)}, alpha-out={format_number(second.alpha)}"
        )

    # ---- index rules ----

    def wanted_inputs(self, outputs: np.ndarray) -> np.ndarray:
        wanted = np.repeat(outputs[:, np.newaxis], len(self.time_offsets), axis=1)
        wanted[:, :, 1] += np.array(self.time_offsets, np.int32)
        return wanted

    def reorder_indexes(self, inputs: np.ndarray, outputs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return order_rows(inputs, outputs, self.time_offsets)

    def precompute_indexes(self, inputs: np.ndarray, outputs: np.ndarray, *, need_backprop: bool) -> IndexArrays:
        return time_blocks(inputs, outputs, self.time_offsets)

    def load_indexes(self, arrays: Mapping[str, np.ndarray], device: torch.device | str) -> TimeBlocks:
        return TimeBlocks.load(arrays, device)

    # ---- arithmetic ----

    def _part(self, offset: int) -> slice:
        """The columns of linear_params that belong to a time offset."""
        return slice(offset * self.input_dim, (offset + 1) * self.input_dim)

    def forward(self, x: Tensor, y: Tensor, indexes: Any = None) -> None:
        x = indexes.input_without_padding(x)
        first, *others = indexes.blocks
        weights = [self.linear_params[:, self._part(block.offset)].t() for block in indexes.blocks]
        if first.num_rows == len(y) and self.has_bias:
            torch.addmm(self.bias_params, first.of_input(x), weights[0], out=y)
        elif first.num_rows == len(y):
            torch.mm(first.of_input(x), weights[0], out=y)
        else:
            y.copy_(self.bias_params) if self.has_bias else y.zero_()
            first.of_output(y).addmm_(first.of_input(x), weights[0])
        for block, weight in zip(others, weights[1:], strict=True):
            block.of_output(y).addmm_(block.of_input(x), weight)

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
        """g_x(t + o_i) += g_y(t) W_i for all i"""
        y_deriv = indexes.output_without_padding(y_deriv)
        if x_deriv is not None:
            self._backward_data(y_deriv, x_deriv, indexes)
        if to_update is not None:
            assert isinstance(to_update, TdnnComponent)
            to_update._update(indexes.input_without_padding(x), y_deriv, indexes)

    def _backward_data(self, y_deriv: Tensor, x_deriv: Tensor, indexes: TimeBlocks) -> None:
        if len(indexes.uncovered):
            x_deriv.index_fill_(0, indexes.uncovered, 0.0)
        for number, block in enumerate(indexes.blocks):
            weight = self.linear_params[:, self._part(block.offset)]
            if number < indexes.num_fresh:
                torch.mm(block.of_output(y_deriv), weight, out=block.of_input(x_deriv))
            else:
                block.of_input(x_deriv).addmm_(block.of_output(y_deriv), weight)

    def _update(self, x: Tensor, y_deriv: Tensor, indexes: TimeBlocks) -> None:
        if self.learning_rate == 0.0:
            return
        if self.is_gradient or not self.use_natural_gradient:
            self._update_simple(x, y_deriv, indexes)
        else:
            self._update_natural_gradient(x, y_deriv, indexes)

    def _update_simple(self, x: Tensor, y_deriv: Tensor, indexes: TimeBlocks) -> None:
        """W_i += lr sum_t g(t)^T x(t + o_i), b += lr sum_t g(t)"""
        for block in indexes.blocks:
            part = self.linear_params[:, self._part(block.offset)]
            part.addmm_(block.of_output(y_deriv).t(), block.of_input(x), alpha=self.learning_rate)
        if self.has_bias:
            self.bias_params.add_(y_deriv.sum(0), alpha=self.learning_rate)

    def _update_natural_gradient(self, x: Tensor, y_deriv: Tensor, indexes: TimeBlocks) -> None:
        """[W b] += lr s1 s2 G'^T X', with the rows of X = [x(t + o_0) ... x(t + o_K-1) 1] and of G preconditioned."""
        spliced: RowMatrix = SplicedMatrix(x, indexes, len(self.time_offsets))
        if spliced.shape[1] <= self.output_dim:
            spliced = RowMatrix(spliced.dense())  # costs little and makes fewer, larger products
        bias = self.bias_params if self.has_bias else None
        preconditioners = (self.preconditioner_in, y_deriv, self.preconditioner_out)
        add_natural_gradient(self.linear_params, bias, self.learning_rate, spliced, *preconditioners)


def _fault_of_offsets(offsets: list[int]) -> str:
    """What is wrong with time offsets, "" if nothing."""
    if not offsets or len(set(offsets)) < len(offsets):
        return f"expected different integers, at least one, got {offsets}"
    return too_wide(len(offsets), 2 * max(map(abs, offsets)) + 1)
