"""HistoryStep: one more word of one history, computed by one call of native code."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from functools import cached_property, partial
from typing import NamedTuple

import numpy as np
import torch

from nnet3.base.index import IndexTable
from nnet3.engine.runtime import link, plan_of
from nnet3.engine.runtime.kernels import Kernels
from nnet3.engine.runtime.memory import Arena
from nnet3.engine.runtime.native_runs import NativeRun
from nnet3.inference.stream_program import StreamProgram
from nnet3.model.nnet import Nnet
from nnet3.speech.arrays.aliases import Integers, Singles

_INPUT, _OUTPUT = "input", "output"
_CPU = torch.device("cpu")


class StatePart(NamedTuple):
    """A node's columns in a row that holds a state: `rows` of the node one behind the other, `dim` numbers each."""

    columns: slice
    rows: int
    dim: int


def state_parts(tables: Mapping[str, IndexTable], nnet: Nnet) -> dict[str, StatePart]:
    """Returns the parts of a state by node, one behind the other, that of the input last."""
    parts, begin = dict[str, StatePart](), 0
    for name in sorted(tables, key=lambda name: (name == _INPUT, name)):
        rows, dim = len(tables[name]), nnet.node_dim(name)
        parts[name] = StatePart(slice(begin, begin + rows * dim), rows, dim)
        begin += rows * dim
    return parts


def size_of_state(parts: Mapping[str, StatePart]) -> int:
    """Returns the numbers of a row that holds a state."""
    return max((part.columns.stop for part in parts.values()), default=0)


class HistoryStep:
    """The program of a chunk for one history, run by native code in a memory of its own. Threads take turns."""

    def __init__(self, program: StreamProgram, index: int) -> None:
        """Makes the memory and links the program of chunk `index` to it."""
        chunk, nnet = program.chunks[index], program.nnet
        before, after = (state_parts(each, nnet) for each in (chunk.before, chunk.after))
        dim, kept = nnet.node_dim(_INPUT), chunk.kept.get(_INPUT, np.zeros(0, np.int64))
        word = size_of_state(before)
        sizes = word, dim, size_of_state(after) - dim * len(kept), dim
        memory = np.zeros(sum(sizes), np.float32)
        self._before, self._word, self._after, self._output = np.split(memory, np.cumsum(sizes)[:-1])
        rows = memory[before[_INPUT].columns.start if _INPUT in before else word : word + dim].reshape(-1, dim)
        self._kept = [rows[row] for row in kept.tolist()]  # behind `after`, in the state after the word
        outside = {_INPUT: rows, _OUTPUT: self._output.reshape(1, dim)}
        for name, part in before.items():
            outside.setdefault(name, self._before[part.columns].reshape(part.rows, part.dim))
        for name, part in after.items():
            if name != _INPUT:
                values = self._after[part.columns].reshape(part.rows, part.dim)
                outside[f"{name}.after" if name in before else name] = values
        components = {name: component.shared_copy() for name, component in nnet.components.items()}
        for component in components.values():
            component.is_native = True
        plan = plan_of(program.computation(chunk), torch.float32)
        arena = Arena(plan.num_bytes, torch.device("cpu"))
        bound = {name: torch.from_numpy(values) for name, values in outside.items()}
        self._linked = link(plan, Kernels(components), arena, outside=bound)  # which keeps the memory
        self._calls = list(self._linked.calls_of_segment(0))
        only = self._calls[0] if len(self._calls) == 1 else None
        self._run = only.func if isinstance(only, partial) and isinstance(only.func, NativeRun) else None
        self.lock = threading.Lock()

    @property
    def is_native(self) -> bool:
        """True if native code makes all calls, in one."""
        return self._run is not None

    @cached_property
    def table(self) -> Integers | None:
        """Addresses and sizes, as `Step` in rescoring.c has them; None for what packs weights or is not native."""
        unpacked = None if self._run is None else self._run.unpacked
        if unpacked is None:
            return None
        sizes = len(self._before), len(self._after), len(self._kept)
        rows = self._before, self._word, self._output, self._after, *self._kept
        return np.array([*unpacked, *sizes, *(row.ctypes.data for row in rows)], np.int64)

    def __call__(self, before: Singles, word: Singles, output: Singles, after: Singles) -> None:
        """Computes the output and the state after a word, into `output` and `after`."""
        with self.lock:
            self._before[:], self._word[:] = before, word
            self._calls[0]()
            output[:] = self._output
            begin = len(self._after)
            after[:begin] = self._after
            for row in self._kept:
                after[begin : (begin := begin + len(row))] = row
