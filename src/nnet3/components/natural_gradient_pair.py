"""Components whose gradient is a product G^T X and that precondition both G and X (components.md 7.2, 7.3)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nnet3.components.natural_gradient import OnlineNaturalGradient
from nnet3.components.orthonormal import OrthonormalComponent
from nnet3.components.summary import format_number

if TYPE_CHECKING:
    from nnet3.text import ConfigLine


class NaturalGradientPair(OrthonormalComponent):
    """`preconditioner_in` is for input rows, `preconditioner_out` for output derivatives.

    Both have the same history, alpha and update period; only their ranks differ.
    """

    preconditioner_names = ("preconditioner_in", "preconditioner_out")
    preconditioner_in: OnlineNaturalGradient
    preconditioner_out: OnlineNaturalGradient

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

    def configure_natural_gradient(self, line: ConfigLine) -> None:
        ranks: list[int] = []
        for key in ("rank-in", "rank-out"):
            ranks.append(line.integer(key, -1))
            if ranks[-1] == 0:
                raise line.error(f"'{key}' must be positive, or negative for the default", key)
        self.set_natural_gradient(
            ranks[0],
            ranks[1],
            update_period=line.integer("update-period", 4, minimum=1),
            num_samples_history=line.number("num-samples-history", 2000.0, above=0.0),
            alpha=line.number("alpha", 4.0, minimum=0.0),
        )

    def natural_gradient_info(self) -> str:
        first, second = self.preconditioner_in, self.preconditioner_out
        return (
            f", rank-in={first.rank}, rank-out={second.rank}"
            f", num-samples-history={format_number(first.num_samples_history)}"
            f", update-period={first.update_period}, alpha={format_number(first.alpha)}"
        )
