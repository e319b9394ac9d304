"""What the page measures: each case runs in a process of its own, with its number of threads, and prints JSON.

python -m benchmarks.page.cases forward tdnnf 16 50 --threads 1 --seconds 10
"""

from __future__ import annotations

import io
import json
import os
import tempfile
import warnings
from collections.abc import Callable
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import click
import numpy as np
import onnxruntime
import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

import nnet3
from benchmarks.cn_training import CASES as GRAPHS
from benchmarks.compile import FACTOR, Case, read_network, request_for
from benchmarks.page import timing
from benchmarks.page.twins import TWINS, Recurrent, Twin
from nnet3.model.edits import prepare_for_test

AGREEMENT, EXACT = 1e-3, 1e-6  # relative differences: of outputs in float32, of gradients in float64
BENCH = Path("../shared/golden/bench")
CPU = torch.device("cpu")


def network_of(folder: Path, *, train: bool) -> tuple[nnet3.Nnet, nnet3.Nnet]:
    """The network as it is run here, and that of the twin's weights; where recipes begin with zeros are numbers."""
    nnet, generator = read_network(folder, train=True), torch.Generator().manual_seed(0)
    for component in nnet.components.values():
        for value in component.parameters().values():
            if not value.any():
                value.normal_(std=0.05, generator=generator)
        if component.has_running_statistics and not train:
            x = torch.randn(400, component.input_dim, generator=generator).relu_()
            y, memo = component.propagate(x)
            component.store_stats(x, y, memo)
    if train:
        return nnet, nnet
    original = nnet.in_test_mode()
    merged = original.copy()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        prepare_for_test(merged)
    return merged, original


class Given:
    """Random inputs of a case, for the program and for the twin."""

    def __init__(self, nnet: nnet3.Nnet, case: Case) -> None:
        self.request = request_for(nnet, case)
        self.matrices = {io.name: torch.randn(len(io.indexes), nnet.node_dim(io.name)) for io in self.request.inputs}
        x = self.matrices["input"].view(-1, case.sequences, nnet.node_dim("input"))
        needed = nnet.left_context + FACTOR * (case.frames - 1) + 1 + nnet.right_context
        self.x, self.ivector = x[:needed].contiguous(), self.matrices["ivector"]
        self.derivative = torch.randn(len(self.request.outputs[0].indexes), nnet.node_dim("output")) / 100

    def to(self, device: torch.device, dtype: torch.dtype) -> None:
        """Move all matrices, in a type."""
        self.matrices = {name: matrix.to(device, dtype) for name, matrix in self.matrices.items()}
        self.x, self.ivector = self.x.to(device, dtype), self.ivector.to(device, dtype)
        self.derivative = self.derivative.to(device, dtype)


def close(found: Tensor, expected: Tensor, bound: float, what: str) -> float:
    """The relative difference. Raises ValueError if it is above the bound."""
    error = float((found - expected).norm() / expected.norm())
    if not error <= bound:
        raise ValueError(f"{what} of PyTorch is something else: relative difference {error:.1e}")
    return error


def forward(case: Case, folder: Path, seconds: float, *, quick: bool) -> dict[str, Any]:
    nnet, original = network_of(folder, train=False)
    given, twin = Given(nnet, case), TWINS[case.name](original).eval()
    ours = running(nnet, given)
    works: dict[str, timing.Work] = {"ours": ours, "PyTorch": lambda: twin(given.x, given.ivector)}
    with torch.no_grad():
        expected = twin(given.x, given.ivector)
        error = close(ours().view_as(expected), expected, AGREEMENT, "the output")
        with FlopCounterMode(display=False) as counter:
            twin(given.x, given.ivector)
        notes = dict[str, str]()
        with tempfile.TemporaryDirectory() as name:
            add(works, notes, expected, "packed", lambda: running(nnet.pack(many_rows=case.sequences > 1), given))
            if not quick:
                add(works, notes, expected, "torch.compile", lambda: compiled(twin, given))
            if case.name == "tdnnf" or not quick:
                add(works, notes, expected, "onnxruntime", lambda: by_onnxruntime(original, case, given, Path(name)))
            if case.name == "tdnnf" and torch.get_num_threads() == 1 and not quick:
                add(works, notes, expected, "onnxruntime, PyTorch's file", lambda: exported(twin, given, Path(name)))
            times = timing.in_turns(works, seconds)
    return {"times": times, "error": error, "flops": counter.get_total_flops(), "notes": notes}


