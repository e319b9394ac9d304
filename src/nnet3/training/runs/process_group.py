"""Connects the processes of a run: one process, or all processes started by torchrun."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor

from nnet3.errors import LostError, Nnet3Error, TrainingError, is_out_of_memory

T = TypeVar("T")

_VARIABLES = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
_CALLERS_SHOWN = 3


class ProcessGroup:
    """This process among `size`: number `rank`, number `local_rank` on its machine. All processes call its methods.

    All messages between processes go through here. A ProcessGroup is a `RowReduction` for sums over the rows of a
    minibatch shared by processes. With `checks` each call is compared first: if processes are about to make different
    calls, which would mix up numbers, an error names the call of every process.
    """

    def __init__(self, rank: int = 0, size: int = 1, local_rank: int = 0, *, checks: bool = False):
        self.rank, self.size, self.local_rank, self.checks = rank, size, local_rank, checks

    @property
    def is_first(self) -> bool:
        """True for the writing process."""
        return self.rank == 0

    @property
    def was_restarted(self) -> bool:
        """True if torchrun has started the processes again after one process ended badly."""
        return int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")) > 0

    def largest(self, *numbers: int) -> list[int]:
        """Returns the largest of all processes' numbers, for each position."""
        if self.size == 1 or not numbers:
            return list(numbers)
        tensor = torch.tensor(numbers, dtype=torch.int64)
        self._together(f"largest of {len(numbers)} numbers", partial(self._reduce, tensor, dist.ReduceOp.MAX))
        return [int(number) for number in tensor]

    def gather(self, value: Any) -> list[Any]:
        """Returns all processes' values (plain data), by rank, in the first process; nothing in the others."""
        return [value] if self.size == 1 else self._together("gathering of objects", partial(self._gather, value))

    def tell(self, value: Any) -> Any:
        """Returns the first process's value in all processes."""
        return value if self.size == 1 else self._together("telling of an object", partial(self._tell, value))

    def sum_(self, tensors: Sequence[Tensor]) -> None:
        """Replaces each tensor by the sum over all processes; tensors of one dtype and device are sent together."""
        if self.size == 1:
            return
        groups: dict[tuple[torch.dtype, torch.device], list[Tensor]] = {}
        for tensor in tensors:
            groups.setdefault((tensor.dtype, tensor.device), []).append(tensor)
        for (dtype, _), group in groups.items():
            whole = group[0].reshape(-1) if len(group) == 1 else torch.cat([tensor.reshape(-1) for tensor in group])
            shapes = ", ".join(str(tuple(tensor.shape)) for tensor in group)
            self._together(f"sum of {dtype} {shapes}", partial(self._reduce, whole, dist.ReduceOp.SUM))
            for tensor, part in zip(group, whole.split([tensor.numel() for tensor in group]), strict=True):
                if tensor.data_ptr() != part.data_ptr():
                    tensor.copy_(part.view(tensor.shape))

    # ---- how it is done: by torch.distributed ----

    def _reduce(self, tensor: Tensor, operation: Any) -> None:
        dist.all_reduce(tensor, operation, group=_control_group() if tensor.device.type == "cpu" else None)

    def _gather(self, value: Any) -> list[Any]:
        values: list[Any] | None = [None] * self.size if self.is_first else None
        dist.gather_object(value, values, group=_control_group())
        return values or []

    def _tell(self, value: Any) -> Any:
        values = [value]
        dist.broadcast_object_list(values, group=_control_group())
        return values[0]

    def _together(self, what: str, call: Callable[[], T]) -> T:
        """Returns the result of a call made by all processes. Raises LostError if a process does not call."""
        try:
            if self.checks:
                self._check_in_step(f"{what} in {_callers(3)}")
            return call()
        except RuntimeError as error:
            if is_out_of_memory(error):
                raise
            raise LostError(
                f"process {self.rank} of {self.size} has lost the others: one of them has ended, see what it said, or "
                "did not come in time ([distributed] timeout). Started again with --resume (in Python: resume=True) "
                "training goes on from the last checkpoint; torchrun --max-restarts=3 does that by itself"
            ) from error

    def _check_in_step(self, call: str) -> None:
        calls = self._tell(self._gather(call))
        if len(set(calls)) > 1:
            shown = "; ".join(f"process {rank}: {each}" for rank, each in enumerate(calls))
            raise TrainingError(f"the processes are out of step: {shown}")  # a mistake of ours


