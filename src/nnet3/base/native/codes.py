"""The codes of native operations and instructions: the library is compiled with these lists, in their order."""

from __future__ import annotations

import enum

NUM_MATRICES = 6  # of an operation on matrices
BYTES = 8 * (5 + 2 * NUM_MATRICES)  # of an operation


class Code(enum.IntEnum):
    """Operations on matrices, see operations.c."""

    COPY = 0
    FILL = enum.auto()
    ADD = enum.auto()
    SCALE = enum.auto()
    MULTIPLY = enum.auto()
    SIGMOID = enum.auto()
    TANH = enum.auto()
    RELU = enum.auto()
    NORMALIZE = enum.auto()
    PRODUCT = enum.auto()
    LSTM = enum.auto()
    GRU = enum.auto()
    SIGMOID_BACK = enum.auto()
    TANH_BACK = enum.auto()
    RELU_BACK = enum.auto()
    SUM_ROWS = enum.auto()
    COMBINE = enum.auto()
    PACK = enum.auto()
    PANELS = enum.auto()


class Instruction(enum.IntEnum):
    """Operations on elements of the finite field of proofs, see elements.c."""

    COPY = 0
    ADD = enum.auto()
    MULTIPLY = enum.auto()
    COMBINE = enum.auto()
    HASH = enum.auto()
    TOTAL = enum.auto()
    RANDOM = enum.auto()
    SIGNS = enum.auto()
    ZERO_OR = enum.auto()
    TAKE = enum.auto()
    SEND = enum.auto()
    RANGES = enum.auto()


#: What the compiler is told: the names as NNET3_CODES and NNET3_INSTRUCTIONS, for the enumerations of C.
DEFINITIONS = f"-DNNET3_CODES={','.join(Code.__members__)}", f"-DNNET3_INSTRUCTIONS={','.join(Instruction.__members__)}"
