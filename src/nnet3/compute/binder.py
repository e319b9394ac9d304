"""What the rules bind commands to: views of the arena, kernels, index tables on the device, scratch memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from nnet3.computation.commands import Backprop, CompressMatrix, Goto
from nnet3.computation.computation import NnetComputation
from nnet3.computation.kernel import Kernel, KernelInfo
from nnet3.compute.arena import Arena, Block
from nnet3.compute.lifetimes import matrix_spans
from nnet3.errors import ExecutionError
from nnet3.text import did_you_mean

#: A command made ready to run: a call without arguments.
BoundCall = Callable[[], object]

COMPRESSED_DTYPES = {"bfloat16": torch.bfloat16, "sign": torch.bool}


@dataclass(frozen=True)
class Kernels:
    """Where kernels are looked up by name: the network, the one that is updated, the one that takes statistics."""

    network: Mapping[str, Kernel]
    to_update: Mapping[str, Kernel] | None = None
    to_store_stats: Mapping[str, Kernel] | None = None

    def find(self, info: KernelInfo) -> Kernel:
        return self._look_up(self.network, info.name, "the network")

    def check_width(self, info: KernelInfo, side: str, width: int) -> None:
        """Kernels may state their `input_dim` and `output_dim`; the computation may be another network's."""
        for kernels in (self.network, self.to_update, self.to_store_stats):
            stated = getattr(kernels.get(info.name), f"{side}_dim", width) if kernels is not None else width
            if stated != width:
                raise ExecutionError(
                    f"component '{info.name}' has {side}-dim {stated} in a given network, but {width} in the one that "
                    "the computation was compiled for"
                )

    def for_statistics(self, info: KernelInfo) -> Kernel:
        """Who takes forward statistics: unless somebody was named, the network that is updated, or else the network."""
        if self.to_store_stats is not None:
            return self._look_up(self.to_store_stats, info.name, "the network to store statistics")
        if self.to_update is not None:
            return self._look_up(self.to_update, info.name, "the network to update")
        return self.find(info)

    def for_update(self, info: KernelInfo, need_model_derivative: bool) -> Kernel | None:
        """Who a backward step updates (training.md 2); kernels without parameters only take statistics there."""
        if info.updatable and not need_model_derivative:
            return None
        if info.updatable and self.to_update is None:
            raise ExecutionError(
                f"the computation updates component '{info.name}', but no network to update was given: "
                "pass nnet_to_update=..., for instance nnet.gradient_copy() for plain gradients"
            )
        if not info.updatable and self.to_store_stats is not None:
            return self._look_up(self.to_store_stats, info.name, "the network to store statistics")
        return None if self.to_update is None else self._look_up(self.to_update, info.name, "the network to update")

    @staticmethod
    def _look_up(kernels: Mapping[str, Kernel], name: str, where: str) -> Kernel:
        if name not in kernels:
            hint = did_you_mean(name, kernels)
            raise ExecutionError(f"{where} has no component '{name}'" + (f" ({hint})" if hint else ""))
        return kernels[name]


@dataclass
class RunState:
    """What changes from run to run outside the arena."""

    accepted: dict[str, Tensor] = field(default_factory=dict)
    provided: dict[str, Tensor] = field(default_factory=dict)
    memos: list[Any] = field(default_factory=list)

    def clear(self) -> None:
        self.accepted.clear()
        self.provided.clear()
        self.memos[:] = [None] * len(self.memos)


