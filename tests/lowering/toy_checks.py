"""Runs the program of a toy case, by the executor and by the slow interpreter, and compares it with autograd."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor

from nnet3.engine.ir import commands as cmd
from nnet3.engine.ir.checker import check_computation
from nnet3.engine.ir.computation import NnetComputation
from nnet3.engine.ir.passes.pipeline import optimize
from nnet3.engine.lowering.lower import lower
from nnet3.engine.runtime import NnetComputer
from tests.ir.interpreter import Interpreter
from tests.lowering.toy_operations import Affine
from tests.lowering.toy_requests import ToyCase


class Results(dict[str, Tensor]):
    """Outputs by name, `deriv of NAME` of inputs, gradients by the names of memory and kernels."""


def expected(case: ToyCase) -> Results:
    """By autograd; gradients come on top of what was there."""
    assert case.request is not None
    leaves = {name: tensor.clone().requires_grad_() for name, tensor in case.memory.items()}
    kernels = {each.name: each for each in case.graph.operations.values() if isinstance(each, Affine)}
    plain = {name: kernel.weight for name, kernel in kernels.items()}
    for kernel in kernels.values():
        kernel.weight = kernel.weight.clone().requires_grad_()
    oracle = case.oracle()
    oracle.memory = leaves
    outputs = {rows.name: oracle.output(rows) for rows in case.request.outputs}
    result = Results({name: value.detach() for name, value in outputs.items()})
    objective = sum(((outputs[name] * deriv).sum() for name, deriv in case.derivs.items()), torch.zeros(()))
    if case.request.needs_backward:
        rows_of = {rows.name: [case.given[rows.node][tuple(index)] for index in rows.indexes.tolist()]
                   for rows in case.request.inputs if rows.has_deriv}  # fmt: skip
        for name, rows in rows_of.items():
            result[f"deriv of {name}"] = torch.cat(_gradients(objective, rows))
        for node in case.graph.nodes:
            if node.gradient:
                result[node.gradient] = case.memory[node.gradient] + _gradients(objective, [leaves[node.memory]])[0]
        if case.request.need_model_derivative:
            for name, kernel in kernels.items():
                result[name] = _gradients(objective, [kernel.weight])[0]
    for name, kernel in kernels.items():
        kernel.weight = plain[name]
    return result


def _gradients(objective: Tensor, leaves: list[Tensor]) -> list[Tensor]:
    if objective.grad_fn is None:
        return [torch.zeros_like(leaf) for leaf in leaves]
    found = torch.autograd.grad(objective, leaves, retain_graph=True, allow_unused=True)
    return [torch.zeros_like(leaf) if one is None else one for one, leaf in zip(found, leaves, strict=True)]


def executed(case: ToyCase, computation: NnetComputation) -> Results:
    """By the executor."""
    assert case.request is not None
    kernels, gradients = _kernels(case)
    outside = {bound.name: case.memory[bound.name].clone() for bound in computation.outside}
    computer = NnetComputer(
        computation,
        SimpleNamespace(components=kernels),
        SimpleNamespace(components=gradients),
        dtype=torch.float64,
        outside=outside,
    )
    for rows in case.request.inputs:
        computer.accept_input(rows.name, case.given_rows(rows))
    computer.run()
    result = Results({rows.name: computer.get_output(rows.name).clone() for rows in case.request.outputs})
    if case.request.needs_backward:
        for name, deriv in case.derivs.items():
            computer.accept_input(name, deriv)
        computer.run()
    for rows in case.request.inputs:
        if rows.has_deriv:
            result[f"deriv of {rows.name}"] = computer.get_output(rows.name).clone()
    return _with_gradients(case, result, outside, gradients)


def interpreted(case: ToyCase, computation: NnetComputation) -> Results:
    """By the slow interpreter, whose memory is poisoned with NaN."""
    assert case.request is not None
    kernels, gradients = _kernels(case)
    given = {rows.name: case.given_rows(rows).numpy() for rows in case.request.inputs}
    given |= {name: deriv.numpy() for name, deriv in case.derivs.items()}
    outside = {bound.name: case.memory[bound.name].clone() for bound in computation.outside}
    arrays = {name: tensor.numpy() for name, tensor in outside.items()}
    machine = _TensorInterpreter(computation, kernels, gradients, given, arrays)
    found = machine.run()
    names = {rows.name for rows in case.request.outputs}
    result = Results()
    for name, value in found:
        result[name if name in names else f"deriv of {name}"] = torch.from_numpy(value)
    return _with_gradients(case, result, outside, gradients)


def _kernels(case: ToyCase) -> tuple[dict[str, Any], dict[str, Any]]:
    kernels = {each.name: each for each in case.graph.operations.values()}
    return kernels, {name: each.gradient() for name, each in kernels.items()}


def _with_gradients(case: ToyCase, result: Results, outside: dict[str, Tensor], gradients: dict[str, Any]) -> Results:
    assert case.request is not None
    if case.request.needs_backward:
        for node in case.graph.nodes:
            if node.gradient:
                result[node.gradient] = outside.get(node.gradient, case.memory[node.gradient])
        if case.request.need_model_derivative:
            result.update({name: kernel.weight for name, kernel in gradients.items() if isinstance(kernel, Affine)})
    return result


class _TensorInterpreter(Interpreter):
    """Runs kernels on tensors, as the executor does."""

    def __init__(self, computation: NnetComputation, kernels: dict[str, Any], gradients: dict[str, Any], *more: Any):
        super().__init__(computation, kernels, *more)
        self.gradients = gradients
        self.loaded: dict[tuple[str, int], Any] = {}

    def tensor(self, submatrix: int) -> Tensor:
        return torch.from_numpy(self.view(submatrix)) if submatrix else torch.zeros(0, 0, dtype=torch.float64)

    def indexes(self, name: str, number: int) -> Any:
        arrays = self.computation.precomputed[number]
        return None if arrays is None else self.kernels[name].load_indexes(arrays, torch.device("cpu"))  # type: ignore[attr-defined]

    def do_Propagate(self, c: cmd.Propagate) -> None:
        name = self.computation.kernels[c.kernel].name
        inputs = [self.tensor(number) for number in c.inputs]
        memo = self.kernels[name].run_forward(inputs, self.tensor(c.output), self.indexes(name, c.precomputed))  # type: ignore[attr-defined]
        if c.memo >= 0:
            self.memos[c.memo] = memo

    def do_Backprop(self, c: cmd.Backprop) -> None:
        name = self.computation.kernels[c.kernel].name
        derivs = [self.tensor(w or a) if w or a else None for w, a in zip(c.input_derivs, c.added_derivs, strict=True)]
        self.kernels[name].run_backward(  # type: ignore[attr-defined]
            [self.tensor(number) for number in c.inputs],
            self.tensor(c.output),
            self.tensor(c.output_deriv),
            self.memos.get(c.memo),
            self.gradients.get(name) if c.update else None,
            derivs,
            [bool(a) for a in c.added_derivs],
            self.indexes(name, c.precomputed),
        )


def assert_close(got: Results, want: Results, what: str) -> None:
    assert got.keys() == want.keys(), f"{what}: {sorted(got)}, expected {sorted(want)}"
    for name, tensor in want.items():
        assert torch.allclose(got[name], tensor, rtol=1e-10, atol=1e-10), (
            f"{what}: {name} is\n{got[name]}\nexpected\n{tensor}"
        )


def check_case(case: ToyCase) -> None:
    """All programs of the case, by both machines, agree with autograd."""
    assert case.request is not None
    want = expected(case)
    plain = lower(case.graph, case.request)
    check_computation(plain)
    optimized = optimize(plain, check_between=True)
    for name, program in (("plain", plain), ("optimized", optimized)):
        assert_close(interpreted(case, program), want, f"{name}, interpreted, {case!r}")
        assert_close(executed(case, program), want, f"{name}, executed, {case!r}")
