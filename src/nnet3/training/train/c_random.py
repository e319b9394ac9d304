"""Random numbers of the GNU C library, from which Kaldi's programs draw on Linux."""

from __future__ import annotations

_MODULUS = 2**31 - 1
_LONG_LAG, _SHORT_LAG = 31, 3
_DISCARDED = 310  # numbers that srand draws and throws away


def c_random(seed: int, before: int = 0) -> int:
    """Returns what `rand()` gives after `srand(seed)` and `before` calls: x[n] = x[n - 3] + x[n - 31], halved."""
    first = (seed + 2**31) % 2**32 - 2**31 or 1  # as an int32
    numbers = [first % 2**32, *(first * pow(16807, power, _MODULUS) % _MODULUS for power in range(1, _LONG_LAG))]
    numbers += numbers[:_SHORT_LAG]
    for _ in range(_DISCARDED + before + 1):
        numbers.append((numbers[-_SHORT_LAG] + numbers[-_LONG_LAG]) % 2**32)
    return numbers[-1] // 2