def running(nnet: nnet3.Nnet, given: Given, device: torch.device = CPU) -> Callable[[], Tensor]:
    """Returns what computes the output of a network, whose program is made and linked before."""
    computer = nnet3.NnetComputer(nnet3.compile(nnet, given.request), nnet, device=device, check_finite=False)

    def run() -> Tensor:
        for name, matrix in given.matrices.items():
            computer.accept_input(name, matrix)
        computer.run()
        return computer.get_output("output")

    return run


def add(
    works: dict[str, timing.Work],
    notes: dict[str, str],
    expected: Tensor,
    name: str,
    make: Callable[[], Callable[[], Tensor | np.ndarray]],
) -> None:
    """Adds a work that gives what is expected, or notes why there is none."""
    try:
        works[name] = work = make()
        close(torch.as_tensor(work()).view_as(expected), expected, AGREEMENT, "the output")
    except Exception as error:
        works.pop(name, None)
        notes[name] = f"{type(error).__name__}: {str(error).splitlines()[0][:120]}"


def compiled(twin: Twin, given: Given) -> timing.Work:
    """The whole network compiled; of recurrent ones, whose loops would be unrolled, what an element of a cell takes."""
    if not isinstance(twin, Recurrent):
        whole = torch.compile(twin)
        return lambda: whole(given.x, given.ivector)
    other = type(twin).__new__(type(twin))
    other.__dict__ = dict(twin.__dict__)
    other.lstm_cell, other.gru_cell = torch.compile(twin.lstm_cell), torch.compile(twin.gru_cell)
    return lambda: other(given.x, given.ivector)


def session_of(path: Path) -> onnxruntime.InferenceSession:
    """A session with as many threads as PyTorch has."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = torch.get_num_threads(), 1
    options.log_severity_level = 3
    options.add_session_config_entry("session.force_spinning_stop", "1")  # whose turn is next has all cores
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def by_onnxruntime(nnet: nnet3.Nnet, case: Case, given: Given, folder: Path) -> timing.Work:
    """The file that this project writes."""
    path = folder / "ours.onnx"
    nnet3.export_onnx(nnet, path, frames_per_chunk=FACTOR * case.frames, frame_subsampling_factor=FACTOR)
    session = session_of(path)
    frames = {each.name: each.shape for each in session.get_inputs()}["input"][1]
    fed = {"input": given.x[:frames].transpose(0, 1).contiguous().numpy(), "ivector": given.ivector.numpy()}
    return lambda: np.ascontiguousarray(session.run(["output"], fed)[0].swapaxes(0, 1))


def exported(twin: Twin, given: Given, folder: Path) -> timing.Work:
    """The file that torch.onnx.export writes of the twin."""
    path = folder / "twin.onnx"
    with warnings.catch_warnings(), redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        names = {"input_names": ["x", "ivector"], "output_names": ["y"]}
        torch.onnx.export(twin, (given.x, given.ivector), str(path), dynamo=True, external_data=False, **names)
    run = session_of(path).run
    fed = {"x": given.x.numpy(), "ivector": given.ivector.numpy()}
    return lambda: run(None, fed)[0]


class Trained:
    """Training steps of a network: ours with plain and with natural gradient, and the twin's."""

    def __init__(
        self,
        case: Case,
        folder: Path,
        dtype: torch.dtype = torch.float32,
        device: torch.device = CPU,
    ) -> None:
        self.nnet, _ = network_of(folder, train=True)
        self.given, self.twin = Given(self.nnet, case), TWINS[case.name](self.nnet).to(device, dtype).train()
        self.nnet.to(dtype=dtype, device=device)
        self.given.to(device, dtype)
        self.device = device
        self.computation = nnet3.compile(self.nnet, self.given.request)
        self.targets: dict[str, nnet3.Nnet] = {}

    def ours(self, *, natural: bool) -> timing.Work:
        target = self.nnet.copy() if natural else self.nnet.gradient_copy()
        self.targets["natural" if natural else "plain"] = target
        computer = nnet3.NnetComputer(
            *(self.computation, self.nnet, target),
            device=self.device,
            nnet_to_store_stats=target,
            check_finite=False,
        )

        def step() -> None:
            for name, matrix in self.given.matrices.items():
                computer.accept_input(name, matrix)
            computer.run()
            computer.get_output("output")
            computer.accept_input("output", self.given.derivative)
            computer.run()

        return step

    def theirs(self) -> None:
        self.step_of(self.twin)

    def step_of(self, twin: torch.nn.Module) -> None:
        """A training step of the twin, or of what compiled it."""
        twin.zero_grad(set_to_none=True)
        output = twin(self.given.x, self.given.ivector)
        output.backward(self.given.derivative.view_as(output))

    def compare(self) -> float:
        """The largest relative difference of a gradient, without self-repair. Raises ValueError if it is large."""
        for component in self.nnet.components.values():
            if hasattr(component, "self_repair_scale"):
                component.self_repair_scale = 0.0
            if hasattr(component, "self_repair_config"):  # five thresholds, five scales
                component.self_repair_config[5:] = 0.0
        self.ours(natural=False)()
        self.theirs()
        worst = 0.0
        for name, component in self.targets["plain"].components.items():
            for key, gradient in component.parameters().items():
                held = self.twin.biases if key == "bias_params" else self.twin.weights
                expected = held[name.replace(".", "_")].grad if gradient.numel() else None
                if expected is not None and expected.norm() > 0:
                    worst = max(worst, close(gradient, expected, EXACT, f"the gradient of {name}"))
        return worst


