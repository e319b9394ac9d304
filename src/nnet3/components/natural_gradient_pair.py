"""Components whose gradient is a product G^T X and that precondition both G and X."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

from nnet3.components.field_table import Field, Shown
from nnet3.components.kinds import NUMBER, POSITIVE, RANK_OR_DEFAULT, SIZE
from nnet3.components.natural_gradient import OnlineNaturalGradient
from nnet3.components.natural_gradient_settings import TwoPreconditioners
from nnet3.components.orthonormal import OrthonormalComponent

RANK_IN, RANK_OUT = Field("rank_in", RANK_OR_DEFAULT), Field("rank_out", RANK_OR_DEFAULT)
UPDATE_PERIOD = Field("update_period", SIZE, default=4)
NUM_SAMPLES_HISTORY = Field("num_samples_history", POSITIVE, default=2000.0)
ALPHA = Field("alpha", NUMBER, default=4.0)


RANKS_IN_ONE = (replace(RANK_IN, token="<RankInOut>"), replace(RANK_OUT, token=""))


class NaturalGradientPair(TwoPreconditioners, OrthonormalComponent):
    """`preconditioner_in` is for input rows, `preconditioner_out` for output derivatives.

    Both have the same history, alpha and update period; only their ranks differ.
    """

    natural_gradient_shown: ClassVar[Shown] = ("rank_in", "rank_out", "num_samples_history", "update_period", "alpha")

    def set_natural_gradient(self) -> None:
        """New preconditioners with the ranks that are the default for the dimensions."""
        rank_in, rank_out = min(20, (self.input_dim + 1) // 2), min(80, (self.output_dim + 1) // 2)
        self.preconditioner_in = OnlineNaturalGradient(rank_in, update_period=4)
        self.preconditioner_out = OnlineNaturalGradient(rank_out, update_period=4)
