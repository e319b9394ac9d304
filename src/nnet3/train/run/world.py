"""The processes of a run: one, or those that torchrun has started."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from nnet3.errors import Nnet3Error

_VARIABLES = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")


class World:
    """This process among `size`: number `rank`, number `local_rank` on its machine. Its methods are called by all.

    It is a `RowReduction` for what sums over the rows of a minibatch that processes share.
    """

    def __init__(self, rank: int = 0, size: int = 1, local_rank: int = 0):
        self.rank, self.size, self.local_rank = rank, size, local_rank

    @property
    def is_first(self) -> bool:
        """Whether this process is the one that writes."""
        return self.rank == 0

    @property
    def was_restarted(self) -> bool:
        """Whether torchrun has started the processes again after one of them ended badly."""
        return int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")) > 0

    def largest(self, *numbers: int) -> list[int]:
        """The largest of all processes' numbers, each place for itself."""
        if self.size == 1:
            return list(numbers)
        tensor = torch.tensor(numbers, dtype=torch.int64)
        dist.all_reduce(tensor, dist.ReduceOp.MAX, group=_control_group())
        return [int(number) for number in tensor]

    def gather(self, value: Any) -> list[Any]:
        """What each process gives, by rank, in the first process; nothing in the others. Made of plain values."""
        if self.size == 1:
            return [value]
        values: list[Any] | None = [None] * self.size if self.is_first else None
        dist.gather_object(value, values, group=_control_group())
        return values or []

    def tell(self, value: Any) -> Any:
        """What the first process gives, in all."""
        if self.size == 1:
            return value
        values = [value]
        dist.broadcast_object_list(values, group=_control_group())
        return values[0]

    def sum_(self, tensors: Sequence[torch.Tensor]) -> None:
        """Replace each tensor by the sum of all processes' tensors; those of one dtype and device travel together."""
        if self.size == 1:
            return
        groups: dict[tuple[torch.dtype, torch.device], list[torch.Tensor]] = {}
        for tensor in tensors:
            groups.setdefault((tensor.dtype, tensor.device), []).append(tensor)
        for (_, device), group in groups.items():
            whole = group[0].reshape(-1) if len(group) == 1 else torch.cat([tensor.reshape(-1) for tensor in group])
            dist.all_reduce(whole, group=_control_group() if device.type == "cpu" else None)
            for tensor, part in zip(group, whole.split([tensor.numel() for tensor in group]), strict=True):
                if tensor.data_ptr() != part.data_ptr():
                    tensor.copy_(part.view(tensor.shape))


@contextlib.contextmanager
def joined_world(device: str, timeout: float) -> Iterator[World]:
    """The processes that torchrun has started, connected; this process alone if it was not started by torchrun."""
    size = int(os.environ.get("WORLD_SIZE", "1"))
    if size == 1:
        yield World()
        return
    missing = [name for name in _VARIABLES if name not in os.environ]
    if missing:
        raise Nnet3Error(f"WORLD_SIZE is {size}, but {missing[0]} is not set: start several processes with torchrun")
    is_cuda = device.startswith("cuda")
    local_rank = int(os.environ.get("LOCAL_RANK", "0"))
    if is_cuda:
        torch.cuda.set_device(local_rank)
    wait = timedelta(seconds=timeout)
    store, rank, size = next(dist.rendezvous("env://", timeout=wait))
    # Processes that torchrun has started again may find the addresses of those before them in the same store.
    own = dist.PrefixStore(f"start-{os.environ.get('TORCHELASTIC_RESTART_COUNT', '0')}", store)
    dist.init_process_group("nccl" if is_cuda else "gloo", store=own, rank=rank, world_size=size, timeout=wait)
    _GROUPS.append(dist.new_group(backend="gloo") if is_cuda else None)
    try:
        yield World(dist.get_rank(), dist.get_world_size(), local_rank)
    finally:
        _GROUPS.clear()
        dist.destroy_process_group()


_GROUPS: list[Any] = []  # what numbers and objects are sent over: never the GPUs


def _control_group() -> Any:
    return _GROUPS[-1] if _GROUPS else None
