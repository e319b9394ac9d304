"""Memory of computations: a few arenas per device, each used by one run at a time."""

from __future__ import annotations

import threading
from collections.abc import Hashable
from contextlib import AbstractContextManager, ExitStack, nullcontext
from operator import attrgetter
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from nnet3.base.native.huge_pages import in_huge_pages
from nnet3.errors import ExecutionError

_NOTHING_TO_DO = nullcontext()
_GROWTH = 1.25


def unrecorded() -> AbstractContextManager[Any]:
    """A context unrecorded by autograd, with new tensors that autograd may use, in inference mode too."""
    if torch.is_inference_mode_enabled():
        contexts = ExitStack()
        contexts.enter_context(torch.inference_mode(False))
        contexts.enter_context(torch.no_grad())
        return contexts
    return torch.no_grad() if torch.is_grad_enabled() else _NOTHING_TO_DO


class Arena:
    """One piece of memory. `links` holds the computations linked to it, by computer, and goes when the memory goes."""

    def __init__(self, num_bytes: int, device: torch.device) -> None:
        self.num_bytes = num_bytes
        self.storage = in_huge_pages(torch.empty(num_bytes, dtype=torch.uint8, device=device))
        self.links: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()
        self._scratch = torch.empty(0, dtype=torch.float32, device="cpu")

    def scratch(self, num_floats: int) -> Tensor:
        """Returns memory of at least so many floats on the CPU, for use within a segment."""
        if len(self._scratch) < num_floats:
            self._scratch = in_huge_pages(torch.empty(num_floats, dtype=torch.float32, device="cpu"))
        return self._scratch

    def lane(self, dtype: torch.dtype) -> Tensor:
        """Returns the whole arena as a one-dimensional tensor of this dtype."""
        return self.storage[: self.num_bytes // dtype.itemsize * dtype.itemsize].view(dtype)


class ArenaPool:
    """The free arenas of one device.

    Computers that run in turn share one arena, which grows to the largest plan. A run beginning while
    another run is between its first and last segment gets a further arena.
    """

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self._free: list[Arena] = []
        self._lock = threading.RLock()  # a lease may be forgotten by the garbage collector while the lock is held

    def acquire(self, num_bytes: int, user: object) -> Arena:
        """Returns an arena of at least this size: an arena linked to `user`, else the smallest that is large enough.

        If all are too small, a new arena takes the place of the largest. On a CPU it is clearly larger: of memory that
        is not touched nothing is taken, and what is linked to the new arena need not be linked again so soon.
        """
        with self._lock:
            fitting = [arena for arena in self._free if arena.num_bytes >= num_bytes]
            for arena in fitting:
                if user in arena.links:
                    self._free.remove(arena)
                    return arena
            if fitting:
                smallest = min(fitting, key=_size)
                self._free.remove(smallest)
                return smallest
            if self._free:
                largest = max(self._free, key=_size)
                self._free.remove(largest)  # its links go with it
                if self.device.type == "cpu":
                    num_bytes = max(num_bytes, int(_GROWTH * largest.num_bytes))
        with unrecorded():
            return Arena(num_bytes, self.device)

    def release(self, arena: Arena) -> None:
        with self._lock:
            self._free.append(arena)

    def clear(self) -> None:
        """Free the arenas that nobody uses."""
        with self._lock:
            self._free.clear()


class Lease:
    """An arena in use, given back when the lease is released or forgotten."""

    def __init__(self, pool: ArenaPool, num_bytes: int, user: object) -> None:
        self._pool, self._arena = pool, pool.acquire(num_bytes, user)
        self.is_held = True

    @property
    def arena(self) -> Arena:
        assert self.is_held, "this arena has been released"
        return self._arena

    def release(self) -> None:
        if self.is_held:
            self.is_held = False
            self._pool.release(self._arena)

    def __del__(self) -> None:
        if getattr(self, "is_held", False):
            self.release()


class OneThread:
    """Lets one thread in at a time; a second thread coming meanwhile is an error."""

    def __init__(self) -> None:
        self._lock = threading.Lock()

    def __call__(self) -> AbstractContextManager[bool]:
        """Returns the lock itself: no Ctrl-C comes between its being taken and the body of the `with`."""
        if self._lock.locked():
            raise ExecutionError(
                "two threads use one NnetComputer at the same time: make one for each thread, from the same computation"
            )
        return self._lock


_size = attrgetter("num_bytes")
_POOLS: dict[Hashable, ArenaPool] = {}
_POOLS_LOCK = threading.Lock()


def pool_of(device: torch.device) -> ArenaPool:
    """Returns the pool of a device; on CUDA of the current stream, which orders the runs with shared memory."""
    stream = torch.cuda.current_stream(device).cuda_stream if device.type == "cuda" else 0
    pool = _POOLS.get((device, stream))
    if pool is None:
        with _POOLS_LOCK:
            pool = _POOLS.setdefault((device, stream), ArenaPool(device))
    return pool


def release_memory() -> None:
    """Free the memory of all arenas in which no computation is running."""
    with _POOLS_LOCK:
        for pool in _POOLS.values():
            pool.clear()


def checked_device(device: str | torch.device) -> torch.device:
    """Returns the device, with its number. Raises ExecutionError for a missing device."""
    try:
        checked = torch.device(device)
    except (RuntimeError, TypeError) as error:
        raise ExecutionError(f"unknown device '{device}': give for instance 'cpu', 'cuda' or 'cuda:1'") from error
    if checked.type == "cuda":
        if not torch.cuda.is_available():
            raise ExecutionError(f"device '{device}' was asked for, but PyTorch sees no CUDA device here: use 'cpu'")
        number = torch.cuda.current_device() if checked.index is None else checked.index
        if number >= torch.cuda.device_count():
            raise ExecutionError(f"device '{device}' was asked for, but there are {torch.cuda.device_count()}")
        return torch.device("cuda", number)
    if checked.type != "cpu":
        raise ExecutionError(f"device '{device}' is not supported: use 'cpu' or 'cuda'")
    return torch.device("cpu")