def training(case: Case, folder: Path, seconds: float) -> dict[str, Any]:
    error = Trained(case._replace(sequences=3, frames=12), folder, torch.float64).compare()
    made = Trained(case, folder)
    works = {"ours": made.ours(natural=False), "PyTorch": made.theirs, "natural gradient": made.ours(natural=True)}
    for _ in range(10):  # the first minibatches of natural gradient cost more, then every fourth one
        works["natural gradient"]()
    times = timing.in_turns(works, seconds, least_rounds=4, most_rounds=40, period=4)
    return {"times": times, "error": error}


def memory(case: Case, folder: Path, who: str) -> dict[str, Any]:
    """The most memory beyond the parameters that two training steps take; the gradients count."""
    made = Trained(case, folder)
    before = timing.memory_now()
    peak = timing.peak_memory_of(made.theirs if who == "PyTorch" else made.ours(natural=False), before)
    return {"peak": peak}


def graph(name: str, seconds: float) -> dict[str, Any]:
    """A computational network beside PyTorch: forward and gradient."""
    return {"times": timing.in_turns(GRAPHS[name](np.random.default_rng(0)), seconds, most_rounds=2000)}


@click.command()
@click.argument("what", type=click.Choice(["forward", "training", "memory", "graph", "machine"]))
@click.argument("name", default="")
@click.argument("sequences", default=1)
@click.argument("frames", default=50)
@click.option("--who", default="ours", help="of memory: ours or PyTorch")
@click.option("--threads", default=1, show_default=True)
@click.option("--seconds", default=10.0, show_default=True, help="of measuring")
@click.option("--quick", is_flag=True, help="without what takes long to prepare")
@click.option("--folder", type=click.Path(path_type=Path), default=BENCH, show_default=True)
def main(what: str, name: str, sequences: int, frames: int, who: str, threads: int, seconds: float, quick: bool,
         folder: Path) -> None:  # fmt: skip
    """Measure one case."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads])
    torch.set_num_threads(threads)
    torch.manual_seed(0)
    case, place = Case(name, sequences, frames, what != "forward"), folder.resolve() / name
    found: dict[str, Any]
    if what == "forward":
        found = forward(case, place, seconds, quick=quick)
    elif what == "training":
        found = training(case, place, seconds)
    elif what == "memory":
        found = memory(case, place, who)
    elif what == "graph":
        found = graph(name, seconds)
    else:
        found = {"gflops": timing.peak_gflops(seconds), "gigabytes": timing.gigabytes_per_second(seconds)}
    click.echo(json.dumps(found))


if __name__ == "__main__":
    main()
