"""Components that draw random numbers, and dropouts: of single numbers, as a mask, and shared by blocks and times."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from typing_extensions import Self

from nnet3.base.kaldi_io.reader import Reader
from nnet3.base.kaldi_io.writer import Writer
from nnet3.base.native import layers, operations
from nnet3.base.native.operations import Operations
from nnet3.base.text import ConfigLine
from nnet3.errors import ComponentError
from nnet3.model.components.base import Component, Properties
from nnet3.model.components.component_types import register
from nnet3.model.components.field_table import Field, Same, divisor_of
from nnet3.model.components.index_arrays import IndexArrays
from nnet3.model.components.random_source import RandomSource
from nnet3.model.components.value_kinds import BOOLEAN, COUNT, FLAG, INTEGER, PROPORTION, SIZE


class RandomComponent(Component):
    """Draws random numbers unless `test_mode` is set."""

    def __init__(self, test_mode: bool = False) -> None:
        super().__init__()
        self.test_mode = test_mode

    def set_test_mode(self, test_mode: bool) -> None:
        """Does without random numbers (True), as for anything but training, or with them (False)."""
        self.test_mode = test_mode

    def replay_state(self) -> list[object] | None:
        return super().replay_state() if self.test_mode else None


class DropoutBase(RandomComponent):
    """Zeroes a proportion of something; the proportion may be changed at any time."""

    def __init__(self, dropout_proportion: float, test_mode: bool = False):
        super().__init__(test_mode)
        self.dropout_proportion = dropout_proportion

    @property
    def dropout_proportion(self) -> float:
        return self._dropout_proportion

    @dropout_proportion.setter
    def dropout_proportion(self, value: float) -> None:
        if not 0.0 <= value <= 1.0:
            raise ComponentError(f"{self.type_name}: the dropout proportion must be in [0, 1], got {value:g}")
        self._dropout_proportion = value

    def set_dropout_proportion(self, proportion: float) -> None:
        self.dropout_proportion = proportion

    def kept(self, *shape: int, like: Tensor) -> Tensor:
        """Returns a mask: 1 with probability 1 - dropout_proportion, else 0."""
        return self.uniform(*shape, like=like).lt_(1.0 - self.dropout_proportion).to(like.dtype)

    def continuous_mask(self, *shape: int, like: Tensor) -> Tensor:
        """Numbers spread evenly around 1, from 1 - 2 p to 1 + 2 p for dropout proportion p."""
        p = self.dropout_proportion
        return self.uniform(*shape, like=like).mul_(4.0 * p).add_(1.0 - 2.0 * p).to(like.dtype)

    def uniform(self, *shape: int, like: Tensor) -> Tensor:
        """Draws uniform float32 numbers on the device of `like`: fewer bits would make the proportion inexact."""
        return self.rng.uniform_tensor(*shape, like=like.new_empty(0, dtype=torch.float32))


@register
class DropoutComponent(DropoutBase):
    """Zeroes single elements, or whole rows if dropout_per_frame, with probability p = dropout_proportion.

    In test mode y = (1 - p) x.
    """

    properties = (
        Properties.SIMPLE
        | Properties.BACKPROP_IN_PLACE
        | Properties.BACKPROP_NEEDS_INPUT
        | Properties.BACKPROP_NEEDS_OUTPUT
        | Properties.RANDOM
    )

    fields = (
        Field("dim", SIZE),
        Field("dropout_proportion", PROPORTION),
        Field("dropout_per_frame", BOOLEAN, default=False, optional=True),
        Field("test_mode", BOOLEAN, default=False, optional=True),
    )
    heading = ("dim",)
    shown = ("dropout_proportion", "dropout_per_frame")

    def __init__(self, dim: int, dropout_proportion: float, dropout_per_frame: bool = False, test_mode: bool = False):
        super().__init__(dropout_proportion, test_mode)
        self.input_dim = self.output_dim = dim
        self.dropout_per_frame = dropout_per_frame

    @property
    def test_mode_scale(self) -> float | None:
        return 1.0 - self.dropout_proportion if self.test_mode else None

    def forward(self, x: Tensor, y: Tensor, indexes: None = None) -> None:
        if self.dropout_proportion == 0.0:
            y.copy_(x)
        elif self.test_mode:
            torch.mul(x, 1.0 - self.dropout_proportion, out=y)
        else:
            torch.mul(x, self.kept(x.shape[0], 1 if self.dropout_per_frame else x.shape[1], like=x), out=y)

    def native(self, x: Tensor, y: Tensor) -> Operations | None:
        p = self.dropout_proportion
        return operations.copy(y, x) if p == 0.0 else operations.scaled_copy(y, x, 1.0 - p)  # it is in test mode

    def fill_deriv(self, x: Tensor, y: Tensor, y_deriv: Tensor, memo: Any, x_deriv: Tensor, indexes: Any) -> None:
        # g_x = g_y y / x, and g_y where x = 0: what x was multiplied by can be seen in x and y
        if not layers.dropout_backward(x_deriv, x, y, y_deriv):
            torch.mul(y_deriv, (y / x).masked_fill_(x == 0, 1.0), out=x_deriv)


@register
class DropoutMaskComponent(DropoutBase):
    """Rows of zeros and ones (or of numbers around 1, if `continuous`) for others to multiply by; it reads no input.

    With 2 or 3 columns the first two are never both zero as long as dropout_proportion <= 1/2.
    In test mode all is 1 - dropout_proportion, or 1 if `continuous`.
    """

    properties = Properties.RANDOM
    identity_indexes = False
    rules_period = 1

    fields = (
        Field("output_dim", SIZE),
        Field("dropout_proportion", PROPORTION, default=0.5),
        Field("test_mode", BOOLEAN, default=False, optional=True),
        Field("continuous", FLAG, default=False, optional=True, omitted=False, hidden=False),
    )
    heading = ("output_dim",)
    shown = ("dropout_proportion", "continuous")

    def __init__(
        self, output_dim: int, dropout_proportion: float = 0.5, continuous: bool = False, test_mode: bool = False
    ):
        super().__init__(dropout_proportion, test_mode)
        self.input_dim = self.output_dim = output_dim  # a config line must give it an input, which is never read
        self.continuous = continuous

    def wanted_inputs(self, outputs: np.ndarray) -> np.ndarray:
        return outputs[:, np.newaxis, :][:, :0]

    def forward(self, x: Tensor, y: Tensor, indexes: None = None) -> None:
        p = self.dropout_proportion
        if p == 0.0 or (self.continuous and self.test_mode):
            y.fill_(1.0)
        elif self.continuous:
            y.copy_(self.continuous_mask(*y.shape, like=y))
        elif self.test_mode:
            y.fill_(1.0 - p)
        elif y.shape[1] in (2, 3):
            draw = self.uniform(y.shape[0], like=y)
            y[:, 0] = draw < 1.0 - p
            y[:, 1] = draw >= p
            y[:, 2:] = self.kept(y.shape[0], y.shape[1] - 2, like=y)
        else:
            y.copy_(self.kept(*y.shape, like=y))


@dataclass(frozen=True)
class GeneralDropoutIndexes:
    """The row of the mask for each of the first rows of the data, (rows of a cycle,); further rows repeat these."""

    num_mask_rows: int
    mask_row_of_row: Tensor


class _Regions(Field):
    """Has no meaning, and is neither written nor shown, without specaugment_max_proportion."""

    def read(self, reader: Reader, values: dict[str, Any]) -> None:
        if "specaugment_max_proportion" in values and reader.accept(self.token_text):
            values[self.name] = SIZE.load(reader, self.token_text, values)

    def write(self, writer: Writer, component: Any) -> None:
        if component.specaugment_max_proportion != 0.0 and component.specaugment_max_regions != 1:
            super().write(writer, component)

    def is_hidden(self, component: Any) -> bool:
        return bool(component.specaugment_max_proportion == 0.0)


@register
class GeneralDropoutComponent(DropoutBase):
    """y = x times a random mask of block_dim columns, the same for all blocks of a row.

    Rows of one sequence share their mask, with time_period != 0 only if they are in the same period. With
    specaugment_max_proportion != 0 the mask zeroes ranges of columns, else single columns and the rest is rescaled.
    """

    properties = Properties.IN_PLACE | Properties.USES_MEMO | Properties.RANDOM
    indexes_type = GeneralDropoutIndexes
    repeats_forward = True

    fields = (
        Field("dim", SIZE),
        Field("block_dim", SIZE, default=Same("dim"), check=divisor_of("dim")),
        Field("time_period", COUNT, default=0, hidden=0),
        Field("dropout_proportion", PROPORTION, default=0.5),
        Field(
            *("specaugment_max_proportion", PROPORTION),
            token="<SpecAugmentMaxProportion>",
            default=0.0,
            optional=True,
            omitted=0.0,
            hidden=0.0,
        ),
        _Regions("specaugment_max_regions", INTEGER, token="<SpecAugmentMaxRegions>", default=1, optional=True),
        Field("test_mode", FLAG, default=False, optional=True, omitted=False),
        Field("continuous", FLAG, default=False, optional=True, omitted=False, hidden=False),
    )
    heading = ("dim",)
    shown = (
        *("block_dim", "dropout_proportion", "continuous", "specaugment_max_proportion"),
        *("specaugment_max_regions", "time_period"),
    )

    def __init__(
        self,
        dim: int,
        block_dim: int,
        time_period: int = 0,
        dropout_proportion: float = 0.5,
        specaugment_max_proportion: float = 0.0,
        specaugment_max_regions: int = 1,
        continuous: bool = False,
        test_mode: bool = False,
    ):
        super().__init__(dropout_proportion, test_mode)
        self.input_dim = self.output_dim = dim
        self.block_dim = block_dim
        self.time_period = time_period
        self.specaugment_max_proportion = specaugment_max_proportion
        self.specaugment_max_regions = specaugment_max_regions
        self.continuous = continuous

    @classmethod
    def from_config(cls, line: ConfigLine, rng: RandomSource) -> Self:
        component = super().from_config(line, rng)
        if component.specaugment_max_proportion != 0.0:
            if component.continuous:
                raise line.error("'continuous' cannot be combined with specaugment-max-proportion", "continuous")
            if component.specaugment_max_regions < 1:
                regions = component.specaugment_max_regions
                raise line.error(f"'specaugment-max-regions' must be >= 1, got {regions}", "specaugment-max-regions")
        return component

    @property
    def test_mode_scale(self) -> float | None:
        return 1.0 if self.test_mode else None

    @property
    def needs_indexes(self) -> bool:  # type: ignore[override]
        return not self.test_mode

    @property
    def indexes_go_on(self) -> bool:
        return not self.time_period

    def precompute_indexes(self, inputs: np.ndarray, outputs: np.ndarray, *, need_backprop: bool) -> IndexArrays:
        n, t = outputs[:, 0].astype(np.int64), outputs[:, 1].astype(np.int64)
        period = t // self.time_period if self.time_period else np.zeros_like(t)
        keys, mask_row_of_row = np.unique((n << 32) + period, return_inverse=True)
        num_masks, mask_row_of_row = max(len(keys), 1), mask_row_of_row.reshape(-1)
        cycle = mask_row_of_row[:num_masks]  # time after time it repeats, whatever the number of times is
        is_cycle = len(n) % num_masks == 0 and (mask_row_of_row.reshape(-1, num_masks) == cycle).all()
        return {"num_mask_rows": np.array(len(keys)), "mask_row_of_row": cycle if is_cycle else mask_row_of_row}

    def forward(self, x: Tensor, y: Tensor, indexes: GeneralDropoutIndexes | None = None) -> Tensor | None:
        """Returns the mask, (mask rows, block_dim), as the memo; None for the identity."""
        if self.test_mode or (self.dropout_proportion == 0.0 and self.specaugment_max_proportion == 0.0):
            self._multiply(x, None, y, indexes)
            return None
        assert indexes is not None, "this type has needs_indexes"
        mask = self._mask(indexes.num_mask_rows, x)
        self._multiply(x, mask, y, indexes)
        return mask

    def forward_again(self, x: Tensor, y: Tensor, memo: Any, indexes: Any = None) -> None:
        self._multiply(x, memo, y, indexes)

    def fill_deriv(self, x: Tensor, y: Tensor, y_deriv: Tensor, memo: Any, x_deriv: Tensor, indexes: Any) -> None:
        self._multiply(y_deriv, memo, x_deriv, indexes)

    def _multiply(
        self, source: Tensor, mask: Tensor | None, target: Tensor, indexes: GeneralDropoutIndexes | None
    ) -> None:
        if mask is None:
            if target.data_ptr() != source.data_ptr():
                target.copy_(source)
            return
        assert indexes is not None, "this type has needs_indexes"
        cycle = len(indexes.mask_row_of_row)
        shape = len(source) // max(cycle, 1), cycle, source.shape[1] // self.block_dim, self.block_dim
        blocks, result = (matrix.view(shape) for matrix in (source, target))
        torch.mul(blocks, mask.index_select(0, indexes.mask_row_of_row).unsqueeze(1), out=result)

    def _mask(self, num_rows: int, like: Tensor) -> Tensor:
        if self.specaugment_max_proportion != 0.0:
            return self._specaugment_mask(num_rows).to(like)
        if self.continuous:
            return self.continuous_mask(num_rows, self.block_dim, like=like)
        mask = self.kept(num_rows, self.block_dim, like=like)
        return mask.mul_(1.0 / (1.0 - self.dropout_proportion)) if self.dropout_proportion < 1.0 else mask

    def _specaugment_mask(self, num_rows: int) -> Tensor:
        """Zeros a random range of the columns, seen as a circle; then flips random halves of the circle to split it."""
        bins = torch.arange(self.block_dim)
        most_zeroed = int(self.block_dim * self.specaugment_max_proportion + 0.5)
        num_zeroed = self._integers(num_rows, most_zeroed + 1)
        mask = (bins - self._integers(num_rows, self.block_dim)) % self.block_dim >= num_zeroed
        half = self.block_dim // 2
        for _ in range(self.specaugment_max_regions - 1):
            start = self._integers(num_rows, self.block_dim)
            # Among the offsets 0..half from the start, the first half // 2 and the last half // 2 change places.
            offset = (bins - start) % self.block_dim
            is_swapped = (offset <= half) & ((offset < half // 2) | (offset > half - half // 2))
            source = torch.where(is_swapped, (start + half - offset) % self.block_dim, bins)
            mask = mask.gather(1, source)
        return mask

    def _integers(self, num_rows: int, bound: int) -> Tensor:
        """Draws integers in [0, bound), (num_rows, 1)."""
        draw = self.rng.uniform_tensor(num_rows, 1, like=torch.empty((), dtype=torch.float64))
        return (draw * bound).long()
