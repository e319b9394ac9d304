"""Types that permute columns or combine several into one: SumGroup, Permute; Pnorm, SumBlock, ElementwiseProduct."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor
from typing_extensions import Self

from nnet3.base.kaldi_io.reader import Reader
from nnet3.base.kaldi_io.writer import Writer
from nnet3.base.native import operations
from nnet3.base.native.operations import Operations
from nnet3.base.text import ConfigLine
from nnet3.model.components.base import Component, Properties
from nnet3.model.components.component_types import register
from nnet3.model.components.field_table import Field, divisor_of
from nnet3.model.components.random_source import RandomSource
from nnet3.model.components.value_kinds import REAL, SIZE, Kind, Values

_MOST_COLUMNS = 2**31 - 1


class _Sizes(Kind):
    def load(self, reader: Reader, what: str, values: Values) -> np.ndarray:
        start = reader.position
        sizes = reader.int_vector().astype(np.int64)
        if sizes.size == 0 or sizes.min() <= 0:
            raise reader.error_at(start, f"{what} must be positive integers")
        if sizes.sum() > _MOST_COLUMNS:
            raise reader.error_at(start, f"{what} add up to {sizes.sum()}, which is too much")
        return sizes

    def write(self, writer: Writer, value: Any) -> None:
        writer.int_vector(value)


class _ColumnMap(Kind):
    def parse(self, line: ConfigLine, key: str, default: dict[str, Any]) -> np.ndarray:
        return np.array(line.integers(key, separators=","), dtype=np.int64)

    def load(self, reader: Reader, what: str, values: Values) -> np.ndarray:
        if reader.binary and reader.raw_byte_peek() == ord("F"):
            return _column_map_of_old_file(reader.vector())
        return reader.int_vector().astype(np.int64)

    def write(self, writer: Writer, value: Any) -> None:
        writer.int_vector(value.cpu().numpy())


def _not_a_permutation(column_map: np.ndarray, values: Values) -> str:
    """Returns what is wrong with a column map, "" if nothing."""
    dim = len(column_map)
    if dim == 0:
        return "must not be empty"
    wrong = column_map[(column_map < 0) | (column_map >= dim)]
    if wrong.size:
        return f"must be a permutation of 0..{dim - 1}, but has {wrong[0]}"
    missing = np.flatnonzero(np.bincount(column_map, minlength=dim) == 0)
    return f"must be a permutation of 0..{dim - 1}, but lacks {missing[0]}" if missing.size else ""


def _column_map_of_old_file(values: np.ndarray) -> np.ndarray:
    """Returns the columns in an old file, stored as floats; the last element may be too large to be exact."""
    column_map = np.nan_to_num(values.astype(np.float64) + 0.5, nan=-1.0).clip(-1, _MOST_COLUMNS).astype(np.int64)
    column_map[-1:] = len(column_map) - 1
    return column_map


def _column_map_info(component: PermuteComponent) -> str:
    shown = [str(column) for column in component.column_map[:5].tolist()]
    dots = "... " if component.dim > 5 else ""
    return f" , column-map=[ {' '.join(shown)} {dots}]"


@register
class SumGroupComponent(Component):
    """y_j = sum of the j-th group of neighbouring inputs; `sizes` (output_dim) are the sizes of the groups."""

    is_linear = True
    properties = Properties.SIMPLE

    fields = (Field("sizes", _Sizes(), None),)

    def __init__(self, sizes: np.ndarray):
        super().__init__()
        self.sizes = np.asarray(sizes, dtype=np.int64)
        self.input_dim, self.output_dim = int(self.sizes.sum()), len(self.sizes)
        self._equal_sizes = bool((self.sizes == self.sizes[0]).all())
        self._group_of_column: Tensor | None = None  # (input_dim,), made when first needed

    @classmethod
    def initial_values(cls, line: ConfigLine, rng: RandomSource) -> dict[str, Any]:
        if line.has("sizes"):
            sizes = line.integers("sizes")
            if not sizes or min(sizes) <= 0 or sum(sizes) > _MOST_COLUMNS:
                raise line.error(f"'sizes' must be positive integers, got '{line.string('sizes')}'", "sizes")
            return {"sizes": np.array(sizes)}
        input_dim = line.integer("input-dim", minimum=1)
        output_dim = line.integer("output-dim", minimum=1)
        if input_dim % output_dim != 0:
            message = f"'input-dim' must be a multiple of output-dim={output_dim}, got {input_dim}"
            raise line.error(message, "input-dim")
        return {"sizes": np.full(output_dim, input_dim // output_dim)}

    @classmethod
    def read_end(cls, reader: Reader) -> None:
        reader.expect("</SumGroupComponent>", "<SumGroupComponent>")  # old versions wrote the opening token twice

    def _groups(self, device: torch.device) -> Tensor:
        if self._group_of_column is None or self._group_of_column.device != device:
            self._group_of_column = torch.from_numpy(np.repeat(np.arange(self.output_dim), self.sizes)).to(device)
        return self._group_of_column

    def forward(self, x: Tensor, y: Tensor, indexes: None = None) -> None:
        if self._equal_sizes:
            torch.sum(x.unflatten(1, (self.output_dim, -1)), 2, out=y)
        else:
            y.zero_().index_add_(1, self._groups(x.device), x)

    def fill_deriv(self, x: Tensor, y: Tensor, y_deriv: Tensor, memo: Any, x_deriv: Tensor, indexes: Any) -> None:
        if self._equal_sizes:
            x_deriv.unflatten(1, (self.output_dim, -1)).copy_(y_deriv.unsqueeze(2))
        else:
            torch.index_select(y_deriv, 1, self._groups(y_deriv.device), out=x_deriv)


@register
class PermuteComponent(Component):
    """y_j = x_(column_map[j]); `column_map` (dim) is a permutation."""

    is_linear = True
    properties = Properties.SIMPLE

    fields = (Field("column_map", _ColumnMap(), check=_not_a_permutation),)
    heading = ("dim",)
    shown = (_column_map_info,)

    def __init__(self, column_map: np.ndarray):
        super().__init__()
        self.input_dim = self.output_dim = len(column_map)
        self.column_map = torch.from_numpy(np.asarray(column_map, dtype=np.int64))
        self._inverse_map = torch.argsort(self.column_map)

    def to(self, dtype: torch.dtype | None = None, device: str | torch.device | None = None) -> Self:
        self.column_map = self.column_map.to(device=device)
        self._inverse_map = self._inverse_map.to(device=device)
        return super().to(dtype, device)

    def forward(self, x: Tensor, y: Tensor, indexes: None = None) -> None:
        torch.index_select(x, 1, self.column_map, out=y)

    def fill_deriv(self, x: Tensor, y: Tensor, y_deriv: Tensor, memo: Any, x_deriv: Tensor, indexes: Any) -> None:
        torch.index_select(y_deriv, 1, self._inverse_map, out=x_deriv)


class _Reduction(Component):
    """An input dimension that is a multiple of the output dimension."""

    fields: ClassVar[tuple[Field, ...]] = (
        Field("input_dim", SIZE),
        Field("output_dim", SIZE, check=divisor_of("input_dim")),
    )

    def __init__(self, input_dim: int, output_dim: int):
        super().__init__()
        self.input_dim, self.output_dim = input_dim, output_dim

    def _groups(self, matrix: Tensor) -> Tensor:
        """Returns the input seen as (rows, output columns, input columns of each)."""
        return matrix.unflatten(1, (self.output_dim, -1))

    def _blocks(self, matrix: Tensor) -> Tensor:
        """Returns the input seen as (rows, blocks, output columns)."""
        return matrix.unflatten(1, (-1, self.output_dim))


@register
class PnormComponent(_Reduction):
    """y_j = Euclidean norm of the j-th group of neighbouring inputs."""

    properties = Properties.SIMPLE | Properties.BACKPROP_NEEDS_INPUT | Properties.BACKPROP_NEEDS_OUTPUT

    def forward(self, x: Tensor, y: Tensor, indexes: None = None) -> None:
        torch.linalg.vector_norm(self._groups(x), dim=2, out=y)

    def fill_deriv(self, x: Tensor, y: Tensor, y_deriv: Tensor, memo: Any, x_deriv: Tensor, indexes: Any) -> None:
        # g_x,i = g_y,j x_i / y_j, and 0 where y_j = 0
        ratio = (y_deriv / y).masked_fill_(y == 0, 0.0)
        torch.mul(self._groups(x), ratio.unsqueeze(2), out=self._groups(x_deriv))


@register
class SumBlockComponent(_Reduction):
    """y = scale times the sum of the blocks of output_dim inputs."""

    is_linear = True
    properties = Properties.SIMPLE

    fields = (*_Reduction.fields, Field("scale", REAL, default=1.0))
    shown = ("scale",)

    def __init__(self, input_dim: int, output_dim: int, scale: float = 1.0):
        super().__init__(input_dim, output_dim)
        self.scale = scale

    def forward(self, x: Tensor, y: Tensor, indexes: None = None) -> None:
        torch.sum(self._blocks(x), 1, out=y)
        if self.scale != 1.0:
            y.mul_(self.scale)

    def fill_deriv(self, x: Tensor, y: Tensor, y_deriv: Tensor, memo: Any, x_deriv: Tensor, indexes: Any) -> None:
        blocks = self._blocks(x_deriv)
        torch.mul(y_deriv.unsqueeze(1).expand_as(blocks), self.scale, out=blocks)


def _fault_of_blocks(output_dim: int, values: Values) -> str:
    input_dim = values["input_dim"]
    if input_dim == output_dim:
        return f"must be at most half of input-dim={input_dim}, got {output_dim}"
    return divisor_of("input_dim")(output_dim, values)


@register
class ElementwiseProductComponent(_Reduction):
    """y = product of the blocks of output_dim inputs, element by element."""

    repeats_forward = True
    properties = Properties.SIMPLE | Properties.BACKPROP_NEEDS_INPUT

    fields = (Field("input_dim", SIZE), Field("output_dim", SIZE, check=_fault_of_blocks))

    def forward(self, x: Tensor, y: Tensor, indexes: None = None) -> None:
        first, second, *others = x.split(self.output_dim, 1)
        torch.mul(first, second, out=y)
        for block in others:
            y.mul_(block)

    def native(self, x: Tensor, y: Tensor) -> Operations | None:
        first, second, *others = x.split(self.output_dim, 1)
        return operations.in_a_row(
            operations.multiply(y, first, second), *(operations.multiply(y, y, block) for block in others)
        )

    def fill_deriv(self, x: Tensor, y: Tensor, y_deriv: Tensor, memo: Any, x_deriv: Tensor, indexes: Any) -> None:
        # g_x of a block = g_y times the product of all other blocks: of those before it, then of those behind it
        blocks, derivs = self._blocks(x).unbind(1), self._blocks(x_deriv).unbind(1)
        before, behind = y_deriv, blocks[-1]
        for block, deriv in zip(blocks[:-1], derivs[1:], strict=True):
            before = torch.mul(before, block, out=deriv)
        for block, deriv in zip(blocks[-2:0:-1], derivs[-2:0:-1], strict=True):
            deriv.mul_(behind)
            behind = behind * block
        torch.mul(y_deriv, behind, out=derivs[0])
