"""Everything that a GPU is asked, in eight minutes: `make gpu`, which writes docs/gpu.md.

Golden networks and training runs of the tests on the device; then the networks of `golden/bench` at full width beside
the same networks in PyTorch, as it is and by `torch.compile`: forward passes and training steps of 1, 16 and 128
sequences in float32 (TF32 off and on) and bfloat16, the cost of natural gradient, the chain objective,
`BatchComputer`, and the share of the roofline. A row without time left says so. `--device=cpu --small` tries the
script without a GPU.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import click
import numpy as np
import torch

import nnet3
from benchmarks.chain import make_graph, make_supervision
from benchmarks.compile import FACTOR, Case
from benchmarks.page.cases import Given, Trained, add, compiled, network_of, running
from benchmarks.page.timing import Work, in_turns
from benchmarks.page.twins import TWINS
from nnet3.chain import ChainOptions, Denominator, chain_value

ROOT = Path(__file__).resolve().parents[1]
_TESTS = ("tests/networks", "tests/train/test_golden_train.py", "tests/chain/test_golden_runs.py", "tests/inference")
_SEQUENCES = 1, 16, 128
_FRAMES = 50  # of output, for 150 of input
_WANTED = {"training / eager": 0.9, "training / compiled": 1.0, "share of the roofline": 0.5}


@dataclass
class Budget:
    """The seconds that are left, and how many one measurement may take."""

    total: float
    each: float
    compiles: bool  # whether there is time for torch.compile at all
    start: float = field(default_factory=time.monotonic)

    @property
    def left(self) -> float:
        return self.total - (time.monotonic() - self.start)


@dataclass(frozen=True)
class Machine:
    """What the device can do at most."""

    name: str
    flops: dict[str, float]  # per second, by precision
    bytes_per_second: float

    def roofline(self, precision: str, flops: float, num_bytes: float) -> float:
        """Returns the least seconds that so many operations on so much memory can take."""
        return max(flops / self.flops[precision], num_bytes / self.bytes_per_second)


def synchronized(work: Work, device: torch.device) -> Work:
    """Returns work that ends when the device has done it."""
    if device.type != "cuda":
        return work

    def run() -> None:
        work()
        torch.cuda.synchronize(device)

    return run


@contextmanager
def precision_of(name: str) -> Iterator[torch.dtype]:
    """Products of float32 by TF32 or not; the type of networks and matrices."""
    before = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = name == "TF32"
    try:
        yield torch.bfloat16 if name == "bfloat16" else torch.float32
    finally:
        torch.backends.cuda.matmul.allow_tf32 = before


def medians(works: dict[str, Work], budget: Budget, device: torch.device) -> dict[str, float]:
    """Returns the median seconds of works that take turns."""
    times = in_turns({name: synchronized(work, device) for name, work in works.items()}, budget.each)
    return {name: float(np.median(each)) for name, each in times.items()}


def machine(device: torch.device, budget: Budget, size: int, precisions: Sequence[str]) -> Machine:
    flops = {}
    for precision in precisions:
        with precision_of(precision) as dtype:
            a = torch.randn(size, size, device=device).to(dtype)
            out = torch.empty_like(a)
            seconds = medians({"product": lambda a=a, out=out: torch.mm(a, a, out=out)}, budget, device)["product"]
            flops[precision] = 2 * size**3 / seconds
    whole = torch.empty(16 * size * size, device=device)
    other = torch.empty_like(whole)
    seconds = medians({"copy": lambda: other.copy_(whole)}, budget, device)["copy"]
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else "processor"
    return Machine(name, flops, 2 * 4 * whole.numel() / seconds)


def golden_tests(device: torch.device, seconds: float) -> str:
    """Returns what pytest says of the golden tests on the device."""
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-n", "4", *_TESTS]
    try:
        done = subprocess.run(
            command, cwd=ROOT, env={**os.environ, "TEST_DEVICE": device.type}, capture_output=True, text=True,
            timeout=seconds, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return f"not finished in {seconds:.0f} s"
    return " ".join(line for line in done.stdout.splitlines()[-3:] if line)


def forward(case: Case, folder: Path, precision: str, device: torch.device, budget: Budget, most: Machine) -> list[str]:
    """Returns the cells of a row: milliseconds of nnet3, PyTorch and torch.compile, ratios, share of the roofline."""
    with precision_of(precision) as dtype, torch.no_grad():
        nnet, original = network_of(folder / case.name, train=False)
        given, twin = Given(nnet, case), TWINS[case.name](original).eval()
        given.to(device, dtype)
        twin.to(device, dtype)
        nnet.to(dtype=dtype, device=device)
        works: dict[str, Work] = {"ours": running(nnet, given, device), "eager": lambda: twin(given.x, given.ivector)}
        notes: dict[str, str] = {}
        if budget.compiles and budget.left > 60:
            add(works, notes, twin(given.x, given.ivector), "compiled", lambda: compiled(twin, given))
        times = medians(works, budget, device)
    num_bytes = sum(value.numel() * value.element_size() for value in twin.parameters())
    flops = flops_of(twin, given)
    return [*shown(times, notes), f"{most.roofline(precision, flops, num_bytes) / times['ours']:.2f}"]


def flops_of(twin: torch.nn.Module, given: Given) -> float:
    from torch.utils.flop_counter import FlopCounterMode

    with FlopCounterMode(display=False) as counter, torch.no_grad():
        twin(given.x, given.ivector)
    return float(counter.get_total_flops())


def training(
    case: Case, folder: Path, precision: str, device: torch.device, budget: Budget, most: Machine
) -> list[str]:
    """Returns the cells of a row: as of `forward`, and the extra cost of natural gradient."""
    with precision_of(precision) as dtype:
        made = Trained(case, folder / case.name, dtype, device=device)
        works: dict[str, Work] = {"ours": made.ours(natural=False), "eager": made.theirs}
        works["natural"] = made.ours(natural=True)
        for _ in range(10):  # the first minibatches of natural gradient cost more
            works["natural"]()
        notes: dict[str, str] = {}
        if budget.compiles and budget.left > 60 and case.name == "tdnnf":
            twin = torch.compile(made.twin)
            works["compiled"] = lambda: made.step_of(twin)
        times = medians(works, budget, device)
    return [*shown(times, notes), f"{times['natural'] / times['ours'] - 1:.0%}"]


def shown(times: dict[str, float], notes: dict[str, str]) -> list[str]:
    compiled_time = times.get("compiled")
    return [
        f"{times['ours'] * 1e3:.2f}",
        f"{times['eager'] * 1e3:.2f}",
        f"{compiled_time * 1e3:.2f}" if compiled_time else notes.get("compiled", "not tried"),
        f"{times['ours'] / times['eager']:.2f}",
        f"{times['ours'] / compiled_time:.2f}" if compiled_time else "",
    ]


def chain_row(sequences: int, device: torch.device, budget: Budget, *, small: bool) -> list[str]:
    graph = make_graph("phones", *((200, 4_000, 40) if small else ()))
    supervision = make_supervision(sequences, _FRAMES, graph.num_pdfs)
    output = torch.randn(sequences * _FRAMES, graph.num_pdfs, device=device)
    denominator, options = Denominator(graph, 0.1), ChainOptions()
    work = {"objective": lambda: chain_value(output, supervision, denominator, options)}
    return [f"chain objective, {sequences} x {_FRAMES}", f"{medians(work, budget, device)['objective'] * 1e3:.2f}"]


def batch_row(folder: Path, device: torch.device, *, small: bool) -> list[str]:
    nnet, _ = network_of(folder / "tdnnf", train=False)
    nnet.to(device=device)
    computer = nnet3.BatchComputer(nnet, minibatch_size=128, frames_per_chunk=150, frame_subsampling_factor=FACTOR,
                                   device=device)  # fmt: skip
    rng = np.random.default_rng(0)
    ivector = rng.normal(size=nnet.node_dim("ivector")).astype(np.float32)
    lengths = rng.integers(100, 3000, size=4 if small else 300)
    utterances = [
        (str(number), rng.normal(size=(length, nnet.node_dim("input"))).astype(np.float32), ivector)
        for number, length in enumerate(lengths)
    ]
    list(computer.compute(utterances[:4]))
    start = time.perf_counter()
    rows = sum(len(rows) for _, rows in computer.compute(utterances))
    return ["BatchComputer, TDNN-F, frames a second", f"{FACTOR * rows / (time.perf_counter() - start):,.0f}"]


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *([*row, *[""] * (len(head) - len(row))] for row in rows)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def attempt(name: str, budget: Budget, make: Callable[[], list[str]]) -> list[str]:
    """Returns a row, or one that says why there are no figures."""
    if budget.left < 5 * budget.each:
        return [name, "no time was left"]
    try:
        return [name, *make()]
    except (RuntimeError, ValueError, nnet3.Nnet3Error) as error:
        return [name, f"{type(error).__name__}: {str(error).splitlines()[0][:150]}"]


@click.command(help=__doc__)
@click.option("--device", default="cuda", show_default=True)
@click.option("--seconds", default=480.0, show_default=True, help="For all.")
@click.option("--each", default=0.6, show_default=True, help="Seconds for one measurement.")
@click.option("--small", is_flag=True, help="One network, one and two sequences: to try the script.")
@click.option("--tests/--no-tests", default=True, show_default=True, help="Run the golden tests, too.")
@click.option("--folder", type=click.Path(path_type=Path), default=ROOT / "../shared/golden/bench")
@click.option("--page", type=click.Path(path_type=Path), default=ROOT / "docs/gpu.md", show_default=True)
def main(device: str, seconds: float, each: float, small: bool, tests: bool, folder: Path, page: Path) -> None:
    place, budget, folder = torch.device(device), Budget(seconds, each, not small), folder.resolve()
    if place.type == "cuda" and not torch.cuda.is_available():
        raise click.ClickException("PyTorch finds no GPU here: --device=cpu --small tries the script without one")
    networks, sequences = (["tdnnf"], (1, 2)) if small else (list(TWINS), _SEQUENCES)
    precisions = ("float32",) if place.type == "cpu" else ("float32", "TF32", "bfloat16")
    said = golden_tests(place, 0.3 * seconds) if tests else "not run"
    most = machine(place, budget, 512 if small else 8192, precisions)
    head = ["network, sequences, precision", "nnet3, ms", "PyTorch, ms", "torch.compile, ms", "nnet3 / PyTorch",
            "nnet3 / torch.compile"]  # fmt: skip
    rows: dict[bool, list[list[str]]] = {False: [], True: []}
    for count in sequences[::-1]:
        for train, measure in ((False, forward), (True, training)):
            for precision in precisions:
                for name in networks:
                    case = Case(name, count, _FRAMES, train)
                    title = f"{name} {count} x {FACTOR * _FRAMES}, {precision}"
                    rows[train].append(attempt(title, budget,
                        lambda case=case, precision=precision, measure=measure: measure(
                            case, folder, precision, place, budget, most)))  # fmt: skip
                    click.echo(" | ".join(rows[train][-1]))
    others = [attempt("", budget, lambda: chain_row(sequences[-1], place, budget, small=small))[1:],
              attempt("", budget, lambda: batch_row(folder, place, small=small))[1:]]  # fmt: skip
    rates = ", ".join(f"{name} {rate / 1e12:.3g}" for name, rate in most.flops.items())
    text = (
        "# On a GPU\n\n`make gpu` writes this page: medians of works that take turns, each in milliseconds.\n\n"
        f"{most.name}, PyTorch {torch.__version__}, {time.strftime('%Y-%m-%d')}. The most that products reach, in "
        f"TFLOP/s: {rates}; memory {most.bytes_per_second / 1e9:.0f} GB/s. Golden tests on the device: {said}.\n\n"
        f"Wanted: {', '.join(f'{what} {bound}' for what, bound in _WANTED.items())}.\n\n"
        f"## Forward\n\n{table([*head, 'share of the roofline'], rows[False])}\n"
        f"## Training step\n\n{table([*head, 'extra cost of natural gradient'], rows[True])}\n"
        f"## Others\n\n{table(['work', 'figure'], others)}"
    )
    page.write_text(text)
    click.echo(f"{page}: {budget.total - budget.left:.0f} s")


if __name__ == "__main__":
    main()