def _callers(depth: int) -> str:
    """Returns the callers of the function `depth` calls further out, the innermost first."""
    frames = islice(traceback.walk_stack(sys._getframe(depth)), _CALLERS_SHOWN)
    return " < ".join(f"{Path(f.f_code.co_filename).stem}.{f.f_code.co_name}:{line}" for f, line in frames)


@contextlib.contextmanager
def joined_processes(
    device: str, meeting_timeout: float, timeout: float, *, checks: bool = False
) -> Iterator[ProcessGroup]:
    """Connects the processes started by torchrun; without torchrun, this process alone.

    Processes wait `meeting_timeout` seconds until all have begun, and `timeout` seconds for one another from then on.
    """
    size = int(os.environ.get("WORLD_SIZE", "1"))
    if size == 1:
        yield ProcessGroup()
        return
    missing = [name for name in _VARIABLES if name not in os.environ]
    if missing:
        raise Nnet3Error(f"WORLD_SIZE is {size}, but {missing[0]} is not set: start several processes with torchrun")
    is_cuda = device.startswith("cuda")
    local_rank = int(os.environ.get("LOCAL_RANK", "0"))
    if is_cuda:
        torch.cuda.set_device(local_rank)
    try:
        _join(is_cuda, timedelta(seconds=meeting_timeout), timedelta(seconds=timeout))
    except RuntimeError as error:
        raise TrainingError(
            f"process {os.environ['RANK']} of {size} has not found the others: they have not all begun within "
            f"{meeting_timeout:g} s ([distributed] meeting-timeout), or MASTER_ADDR and MASTER_PORT are not those of "
            "the first one"
        ) from error
    try:
        yield ProcessGroup(dist.get_rank(), dist.get_world_size(), local_rank, checks=checks)
    except LostError:
        raise
    except Nnet3Error as error:
        _tell_torchrun(str(error))
        raise
    finally:
        _GROUPS.clear()
        dist.destroy_process_group()


def _tell_torchrun(message: str) -> None:
    """Leaves a message where torchrun looks for the reason why a process has ended."""
    path = os.environ.get("TORCHELASTIC_ERROR_FILE")
    if path:
        with contextlib.suppress(OSError):
            Path(path).write_text(json.dumps({"message": message, "timestamp": int(time.time())}))


def _join(is_cuda: bool, meeting: timedelta, wait: timedelta) -> None:
    store, rank, size = next(dist.rendezvous("env://", timeout=meeting))
    # Processes that torchrun has started again may find the addresses of those before them in the same store.
    # So may those that have met before, and meet again for another run.
    start = f"start-{os.environ.get('TORCHELASTIC_RESTART_COUNT', '0')}-{next(_MEETINGS)}"
    own = dist.PrefixStore(start, store)
    own.set(f"begun-{rank}", "")
    own.wait([f"begun-{each}" for each in range(size)], meeting)
    own.set_timeout(wait)
    dist.init_process_group("nccl" if is_cuda else "gloo", store=own, rank=rank, world_size=size, timeout=wait)
    _GROUPS.append(dist.new_group(backend="gloo", timeout=wait) if is_cuda else None)


_MEETINGS = itertools.count()
_GROUPS: list[Any] = []  # what numbers and objects are sent over: never the GPUs


def _control_group() -> Any:
    return _GROUPS[-1] if _GROUPS else None
