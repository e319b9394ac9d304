"""How much memory nobody uses."""

from nnet3.engine.runtime.memory import ArenaPool


def free_bytes(pool: ArenaPool) -> int:
    """Returns the size of all free arenas of a pool."""
    with pool._lock:
        return sum(arena.num_bytes for arena in pool._free)
