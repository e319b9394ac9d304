"""What the pointwise nonlinearities share: statistics, self-repair and their form on disk (components.md 2)."""

from __future__ import annotations

import abc
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import torch
from torch import Tensor

from nnet3.components.base import Component
from nnet3.components.fields import read_integer, write_vector
from nnet3.components.random_source import RandomSource
from nnet3.components.summary import format_number, summarize_vector
from nnet3.errors import ComponentError

if TYPE_CHECKING:
    from typing_extensions import Self

    from nnet3.kaldi_io import Reader, Writer
    from nnet3.text import ConfigLine

REPAIR_PROBABILITY = 0.5
_UNSET = -1000.0


class Nonlinearity(Component):
    """Base of the types that map each row to a row of the same dimension without parameters.

    Statistics, all of them sums (components.md 2.2): `value_sum` and `deriv_sum` (dim), or empty when never stored, of
    outputs and of derivatives in terms of the output, over `count` rows; `oderiv_sumsq` (dim), of squared output
    derivatives over `oderiv_count` rows; `num_dims_self_repaired` of `num_dims_processed`. What is added up on a
    device stays there, so that nothing waits for it.
    """

    statistic_names = (
        "value_sum",
        "deriv_sum",
        "count",
        "oderiv_sumsq",
        "oderiv_count",
        "num_dims_self_repaired",
        "num_dims_processed",
    )
    has_self_repair: ClassVar[bool] = True
    has_upper_threshold: ClassVar[bool] = False
    default_lower_threshold: ClassVar[float] = 0.05
    default_upper_threshold: ClassVar[float] = 0.95

    def __init__(self, dim: int, block_dim: int | None = None):
        super().__init__()
        self.input_dim = self.output_dim = self.dim = dim
        self.block_dim = dim if block_dim is None else block_dim
        self.self_repair_lower_threshold: float | None = None
        self.self_repair_upper_threshold: float | None = None
        self.self_repair_scale = 0.0
        self.value_sum = torch.zeros(0, dtype=torch.float64)
        self.deriv_sum = torch.zeros(0, dtype=torch.float64)
        self.count = 0.0
        self.oderiv_sumsq = torch.zeros(0, dtype=torch.float64)
        self.oderiv_count = 0.0
        self.num_dims_self_repaired = torch.zeros((), dtype=torch.float64)
        self.num_dims_processed = 0.0

    # ---- configuration and files ----

    @classmethod
    def from_config(cls, line: ConfigLine, rng: RandomSource) -> Self:
        dim = line.integer("dim", minimum=1)
        block_dim = line.integer("block-dim", dim, minimum=1)
        if dim % block_dim != 0:
            raise line.error(f"'block-dim' must divide dim={dim}, got {block_dim}", "block-dim")
        component = cls(dim, block_dim)
        component.self_repair_lower_threshold = _threshold(line.number("self-repair-lower-threshold", _UNSET))
        component.self_repair_upper_threshold = _threshold(line.number("self-repair-upper-threshold", _UNSET))
        component.self_repair_scale = line.number("self-repair-scale", 0.0)
        complaint = component._complaint_about_self_repair()
        if complaint:
            raise line.error(*complaint)
        return component

    @classmethod
    def read(cls, reader: Reader) -> Self:
        reader.expect("<Dim>")
        dim = read_integer(reader, "<Dim>")
        block_dim = dim
        if reader.accept("<BlockDim>"):
            block_dim = read_integer(reader, "<BlockDim>")
            if dim % block_dim != 0:
                raise reader.error(f"<BlockDim> must divide the dimension {dim}, got {block_dim}")
        component = cls(dim, block_dim)
        component._read_statistics(reader)
        if reader.accept("<SelfRepairLowerThreshold>"):
            component.self_repair_lower_threshold = _threshold(reader.real())
        if reader.accept("<SelfRepairUpperThreshold>"):
            component.self_repair_upper_threshold = _threshold(reader.real())
        if reader.accept("<SelfRepairScale>"):
            component.self_repair_scale = reader.real()
        reader.expect(f"</{cls.type_name}>")
        return component

    def _read_statistics(self, reader: Reader) -> None:
        reader.expect("<ValueAvg>")
        value_avg = self._read_average(reader, "<ValueAvg>")
        reader.expect("<DerivAvg>")
        deriv_avg = self._read_average(reader, "<DerivAvg>")
        reader.expect("<Count>")
        self.count = reader.real()
        self.value_sum, self.deriv_sum = value_avg * self.count, deriv_avg * self.count
        if reader.accept("<OderivRms>"):
            oderiv_rms = self._read_average(reader, "<OderivRms>")
            reader.expect("<OderivCount>")
            self.oderiv_count = reader.real()
            self.oderiv_sumsq = oderiv_rms.square() * self.oderiv_count
        if reader.accept("<NumDimsSelfRepaired>"):
            self.num_dims_self_repaired.fill_(reader.real())
        if reader.accept("<NumDimsProcessed>"):
            self.num_dims_processed = reader.real()

    def _read_average(self, reader: Reader, what: str) -> Tensor:
        start = reader.position
        average = reader.vector(np.float64)
        if average.size not in (0, self.dim):
            raise reader.error_at(start, f"{what} must have 0 or {self.dim} elements, got {average.size}")
        return torch.from_numpy(average)

    def write_body(self, writer: Writer) -> None:
        writer.token("<Dim>")
        writer.int32(self.dim)
        if self.block_dim != self.dim:
            writer.token("<BlockDim>")
            writer.int32(self.block_dim)
        writer.token("<ValueAvg>")
        write_vector(writer, _average(self.value_sum, self.count))
        writer.token("<DerivAvg>")
        write_vector(writer, _average(self.deriv_sum, self.count))
        writer.token("<Count>")
        writer.double(self.count)
        writer.token("<OderivRms>")
        write_vector(writer, self._oderiv_rms())
        writer.token("<OderivCount>")
        writer.double(self.oderiv_count)
        writer.token("<NumDimsSelfRepaired>")
        writer.double(float(self.num_dims_self_repaired))
        writer.token("<NumDimsProcessed>")
        writer.double(self.num_dims_processed)
        for token, value in (
            ("<SelfRepairLowerThreshold>", self.self_repair_lower_threshold),
            ("<SelfRepairUpperThreshold>", self.self_repair_upper_threshold),
            ("<SelfRepairScale>", self.self_repair_scale or None),
        ):
            if value is not None:
                writer.token(token)
                writer.real(value)

    def _oderiv_rms(self) -> Tensor:
        return _average(self.oderiv_sumsq, self.oderiv_count).clamp(min=0.0).sqrt()

    def info(self) -> str:
        text = f"{self.type_name}, dim={self.dim}"
        if self.block_dim != self.dim:
            text += f", block-dim={self.block_dim}"
        if self.self_repair_lower_threshold is not None:
            text += f", self-repair-lower-threshold={format_number(self.self_repair_lower_threshold)}"
        if self.self_repair_upper_threshold is not None:
            text += f", self-repair-upper-threshold={format_number(self.self_repair_upper_threshold)}"
        if self.self_repair_scale != 0.0:
            text += f", self-repair-scale={format_number(self.self_repair_scale)}"
        if self.count > 0 and self.value_sum.numel() == self.dim:
            processed = self.num_dims_processed
            repaired = float(self.num_dims_self_repaired) / processed if processed else 0.0
            text += f", count={format_number(self.count, 3)}, self-repaired-proportion={format_number(repaired)}"
            text += f", value-avg={summarize_vector(_average(self.value_sum, self.count).cpu())}"
            if self.deriv_sum.numel() == self.dim:
                text += f", deriv-avg={summarize_vector(_average(self.deriv_sum, self.count).cpu())}"
        if self.oderiv_count > 0:
            text += f", oderiv-rms={summarize_vector(self._oderiv_rms().cpu())}"
            text += f", oderiv-count={format_number(self.oderiv_count)}"
        return text

    # ---- what the backward passes of all types do ----

    def backward(
        self,
        x: Tensor,
        y: Tensor,
        y_deriv: Tensor,
        memo: None,
        to_update: Component | None,
        x_deriv: Tensor | None,
        indexes: None = None,
    ) -> None:
        if isinstance(to_update, Nonlinearity):
            self._store_output_deriv(y_deriv, to_update)  # before x_deriv, which may share its memory
        if x_deriv is None:
            return
        self.differentiate(y, y_deriv, x_deriv)
        if isinstance(to_update, Nonlinearity) and self.has_self_repair:
            self.self_repair(y, x_deriv, to_update)

    @abc.abstractmethod
    def differentiate(self, y: Tensor, y_deriv: Tensor, x_deriv: Tensor) -> None:
        """Fill x_deriv from the output and its derivative."""

    def self_repair(self, y: Tensor, x_deriv: Tensor, to_update: Nonlinearity) -> None:
        """Push dimensions that are saturated on average back, by a small change of x_deriv (components.md 2.5).

        Called only if `has_self_repair`.
        """

    def _store_output_deriv(self, y_deriv: Tensor, to_update: Nonlinearity) -> None:
        if self.rng.integer(0, 3) == 0 and to_update.oderiv_count != 0:
            return
        to_update.oderiv_sumsq = add_to_sum(to_update.oderiv_sumsq, y_deriv.square().sum(0))
        to_update.oderiv_count += y_deriv.shape[0]

    def self_repair_happens(self) -> bool:
        """Whether to repair in this minibatch; a random choice if there is a reason to. Raises ComponentError."""
        if self.self_repair_scale == 0.0 or self.count == 0.0 or self.deriv_sum.numel() != self.dim:
            return False
        complaint = self._complaint_about_self_repair()
        if complaint:
            raise ComponentError(f"{self.type_name}: {complaint[0]}")
        return self.rng.uniform() <= REPAIR_PROBABILITY

    def _complaint_about_self_repair(self) -> tuple[str, str] | None:
        """What is wrong with the settings, and the config key that it is about."""
        if self.self_repair_scale == 0.0 or not self.has_self_repair:
            return None
        if not 0.0 < self.self_repair_scale < 0.1:
            shown = format_number(self.self_repair_scale)
            return f"'self-repair-scale' must be >= 0 and < 0.1, got {shown}", "self-repair-scale"
        if self.self_repair_upper_threshold is not None and not self.has_upper_threshold:
            return "'self-repair-upper-threshold' has no meaning for this type", "self-repair-upper-threshold"
        return None

    @property
    def lower_threshold(self) -> float:
        """The threshold in use: the one set, or the type's own."""
        value = self.self_repair_lower_threshold
        return self.default_lower_threshold if value is None else value

    @property
    def upper_threshold(self) -> float:
        value = self.self_repair_upper_threshold
        return self.default_upper_threshold if value is None else value

    def store_output_and_deriv(self, y: Tensor, deriv_sum: Tensor) -> None:
        """Add the sums over rows of the output and of its derivative to the statistics."""
        self.value_sum = add_to_sum(self.value_sum, y.sum(0))
        self.deriv_sum = add_to_sum(self.deriv_sum, deriv_sum)
        self.count += y.shape[0]

    def skips_statistics(self) -> bool:
        """Whether this minibatch's outputs are left out: every other one on average, never the first."""
        return self.rng.integer(0, 1) == 0 and self.count != 0.0


def add_to_sum(total: Tensor, term: Tensor) -> Tensor:
    """`total` plus `term`, in place, or float64 of `term` if nothing was ever stored."""
    return term.double() if total.numel() == 0 else total.add_(term)


def _average(total: Tensor, count: float) -> Tensor:
    return total if count == 0 else total / count


def _threshold(value: float) -> float | None:
    return None if value == _UNSET else value
