"""Small computations, as a compiler would write them, for tests of what prints, checks, analyses and rewrites them."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from nnet3.engine.ir.commands import (
    AcceptInput,
    AddRows,
    AllocMatrix,
    Backprop,
    Command,
    DeallocMatrix,
    MatrixAdd,
    Propagate,
    ProvideOutput,
    SegmentMarker,
)
from nnet3.engine.ir.computation import NnetComputation
from nnet3.engine.ir.declarations import COMMAND_CLASSES
from nnet3.engine.ir.program_tables import IoInfo, MatrixInfo
from tests.ir.interpreter import Array, Interpreter
from tests.ir.toy_kernels import AFFINE, DIM, KERNELS, SIGMOID, new_kernels


def command_types() -> set[type[Command]]:
    """Every kind of command there is."""
    return {c for c in COMMAND_CLASSES.values() if c.__module__.startswith("nnet3.")}


def lines(computation: NnetComputation) -> list[str]:
    """The printed commands, without numbers."""
    return [command.text(computation) for command in computation.commands]


def node_matrix(c: NnetComputation, node: str, rows: int, *, is_deriv: bool = False, cols: int = DIM) -> int:
    """A matrix whose rows are times 0, 1, ... of one sequence."""
    indexes = np.zeros((rows, 3), dtype=np.int32)
    indexes[:, 1] = np.arange(rows)
    return c.new_matrix(rows, cols, MatrixInfo(node, is_deriv, indexes))


def index_table(c: NnetComputation, rows: list[int]) -> int:
    return c.new_index_table(np.array(rows, dtype=np.int32))


def multi_table(c: NnetComputation, pairs: list[tuple[int, int]]) -> int:
    return c.new_multi_table(np.array(pairs, dtype=np.int32).reshape(-1, 2))


def range_table(c: NnetComputation, ranges: list[tuple[int, int]]) -> int:
    return c.new_range_table(np.array(ranges, dtype=np.int32).reshape(-1, 2))


def training_step(rows: int = 4) -> NnetComputation:
    """input -> (two rows later) -> affine -> sigmoid -> output, with derivatives and a model update."""
    c = NnetComputation(kernels=list(KERNELS), need_model_derivative=True)
    x, x_deriv = node_matrix(c, "input", rows + 2), node_matrix(c, "input", rows + 2, is_deriv=True)
    names = ("affine_input", "affine", "sigmoid", "output")
    spliced, hidden, y, out = (node_matrix(c, name, rows) for name in names)
    spliced_d, hidden_d, y_d, out_d = (node_matrix(c, name, rows, is_deriv=True) for name in names)
    owned = [x, x_deriv, spliced, hidden, y, out, spliced_d, hidden_d, y_d, out_d]
    c.inputs, c.outputs = [IoInfo("input", x, x_deriv)], [IoInfo("output", out, out_d)]
    later = index_table(c, list(range(2, rows + 2)))
    back = index_table(c, [-1, -1, *range(rows)])
    c.commands = [
        *(AllocMatrix(m, zeroed=True) for m in owned),
        AcceptInput(x, "input"),
        AddRows(spliced, x, later),
        Propagate(AFFINE, "affine", (spliced,), hidden),
        Propagate(SIGMOID, "sigmoid", (hidden,), y),
        MatrixAdd(out, y),
        ProvideOutput(out, "output"),
        SegmentMarker(),
        AcceptInput(out_d, "output"),
        MatrixAdd(y_d, out_d),
        Backprop(SIGMOID, "sigmoid", (0,), y, y_d, (hidden_d,), (0,), update=True),
        Backprop(AFFINE, "affine", (spliced,), 0, hidden_d, (spliced_d,), (0,), update=True),
        AddRows(x_deriv, spliced_d, back),
        ProvideOutput(x_deriv, "input"),
        *(DeallocMatrix(m) for m in owned),
    ]
    return c


def recurrence(steps: int, rows: int = 2) -> NnetComputation:
    """h(t) = sigmoid(affine(h(t-1)) + x(t)): `rows` rows a step, all steps of a node in one matrix."""
    c = NnetComputation(kernels=list(KERNELS), need_model_derivative=True)
    names = ("input", "recurrent", "sum", "h")
    x, r, s, h = (node_matrix(c, name, steps * rows) for name in names)
    x_d, r_d, s_d, h_d = (node_matrix(c, name, steps * rows, is_deriv=True) for name in names)
    out, out_d = node_matrix(c, "output", steps * rows), node_matrix(c, "output", steps * rows, is_deriv=True)
    owned = [x, r, s, h, x_d, r_d, s_d, h_d, out, out_d]
    c.inputs, c.outputs = [IoInfo("input", x, x_d)], [IoInfo("output", out, out_d)]

    def at(matrix: int, t: int) -> int:
        return c.new_submatrix(matrix, t * rows, rows)

    forward: list[Command] = []
    backward: list[Command] = []
    for t in range(steps):
        if t > 0:
            forward += [Propagate(AFFINE, "affine", (at(h, t - 1),), at(r, t)), MatrixAdd(at(s, t), at(r, t))]
        forward += [MatrixAdd(at(s, t), at(x, t)), Propagate(SIGMOID, "sigmoid", (at(s, t),), at(h, t))]
        step: list[Command] = [Backprop(SIGMOID, "h", (0,), at(h, t), at(h_d, t), (at(s_d, t),), (0,), update=True)]
        step += [MatrixAdd(at(x_d, t), at(s_d, t))]
        if t > 0:
            scratch = c.new_matrix(rows, DIM)
            piece = Backprop(AFFINE, "recurrent", (at(h, t - 1),), 0, at(r_d, t), (scratch,), (0,), update=True)
            step += [MatrixAdd(at(r_d, t), at(s_d, t)), AllocMatrix(scratch, zeroed=True), piece]
            step += [MatrixAdd(at(h_d, t - 1), scratch), DeallocMatrix(scratch)]
        backward = step + backward
    c.commands = [
        *(AllocMatrix(m, zeroed=True) for m in owned),
        AcceptInput(x, "input"),
        *forward,
        MatrixAdd(out, h),
        ProvideOutput(out, "output"),
        SegmentMarker(),
        AcceptInput(out_d, "output"),
        MatrixAdd(h_d, out_d),
        *backward,
        ProvideOutput(x_d, "input"),
        *(DeallocMatrix(m) for m in owned),
    ]
    return c


class Result:
    """What came out of a run: outputs in order, gradients, statistics, and how often each kernel was updated."""

    def __init__(self, computation: NnetComputation, given: Mapping[str, Array], outside: Mapping[str, Array]):
        kernels = new_kernels()
        self.outside = {name: array.copy() for name, array in outside.items()}
        interpreter = Interpreter(computation, kernels, given, self.outside)
        self.outputs = interpreter.run()
        self.stats = interpreter.stats
        self.peak_elements = interpreter.peak_elements
        self.gradients = {name: kernel.gradient for name, kernel in kernels.items() if hasattr(kernel, "gradient")}
        self.update_rows = {n: kernel.update_rows for n, kernel in kernels.items() if hasattr(kernel, "update_rows")}

    def check_equals(self, other: Result) -> None:
        assert [name for name, _ in self.outputs] == [name for name, _ in other.outputs]
        for pairs in (self.outputs, self.stats):
            assert all(np.isfinite(value).all() for _, value in pairs), "something undefined came out"
        for (name, mine), (_, its) in zip(self.outputs, other.outputs, strict=True):
            np.testing.assert_allclose(mine, its, rtol=1e-12, atol=1e-12, err_msg=name)
        for (name, mine), (_, its) in zip(self.stats, other.stats, strict=True):
            np.testing.assert_allclose(mine, its, rtol=1e-12, atol=1e-12, err_msg=f"statistics of {name}")
        for name, array in self.outside.items():
            np.testing.assert_allclose(array, other.outside[name], rtol=1e-11, atol=1e-11, err_msg=name)
        for name, gradient in self.gradients.items():
            np.testing.assert_allclose(
                gradient, other.gradients[name], rtol=1e-11, atol=1e-11, err_msg=f"gradient of {name}"
            )


def run(computation: NnetComputation, seed: int = 0) -> Result:
    """Run on random input: what is accepted under a name has the size of the first command that accepts it."""
    rng = np.random.default_rng(seed)
    given: dict[str, Array] = {}
    for command in computation.commands:
        if isinstance(command, AcceptInput) and command.name not in given:
            s = computation.submatrices[command.dest]
            given[command.name] = rng.standard_normal((s.num_rows, s.num_cols))
    sizes = {bound.name: computation.submatrices[bound.submatrix] for bound in computation.outside}
    outside = {name: rng.standard_normal((s.num_rows, s.num_cols)) for name, s in sizes.items()}
    return Result(computation, given, outside)
