"""A TDNN-F in onnxruntime: our files beside torch.onnx.export of the same net hand-written, and our executor.

python -m benchmarks.export [--sequences 1] [--frames 50] [--rounds 15] [--small]
"""

from __future__ import annotations

import io
import time
import warnings
from collections.abc import Callable
from contextlib import redirect_stdout
from pathlib import Path
from tempfile import TemporaryDirectory

import click
import numpy as np
import torch
from rich.console import Console
from rich.table import Table

import nnet3
from benchmarks.tdnnf_network import TdnnfTwin, tdnnf_config
from nnet3.export.agreement import session_of


def trained_network(*, small: bool) -> nnet3.Nnet:
    """Returns a network with batch-norm statistics of random frames."""
    nnet = nnet3.Nnet.from_config(tdnnf_config(256, 64, 200) if small else tdnnf_config())
    random = torch.Generator().manual_seed(1)
    for component in nnet.components.values():
        if component.has_running_statistics:
            x = torch.randn(200, component.input_dim, generator=random).relu_()
            y, memo = component.propagate(x)
            component.store_stats(x, y, memo)
    return nnet.in_test_mode()


def twin_of(nnet: nnet3.Nnet) -> TdnnfTwin:
    """Returns the network hand-written, in test mode."""
    twin = TdnnfTwin(nnet)
    norms = [component for component in nnet.components.values() if component.has_running_statistics]
    for ours, theirs in zip(norms, twin.norms, strict=True):
        theirs.running_mean.copy_(ours.stats_mean)  # type: ignore[attr-defined, operator, union-attr]
        theirs.running_var.copy_(ours.stats_var)  # type: ignore[attr-defined, operator, union-attr]
    return twin.eval()


def export_twin(twin: TdnnfTwin, path: Path, x: torch.Tensor) -> None:
    with warnings.catch_warnings(), redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        torch.onnx.export(
            twin, (x,), str(path), input_names=["x"], output_names=["y"], dynamo=True, external_data=False
        )


def median_seconds(works: list[Callable[[], object]], rounds: int) -> list[float]:
    """Returns the median time of each; they take turns."""
    seconds = np.zeros((rounds, len(works)))
    for work in works:
        work()
    for times in seconds:
        for number, work in enumerate(works):
            start = time.perf_counter()
            work()
            times[number] = time.perf_counter() - start
    return np.median(seconds, axis=0).tolist()


def measure(sequences: int, frames: int, rounds: int, folder: Path, *, small: bool) -> Table:
    nnet = trained_network(small=small)
    twin, context = twin_of(nnet), (nnet.left_context, nnet.right_context)
    random = np.random.default_rng(1)
    chunks = random.standard_normal((sequences, frames + sum(context), 40)).astype(np.float32)
    inner = np.ascontiguousarray(chunks[:, context[0] : context[0] + frames])
    x = torch.from_numpy(chunks).transpose(1, 2).contiguous()
    export_twin(twin, folder / "twin.onnx", x)
    names, works, sizes = ["torch.onnx.export, hand-written"], [], [(folder / "twin.onnx").stat().st_size]
    session = session_of(folder / "twin.onnx")
    works.append(lambda: session.run(None, {"x": x.numpy()})[0])
    expected = works[0]().transpose(0, 2, 1)
    for form, quantize in (("chunk", "none"), ("any length", "none"), ("chunk", "int8"), ("chunk", "fp16")):
        path = folder / f"{form}.{quantize}.onnx"
        about = nnet3.export_onnx(nnet, path, frames_per_chunk=frames if form == "chunk" else 0, quantize=quantize)
        given = chunks if form == "chunk" else inner
        run = session_of(path).run
        works.append(lambda run=run, given=given: run(["output"], {"input": given})[0])
        names.append(f"nnet3, {form}" + (f", {quantize}, error {about.error:.1g}" if quantize != "none" else ""))
        sizes.append(path.stat().st_size)
        if (form, quantize) == ("chunk", "none"):
            error = float(np.linalg.norm(works[-1]() - expected) / np.linalg.norm(expected))
            assert error < 1e-4, f"the hand-written network computes something else: relative difference {error:.1e}"
    names.append("nnet3's executor, chunk")
    sizes.append(0)
    works.append(_executor(nnet, chunks, frames))
    seconds = median_seconds(works, rounds)
    table = Table(title=f"TDNN-F, {sequences} x {frames} output frames, onnxruntime, 1 thread", box=None)
    for column in ("what", "file (MB)", "run (s)", "ratio"):
        table.add_column(column, justify="left" if column == "what" else "right")
    for name, size, each in zip(names, sizes, seconds, strict=True):
        table.add_row(name, f"{size / 1e6:.1f}" if size else "", f"{each:.4f}", f"{each / seconds[0]:.2f}")
    return table


def _executor(nnet: nnet3.Nnet, chunks: np.ndarray, frames: int) -> Callable[[], object]:
    def at(first: int, last: int) -> list[tuple[int, int, int]]:
        return [(n, t, 0) for t in range(first, last) for n in range(len(chunks))]

    left = nnet.left_context
    inputs = [nnet3.IoSpecification("input", at(-left, chunks.shape[1] - left))]
    outputs = [nnet3.IoSpecification("output", at(0, frames))]
    computer = nnet3.NnetComputer(nnet3.compile(nnet, nnet3.ComputationRequest(inputs, outputs)), nnet)
    rows = torch.from_numpy(chunks.transpose(1, 0, 2).reshape(-1, chunks.shape[2]).copy())

    def run() -> torch.Tensor:
        computer.accept_input("input", rows)
        computer.run()
        return computer.get_output("output")

    return run


@click.command()
@click.option("--sequences", default=1)
@click.option("--frames", default=50)
@click.option("--rounds", default=15)
@click.option("--small", is_flag=True)
def main(sequences: int, frames: int, rounds: int, small: bool) -> None:
    torch.set_num_threads(1)
    with TemporaryDirectory() as folder:
        Console().print(measure(sequences, frames, rounds, Path(folder), small=small))


if __name__ == "__main__":
    main()
