"""What draws random numbers, and DropoutComponent and DropoutMaskComponent. Neither rescales by 1 / (1 - p)."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from nnet3.components.base import Component, Deriv, Properties, Updated
from nnet3.components.field_table import Field
from nnet3.components.kinds import BOOLEAN, FLAG, PROPORTION, SIZE
from nnet3.components.registry import register
from nnet3.errors import ComponentError


class RandomComponent(Component):
    """Draws random numbers unless `test_mode` is set."""

    def __init__(self, test_mode: bool = False) -> None:
        super().__init__()
        self.test_mode = test_mode

    def set_test_mode(self, test_mode: bool) -> None:
        """Do without random numbers (True), as for anything but training, or with them (False)."""
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
        """A mask: 1 with probability 1 - dropout_proportion, else 0."""
        return self.uniform(*shape, like=like).lt_(1.0 - self.dropout_proportion).to(like.dtype)

    def continuous_mask(self, *shape: int, like: Tensor) -> Tensor:
        """Numbers spread evenly around 1, from 1 - 2 p to 1 + 2 p for dropout proportion p."""
        p = self.dropout_proportion
        return self.uniform(*shape, like=like).mul_(4.0 * p).add_(1.0 - 2.0 * p).to(like.dtype)

    def uniform(self, *shape: int, like: Tensor) -> Tensor:
        """Uniform float32 numbers on the device of `like`: fewer bits would make the proportion inexact."""
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
        if self.test_mode or self.dropout_proportion == 0.0:
            torch.mul(x, 1.0 - self.dropout_proportion, out=y)
        else:
            torch.mul(x, self.kept(x.shape[0], 1 if self.dropout_per_frame else x.shape[1], like=x), out=y)

    def backward(
        self, x: Tensor, y: Tensor, y_deriv: Tensor, memo: Any, to_update: Updated, x_deriv: Deriv, indexes: Any = None
    ) -> None:
        if x_deriv is None:
            return
        # g_x = g_y y / x, and g_y where x = 0: what x was multiplied by can be seen in x and y
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

    def backward(
        self, x: Tensor, y: Tensor, y_deriv: Tensor, memo: Any, to_update: Updated, x_deriv: Deriv, indexes: Any = None
    ) -> None:
        """Nothing: there is no input and there are no parameters."""
