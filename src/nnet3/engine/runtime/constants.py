"""Constants: the tables of a plan, as tensors on a device."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from operator import is_
from typing import Any

import numpy as np
import torch
from torch import Tensor

from nnet3.engine.families.precomputed import MOST_ENTRIES
from nnet3.engine.ir.objects import Recent
from nnet3.engine.runtime.kernels import Kernels
from nnet3.engine.runtime.plan import Plan

_SMALL = 4096  # bytes of an entry that stays loaded for other plans


@dataclass
class Constants:
    """The tables of a plan on a device, loaded when first needed; they outlive a change of memory."""

    device: torch.device
    #: By kernel and precomputed entry; of a table of row numbers by -1 and its number.
    loaded: dict[tuple[int, int], Any] = field(default_factory=dict)
    #: Small entries and what kernels made of them, last made last, by kernel and identity: those of the iterations of
    #: loops are shared by the plans of a family.
    entries: Recent[tuple[Any, Any]] = field(default_factory=partial(Recent, MOST_ENTRIES))

    def of_plan(self, before: Plan, plan: Plan) -> Constants:
        """Returns those of a plan with the calls of the plan before; tables that are the same objects stay loaded."""
        pairs = (before.indexes, plan.indexes), (before.precomputed, plan.precomputed)
        same = [list(map(is_, *each)) for each in pairs]
        kept = {key: each for key, each in self.loaded.items() if any(same[key[0] >= 0][key[1] : key[1] + 1])}
        return Constants(self.device, kept, self.entries)

    def index(self, plan: Plan, number: int) -> Tensor:
        """Returns a table of row numbers on the device."""
        table: Tensor | None = self.loaded.get((-1, number))
        if table is None:
            own = np.require(plan.indexes[number], None, ["C", "W"])  # what was read from a file cannot be written to
            table = self.loaded[-1, number] = torch.from_numpy(own).to(self.device)
        return table

    def load(self, plan: Plan, kernels: Kernels, kernel: int, precomputed: int) -> Any:
        """Returns the kernel's own representation of its precomputed arrays."""
        key = kernel, precomputed
        if key not in self.loaded:
            arrays = plan.precomputed[precomputed] or {}
            known = self.entries.get((kernel, id(arrays)))
            if known is None:
                known = arrays, kernels.find(plan.kernels[kernel]).load_indexes(arrays, self.device)
                if sum(array.nbytes for array in arrays.values()) <= _SMALL:
                    self.entries.use((kernel, id(arrays)), known)
            self.loaded[key] = known[1]
        return self.loaded[key]