class Binder:
    """The memory plan of one computation and everything rules ask for while they bind its commands.

    `command` is the number of the command that is being bound: a matrix that is brought back after it was
    compressed or allocated anew may live in another place than before.
    """

    def __init__(
        self,
        computation: NnetComputation,
        kernels: Kernels,
        device: torch.device,
        dtype: torch.dtype,
        fill_undefined: bool,
    ) -> None:
        self.computation, self.kernels, self.device, self.dtype = computation, kernels, device, dtype
        self.fill_undefined = fill_undefined
        self.state = RunState(memos=[None] * computation.num_memos)
        self.command = 0
        self.last_memo_use = _last_memo_uses(computation)
        self._spans = matrix_spans(computation)
        self._compression = _compression_methods(computation)
        places = [(key, span) for key, spans in self._spans.items() for span in spans]
        self.arena = Arena([Block(self._num_bytes(key), *span) for key, span in places], device)
        self._place = {place: number for number, place in enumerate(places)}
        self.flat = self.arena.typed(dtype)
        self._views: dict[tuple[int, int], Tensor] = {}
        self._precomputed: dict[int, Any] = {}
        self._scratch = torch.empty(0, dtype=dtype, device=device)

    def view(self, submatrix: int) -> Tensor:
        """The sub-matrix as a tensor (rows, columns); (0, 0) for number 0."""
        if submatrix == 0:
            return self.flat[:0].view(0, 0)
        block = self.computation.submatrices[submatrix]
        place = self._place_now(block.matrix)
        if (submatrix, place) not in self._views:
            start, stride = self._start_and_stride(submatrix, place)
            self._views[submatrix, place] = self.flat.as_strided((block.num_rows, block.num_cols), (stride, 1), start)
        return self._views[submatrix, place]

    def row_addresses(self, submatrix: int, rows: np.ndarray) -> np.ndarray:
        """Where in `flat` these rows of a sub-matrix begin."""
        matrix = self.computation.submatrices[submatrix].matrix
        start, stride = self._start_and_stride(submatrix, self._place_now(matrix))
        return start + rows.astype(np.int64) * stride

    def compressed(self, submatrix: int) -> Tensor:
        """The memory for the compressed form of a whole matrix."""
        matrix = self.computation.submatrices[submatrix].matrix
        shape = self.computation.matrices[matrix]
        number = self._place_now(-matrix)
        return self.arena.block(number, (shape.num_rows, shape.num_cols), COMPRESSED_DTYPES[self._compression[matrix]])

    def index(self, numbers: np.ndarray) -> Tensor:
        """Row numbers as an index tensor on the device."""
        return torch.from_numpy(numbers.astype(np.int64)).to(self.device)

    def precomputed(self, number: int, kernel: Kernel) -> Any:
        """What a kernel asked to know of its rows, moved to the device once."""
        if number not in self._precomputed:
            arrays = self.computation.precomputed[number]
            self._precomputed[number] = None if arrays is None else kernel.load_indexes(arrays, self.device)
        return self._precomputed[number]

    def scratch(self, rows: int, cols: int) -> Tensor:
        """A matrix that holds its contents only within one command; all commands share this memory."""
        if self._scratch.numel() < rows * cols:
            self._scratch = self.flat.new_empty(max(rows * cols, 2 * self._scratch.numel()))
        return self._scratch[: rows * cols].view(rows, cols)

    def _place_now(self, key: int) -> int:
        for span in self._spans.get(key, ()):
            if span[0] <= self.command <= span[1]:
                return self._place[key, span]
        form = "compressed" if key < 0 else "in memory"
        raise ExecutionError(f"command c{self.command} uses matrix m{abs(key)}, which is not {form} there")

    def _start_and_stride(self, submatrix: int, place: int) -> tuple[int, int]:
        """First element in `flat` and distance of rows."""
        block = self.computation.submatrices[submatrix]
        stride = self.computation.matrices[block.matrix].num_cols
        start = self.arena.offsets[place] // self.dtype.itemsize
        return start + block.row_offset * stride + block.col_offset, stride

    def _num_bytes(self, key: int) -> int:
        matrix = self.computation.matrices[abs(key)]
        dtype = self.dtype if key > 0 else COMPRESSED_DTYPES[self._compression[-key]]
        return matrix.num_rows * matrix.num_cols * dtype.itemsize


def _last_memo_uses(computation: NnetComputation) -> dict[int, int]:
    """The last command that uses each memo; nothing where gotos make the order of uses another one."""
    if any(isinstance(command, Goto) for command in computation.commands):
        return {}
    return {command.memo: n for n, command in enumerate(computation.commands) if isinstance(command, Backprop)}


def _compression_methods(computation: NnetComputation) -> dict[int, str]:
    """The method by which each matrix is compressed, if it is."""
    methods: dict[int, str] = {}
    for number, command in enumerate(computation.commands):
        if not isinstance(command, CompressMatrix):
            continue
        matrix = computation.submatrices[command.matrix].matrix
        if command.method not in COMPRESSED_DTYPES:
            known = ", ".join(COMPRESSED_DTYPES)
            raise ExecutionError(f"command c{number} compresses m{matrix} as '{command.method}'; methods are: {known}")
        if methods.setdefault(matrix, command.method) != command.method:
            raise ExecutionError(f"m{matrix} is compressed as '{methods[matrix]}' and as '{command.method}'")
    return methods
