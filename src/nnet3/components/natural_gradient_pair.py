"""Components whose gradient is a product G^T X and that precondition both G and X."""

from __future__ import annotations

from typing import ClassVar

from nnet3.components.field_table import Field, Shown
from nnet3.components.kinds import NUMBER, POSITIVE, RANK_OR_DEFAULT, SIZE
from nnet3.components.natural_gradient import OnlineNaturalGradient
from nnet3.components.natural_gradient_settings import Setting
from nnet3.components.orthonormal import OrthonormalComponent

RANK_IN, RANK_OUT = Field("rank_in", RANK_OR_DEFAULT), Field("rank_out", RANK_OR_DEFAULT)
UPDATE_PERIOD = Field("update_period", SIZE, default=4)
NUM_SAMPLES_HISTORY = Field("num_samples_history", POSITIVE, default=2000.0)
ALPHA = Field("alpha", NUMBER, default=4.0)


class NaturalGradientPair(OrthonormalComponent):
    """`preconditioner_in` is for input rows, `preconditioner_out` for output derivatives.

    Both have the same history, alpha and update period; only their ranks differ.
    """

    preconditioner_names = ("preconditioner_in", "preconditioner_out")
    preconditioner_in: OnlineNaturalGradient
    preconditioner_out: OnlineNaturalGradient
    rank_in = Setting("rank", "preconditioner_in")
    rank_out = Setting("rank", "preconditioner_out")
    update_period, num_samples_history, alpha = (
        Setting(name, "preconditioner_in", "preconditioner_out")
        for name in ("update_period", "num_samples_history", "alpha")
    )
    natural_gradient_shown: ClassVar[Shown] = ("rank_in", "rank_out", "num_samples_history", "update_period", "alpha")

    def set_natural_gradient(
        self,
        rank_in: int = -1,
        rank_out: int = -1,
        update_period: int = 4,
        num_samples_history: float = 2000.0,
        alpha: float = 4.0,
    ) -> None:
        """New preconditioners; a rank below 0 means the default for the dimension."""
        rank_in = min(20, (self.input_dim + 1) // 2) if rank_in < 0 else rank_in
        rank_out = min(80, (self.output_dim + 1) // 2) if rank_out < 0 else rank_out
        self.preconditioner_in = OnlineNaturalGradient(rank_in, update_period, num_samples_history, alpha=alpha)
        self.preconditioner_out = OnlineNaturalGradient(rank_out, update_period, num_samples_history, alpha=alpha)
