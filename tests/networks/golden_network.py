"""One golden network: its request, its data, and what this package makes of them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TypedDict

import numpy as np
import torch

import nnet3
from nnet3.engine.ir.computation import NnetComputation
from tests.device import DEVICE


@dataclass
class Agreement:
    """Bounds of golden/README.md, as relative Frobenius errors."""

    output: float
    deriv: float
    update: float
    cosine: float


BOUNDS = {
    "random": Agreement(1e-5, 1e-5, 2e-3, 0.9999),
    "recipe": Agreement(1e-4, 1e-3, 2e-3, 0.9999),
}
ROUNDING = 8 * 6e-8  # a difference below this many times the parameters carries no information


class _Entry(TypedDict):
    """An input or output of request.json."""

    name: str
    indexes: list[list[int]]
    has_deriv: bool


def read_request(folder: Path) -> nnet3.ComputationRequest:
    spec = json.loads((folder / "request.json").read_text())

    def ios(entries: list[_Entry]) -> list[nnet3.IoSpecification]:
        return [nnet3.IoSpecification(e["name"], e["indexes"], e["has_deriv"]) for e in entries]

    return nnet3.ComputationRequest(
        ios(spec["inputs"]), ios(spec["outputs"]), spec["need_model_derivative"], spec["store_component_stats"]
    )


@dataclass
class Run:
    outputs: dict[str, torch.Tensor]
    input_derivs: dict[str, torch.Tensor]


def run_case(folder: Path, nnet: nnet3.Nnet, nnet_to_update: nnet3.Nnet, options: nnet3.CompileOptions) -> Run:
    """Forward and backward on the case's data, by a program compiled for it."""
    return run_program(folder, nnet, nnet_to_update, nnet3.compile(nnet, read_request(folder), options))


def run_program(folder: Path, nnet: nnet3.Nnet, nnet_to_update: nnet3.Nnet, computation: NnetComputation) -> Run:
    """Forward and backward on the case's data."""
    request = read_request(folder)
    computer = nnet3.NnetComputer(computation, nnet, nnet_to_update, device=DEVICE)
    with np.load(folder / "arrays.npz") as arrays:
        for io in request.inputs:
            computer.accept_input(io.name, arrays[f"input_{io.name}"])
        computer.run()
        outputs = {io.name: computer.get_output(io.name).clone() for io in request.outputs}
        for io in request.outputs:
            if io.has_deriv:
                computer.accept_input(io.name, arrays[f"output_deriv_{io.name}"])
    computer.run()
    derivs = {io.name: computer.get_output(io.name).clone() for io in request.inputs if io.has_deriv}
    return Run(outputs, derivs)


def relative_error(got: torch.Tensor, want: np.ndarray | torch.Tensor) -> float:
    want = torch.as_tensor(want).double().cpu()
    difference = (got.cpu().double() - want).norm()
    return float(difference / want.norm()) if want.norm() > 0 else float(difference)


def check_run(folder: Path, run: Run, bounds: Agreement) -> None:
    """Outputs and input derivatives agree with Kaldi's."""
    with np.load(folder / "arrays.npz") as arrays:
        for name, output in run.outputs.items():
            assert relative_error(output, arrays[f"output_{name}"]) < bounds.output, f"output {name}"
        for name, deriv in run.input_derivs.items():
            assert relative_error(deriv, arrays[f"input_deriv_{name}"]) < bounds.deriv, f"derivative of input {name}"


def check_gradient(nnet: nnet3.Nnet, want: nnet3.Nnet, bounds: Agreement) -> None:
    """Plain gradients agree; `nnet` and `want` are gradient copies."""
    for name, component in want.components.items():
        got = nnet.components[name].parameters()
        for key, tensor in component.parameters().items():
            assert relative_error(got[key], tensor) < bounds.deriv, f"gradient of {name} {key}"


def check_update(before: nnet3.Nnet, after: nnet3.Nnet, want: nnet3.Nnet, bounds: Agreement) -> int:
    """The changes of the parameters agree, or differ by rounding only; returns how many tensors were compared."""
    compared = 0
    for name, component in want.components.items():
        start, got = before.components[name].parameters(), after.components[name].parameters()
        for key, tensor in component.parameters().items():
            compared += 1
            change = (tensor.double() - start[key].double()).flatten()
            mine = (got[key].double() - start[key].double()).flatten()
            if (mine - change).norm() <= ROUNDING * start[key].double().norm():
                continue
            assert relative_error(mine, change) < bounds.update, f"update of {name} {key}"
            cosine = float(mine @ change / (mine.norm() * change.norm()))
            assert cosine > bounds.cosine, f"direction of the update of {name} {key}"
    return compared
