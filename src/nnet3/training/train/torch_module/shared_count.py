"""SharedCount: the count of running statistics is a number in the component and a buffer of its module."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

COUNT = "count"


class SharedCount:
    """Keeps the number and the buffer equal; the changed value is right."""

    def __init__(self) -> None:
        self._version, self._number = -1, 0.0  # of the buffer, and the number, when both last agreed
        self._values: dict[str, Tensor] = {}  # of running statistics that processes share, when they were looked at

    def note(self, component: Any, own: Mapping[str, Tensor]) -> None:
        """Notes that number and buffer agree; `own` are the component's buffers."""
        self._version, self._number = own[COUNT]._version, float(component.count)

    def buffer_has_changed(self) -> None:
        """Takes the buffer for changed, whatever PyTorch counts."""
        self._version = -1

    def align(self, component: Any, own: Mapping[str, Tensor]) -> None:
        """Brings number and buffer together."""
        count, is_broadcast = own[COUNT], self._is_broadcast(component, own)
        if count._version != self._version or (is_broadcast and count.item() != self._number):
            component.count = count.item()
        elif component.count != self._number:
            count.fill_(component.count)
        else:
            return
        self.note(component, own)

    def _is_broadcast(self, component: Any, own: Mapping[str, Tensor]) -> bool:
        """Returns true if other processes may have written into the buffers; then the tensors count as changed.

        DistributedDataParallel broadcasts buffers, and PyTorch does not count that.
        """
        if not (dist.is_available() and dist.is_initialized()):
            return False
        for name in own.keys() & {*component.statistic_names} - {COUNT}:
            tensor, seen = own[name], self._values.get(name)
            if seen is None or not torch.equal(tensor, seen):
                torch.autograd.graph.increment_version(tensor)
                self._values[name] = tensor.clone()
        return True
