"""Wrong programs, made by hand, beside the right ones: a proof that misses one is worth nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from nnet3.engine.ir.commands import (
    AcceptInput,
    AllocMatrix,
    Backprop,
    Command,
    CompressMatrix,
    CopyRows,
    DeallocMatrix,
    DecompressMatrix,
    MatrixAdd,
    MatrixCopy,
    Propagate,
    ProvideOutput,
)
from nnet3.engine.ir.computation import NnetComputation
from nnet3.engine.ir.kernel import InputPromises, KernelInfo
from nnet3.engine.ir.program_tables import IoInfo

_LINEAR = InputPromises(is_linear=True)
_APART = {"row_by_row": True, "rows_apart": True}
_KERNELS = [
    KernelInfo("affine", (_LINEAR,), **_APART),
    KernelInfo("memo", (InputPromises(),), uses_memo=True, **_APART),
    KernelInfo("wide", (_LINEAR,), has_slices=True, **_APART),
    KernelInfo("wide[0:3]", (), has_slices=True),
    KernelInfo("wide[0:3]", (_LINEAR, InputPromises()), **_APART),
    KernelInfo("like affine", (_LINEAR,), **_APART),
    KernelInfo("random", (InputPromises(),), is_random=True, uses_memo=True, **_APART),
]
_AFFINE, _MEMO, _, _PACKER, _PACKED, _LIKE_AFFINE, _RANDOM = range(7)
_ROWS, _COLS = 4, 3
Body = Callable[["Matrices", bool], Sequence[Command]]


class Matrices:
    """Inputs x and z, the output y, which is zeros at first, and others for a body to begin."""

    def __init__(self) -> None:
        self.computation = NnetComputation(kernels=list(_KERNELS))
        self.x, self.y, self.z, self.one, self.other = (self.computation.new_matrix(_ROWS, _COLS) for _ in range(5))
        self.weights = self.computation.new_matrix(_COLS, _COLS)

    def rows(self, matrix: int, first: int, count: int) -> int:
        return self.computation.new_submatrix(matrix, row_offset=first, num_rows=count)


def _first_writer(m: Matrices, wrong: bool) -> Sequence[Command]:
    commands = [MatrixCopy(m.y, m.x), MatrixAdd(m.y, m.z)]
    return commands[::-1] if wrong else commands


def _undefined_for_zeros(m: Matrices, wrong: bool) -> Sequence[Command]:
    return [AllocMatrix(m.one, zeroed=not wrong), Propagate(_AFFINE, "a", (m.one,), m.y)]


def _dead_memory(m: Matrices, wrong: bool) -> Sequence[Command]:
    commands = [MatrixAdd(m.y, m.one), DeallocMatrix(m.one)]
    return [AllocMatrix(m.one, zeroed=False), MatrixCopy(m.one, m.x), *(commands[::-1] if wrong else commands)]


def _overlap(m: Matrices, wrong: bool) -> Sequence[Command]:
    above, below = m.rows(m.x, 0, _ROWS - 1), m.rows(m.x, 1, _ROWS - 1)
    if wrong:
        return [MatrixCopy(below, above), MatrixCopy(m.y, m.x)]
    kept = m.rows(m.one, 0, _ROWS - 1)
    moved = [MatrixCopy(kept, above), MatrixCopy(below, kept), MatrixCopy(m.y, m.x)]
    return [AllocMatrix(m.one, zeroed=True), *moved]


def _memo(m: Matrices, wrong: bool) -> Sequence[Command]:
    return [
        AllocMatrix(m.one, zeroed=True),
        Propagate(_MEMO, "m", (m.x,), m.one, memo=0),
        Propagate(_MEMO, "m", (m.z,), m.one, memo=1),
        Backprop(_MEMO, "m", (0,), 0, m.x, (m.y,), (0,), update=False, memo=int(not wrong)),
    ]


def _draw(m: Matrices, wrong: bool) -> Sequence[Command]:
    """Both draws are made of the same rows."""
    return [
        AllocMatrix(m.one, zeroed=True),
        Propagate(_RANDOM, "r", (m.x,), m.one, memo=0),
        Propagate(_RANDOM, "r", (m.x,), m.one, memo=1),
        Backprop(_RANDOM, "r", (0,), 0, m.z, (m.y,), (0,), update=False, memo=int(not wrong)),
    ]


def _packed_weights(m: Matrices, wrong: bool) -> Sequence[Command]:
    """The step is the first one, so its input is zeros, which hide what they are multiplied by."""
    begin = [AllocMatrix(m.one, zeroed=True), AllocMatrix(m.weights, zeroed=False)]
    pack = [] if wrong else [Propagate(_PACKER, "w", (), m.weights)]
    return [*begin, *pack, Propagate(_PACKED, "w", (m.one, m.weights), m.y)]


def _swapped_rows(m: Matrices, wrong: bool) -> Sequence[Command]:
    rows = np.array([1, 0, 2, 3] if wrong else [0, 1, 2, 3], np.int32)
    return [CopyRows(m.y, m.x, m.computation.new_index_table(rows))]


def _scale(m: Matrices, wrong: bool) -> Sequence[Command]:
    return [MatrixAdd(m.y, m.x, 0.5 if wrong else 0.25)]


def _left_out(m: Matrices, wrong: bool) -> Sequence[Command]:
    return [*([] if wrong else [MatrixAdd(m.y, m.x)]), MatrixAdd(m.y, m.z)]


def _signs_alone(m: Matrices, wrong: bool) -> Sequence[Command]:
    lost = [CompressMatrix(m.one), DecompressMatrix(m.one)] if wrong else []
    return [AllocMatrix(m.one, zeroed=True), MatrixCopy(m.one, m.x), *lost, MatrixAdd(m.y, m.one)]


def _other_kernel(m: Matrices, wrong: bool) -> Sequence[Command]:
    both = [Propagate(kernel, "a", (source,), m.one) for kernel, source in ((_AFFINE, m.x), (_LIKE_AFFINE, m.z))]
    last = Propagate(_AFFINE if wrong else _LIKE_AFFINE, "a", (m.x,), m.y)
    return [AllocMatrix(m.one, zeroed=True), *both, last]


WRONG: dict[str, Body] = {
    "first writer after an addition": _first_writer,
    "undefined memory for zeros": _undefined_for_zeros,
    "dead memory": _dead_memory,
    "rows overwritten that are still read": _overlap,
    "wrong memo": _memo,
    "memo of another draw": _draw,
    "packed weights not written": _packed_weights,
    "swapped rows": _swapped_rows,
    "wrong scale": _scale,
    "term of a sum left out": _left_out,
    "signs in the place of values": _signs_alone,
    "kernel with equal promises": _other_kernel,
}


def program(body: Body, *, wrong: bool) -> NnetComputation:
    """Returns the right program or the wrong one."""
    m = Matrices()
    m.computation.inputs = [IoInfo("x", m.x, 0), IoInfo("z", m.z, 0)]
    m.computation.outputs = [IoInfo("y", m.y, 0)]
    m.computation.commands = [
        AllocMatrix(m.x, zeroed=False), AcceptInput(m.x, "x"), AllocMatrix(m.z, zeroed=False), AcceptInput(m.z, "z"),
        AllocMatrix(m.y, zeroed=True), *body(m, wrong), ProvideOutput(m.y, "y"),
    ]  # fmt: skip
    return m.computation
