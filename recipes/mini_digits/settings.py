"""All that may be turned."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Network:
    """How one of the two networks is trained; `epochs` see each frame once."""

    epochs: int
    minibatch: str
    first_rate: float
    last_rate: float
    models: int = 8
    seed: int = 0


@dataclass(frozen=True)
class MiniDigits:
    """`strings` of train, valid and test; `width` and `bottleneck` of the layers; `min_count` of pairs of phones.

    `beams`: of the search, and of its lattices.
    """

    strings: tuple[int, int, int] = (1200, 60, 300)
    seed: int = 0
    width: int = 160
    bottleneck: int = 40
    flat: Network = field(default_factory=lambda: Network(3, "1:32", 0.002, 0.0004))
    chain: Network = field(default_factory=lambda: Network(4, "64", 0.002, 0.0002))
    min_count: int = 100
    beams: tuple[float, float] = (15.0, 8.0)
    lm_weights: tuple[int, ...] = tuple(range(6, 15))
    word_penalties: tuple[float, ...] = (0.0, 0.5, 1.0)


QUICK = MiniDigits(
    (300, 20, 40), flat=Network(2, "1:16", 0.002, 0.001, 3), chain=Network(2, "32", 0.002, 0.0005, 3), min_count=30
)
