"""Made-up telephone numbers: an area code, an exchange of the area, and a subscriber.

Which exchange may follow depends on the three digits of the area, so a bigram of digits knows little of it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

AREA, EXCHANGE, SUBSCRIBER = 3, 2, 2  # digits of each part


@dataclass(frozen=True)
class Plan:
    """So many area codes, of which the k-th is dialled 1/k as often as the first, with so many exchanges each."""

    areas: int = 12
    exchanges: int = 4
    seed: int = 0

    def numbers(self, count: int, seed: int) -> list[str]:
        """Returns random telephone numbers of seven digits; the same plan for any `seed`."""
        plan = np.random.default_rng(self.seed)
        areas = plan.choice(10**AREA, self.areas, replace=False)
        exchanges = np.stack([plan.choice(10**EXCHANGE, self.exchanges, replace=False) for _ in areas])
        weights = 1 / np.arange(1, self.areas + 1)
        rng = np.random.default_rng([self.seed, seed])
        area = rng.choice(self.areas, count, p=weights / weights.sum())
        exchange = exchanges[area, rng.integers(self.exchanges, size=count)]
        subscriber = rng.integers(10**SUBSCRIBER, size=count)
        rows = zip(areas[area], exchange, subscriber, strict=True)
        return [f"{a:0{AREA}d}{b:0{EXCHANGE}d}{c:0{SUBSCRIBER}d}" for a, b, c in rows]
