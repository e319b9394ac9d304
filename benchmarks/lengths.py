"""What ever new lengths cost, as a share of running them: `python -m benchmarks.lengths`.

For networks of published recipes at full width (`golden/bench` of the shared folder): requests of lengths drawn at
random, each once, in a random order. Each is run with a program from a cache, which continues short programs to other
lengths, by one computer that is changed to it; then each with a program that is compiled for its length. One thread,
processor time. Nothing is asserted.

Then requests for sequences of several lengths, likewise. Then training steps of a computational network on minibatches
whose sequences have lengths of their own, against minibatches that were seen before and packed sequences in
`torch.nn.LSTM`. Then whole utterances, each of another length; and steps of a TorchModule (forward and backward) on
minibatches of ever new lengths, as a multiple of as many steps on the same number of frames in minibatches of one
length. And what programs cost that are made for the first time, and the memory that ever new lengths take.
"""

from __future__ import annotations

import gc
import itertools
import random
import resource
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median

import click
import numpy as np
import torch
from rich.console import Console
from rich.table import Table

from benchmarks.compile import FACTOR, Case, read_network, request_for
from nnet3 import ComputationCache, ComputationRequest, IoSpecification, Nnet, NnetComputer, TorchModule, cn
from nnet3.decode import UtteranceComputer, UtteranceOptions
from nnet3.engine.driver import compile_task, default_cache
from nnet3.engine.ir.computation import NnetComputation
from nnet3.engine.runtime.link import LinkedComputation
from nnet3.engine.runtime.plan import SegmentPlan
from nnet3.inference.running import ChunkRunner

CASES = (
    ("tdnnf_small", 1, False),
    ("tdnnf", 1, False),
    ("blstm", 1, False),
    ("tdnn_lstm", 1, False),
    ("blstm", 8, True),
)
CELLS, INPUTS, CLASSES = 128, 64, 40
SEQUENCES, FRAMES = 16, (30, 120)
SHORTEST, LONGEST = 20, 100  # frames of output


def seconds_of(
    make: Callable[[Nnet, ComputationRequest], NnetComputation],
    nnet: Nnet,
    request: ComputationRequest,
    kept: list[NnetComputer] | None = None,
) -> tuple[float, float]:
    """Processor time of making, planning and linking a program, and of running it.

    A computer in `kept` is changed to run it; else one is made, and kept.
    """
    delta = nnet.copy() if request.need_model_derivative and not kept else None
    start = time.process_time()
    program = make(nnet, request)
    if kept:
        computer = kept[0]
        computer.change(program)
    else:
        computer = NnetComputer(program, nnet, delta, check_finite=False)
        if kept is not None:
            kept.append(computer)
    with torch.no_grad():
        computer._linked()
    computer._release()
    linked = time.process_time()
    for io in request.inputs:
        computer.accept_input(io.name, torch.zeros(len(io.indexes), nnet.node_dim(io.name)))
    computer.run()
    if request.need_model_derivative:
        computer.accept_input("output", torch.zeros(len(request.outputs[0].indexes), nnet.node_dim("output")))
        computer.run()
    return linked - start, time.process_time() - linked


def compiled(nnet: Nnet, request: ComputationRequest) -> NnetComputation:
    """The program that is compiled for this length alone."""
    return compile_task(request.task(nnet))


def measure(folder: Path, name: str, sequences: int, train: bool, count: int) -> tuple[str, ...]:
    nnet, cache = read_network(folder / name, train=train), ComputationCache()
    lengths = random.Random(1).sample(range(SHORTEST, LONGEST + 1), count)
    seconds_of(compiled, nnet, request_for(nnet, Case(name, sequences, SHORTEST, train)))
    requests = [request_for(nnet, Case(name, sequences, frames, train)) for frames in lengths]
    kept: list[NnetComputer] = []
    # Not in turns: what compiling leaves in the processor's caches would be counted where nothing is compiled.
    continued = [seconds_of(cache.compile, nnet, request, kept) for request in requests]
    both = list(zip((seconds_of(compiled, nnet, request) for request in requests), continued, strict=True))
    made = [sum(each[way][0] for each in both) for way in (0, 1)]
    run = sum(seconds for each in both for _, seconds in each) / 2
    middle = [median(each[way][0] for each in both) for way in (0, 1)]
    return (
        f"{name} {sequences} x {SHORTEST} to {LONGEST}{' training step' if train else ''}",
        f"{cache.counts.compiled} + {cache.counts.continued}",
        f"{middle[0] * 1e3:.0f}",
        f"{middle[1] * 1e3:.1f}",
        f"{run / count * 1e3:.0f}",
        f"{made[0] / run:.2f}",
        f"{made[1] / run:.2f}",
        f"{middle[1] / (run / count):.2f}",
    )


def uneven(request: ComputationRequest, lengths: Sequence[int]) -> ComputationRequest:
    """The request without the frames of each sequence beyond its own length, counted in frames of output."""
    missing = FACTOR * (max(lengths) - np.array(lengths))

    def cut(io: IoSpecification) -> IoSpecification:
        n, t = io.indexes[:, 0], io.indexes[:, 1]
        is_left = t <= t.max() - missing[n] if (t != t[0]).any() else np.ones(len(t), bool)
        return IoSpecification(io.name, io.indexes[is_left], io.has_deriv)

    return replace(request, inputs=list(map(cut, request.inputs)), outputs=list(map(cut, request.outputs)))


def measure_uneven(folder: Path, name: str, sequences: int, train: bool, count: int) -> tuple[str, ...]:
    """Requests for sequences of ever new sets of lengths, with programs from a cache and compiled for each set."""
    nnet, cache, rng = read_network(folder / name, train=train), ComputationCache(), np.random.default_rng(1)
    times, kept, requests = [], list[NnetComputer](), list[ComputationRequest]()
    for _ in range(count + 1):
        lengths = rng.integers(SHORTEST, LONGEST + 1, size=sequences).tolist()
        requests.append(uneven(request_for(nnet, Case(name, sequences, max(lengths), train)), lengths))
    seconds_of(cache.compile, nnet, requests[0], kept)
    for before, request in itertools.pairwise(requests):
        # From the cache a new set, and it again after another one.
        new, _, known = (seconds_of(cache.compile, nnet, each, kept) for each in (request, before, request))
        times.append([seconds_of(compiled, nnet, request), new, known])
    middle = [[median(each[way][part] for each in times) for part in (0, 1)] for way in (0, 1)]
    return (
        f"{name} {sequences} x {SHORTEST} to {LONGEST}{' training step' if train else ''}",
        f"{cache.counts.compiled} + {cache.counts.restricted}",
        *(f"{middle[way][0] * 1e3:.0f}" for way in (0, 1)),
        *(f"{middle[way][1] * 1e3:.0f}" for way in (0, 1)),
        *(f"{middle[way][0] / middle[way][1]:.2f}" for way in (0, 1)),
        f"{median(sum(each[1]) for each in times) / median(sum(each[2]) for each in times):.2f}",
    )


class PackedLstm(torch.nn.Module):
    """An LSTM of `torch.nn` on sequences of several lengths, with a classifier."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm, self.out = torch.nn.LSTM(INPUTS, CELLS), torch.nn.Linear(CELLS, CLASSES)

    def step(self, xs: list[np.ndarray], labels: list[np.ndarray]) -> None:
        packed, targets = (
            torch.nn.utils.rnn.pack_sequence([torch.from_numpy(each.T) for each in arrays], enforce_sorted=False)
            for arrays in (xs, labels)
        )
        scores = self.out(self.lstm(packed)[0].data)
        self.zero_grad()
        (-(targets.data * torch.log_softmax(scores, 1)).sum()).backward()


def lstm_network(cache: ComputationCache) -> cn.Network:
    x, labels = cn.input("x", INPUTS), cn.input("labels", CLASSES)
    scores = cn.macros.affine(cn.macros.lstm(x, CELLS).h, CLASSES, name="out")
    return cn.Network(cn.cross_entropy_with_softmax(labels, scores), cache=cache)


def seconds(step: Callable[..., object], *given: object) -> float:
    """Processor time of a step."""
    start = time.process_time()
    step(*given)
    return time.process_time() - start


def measure_ragged(count: int) -> tuple[str, ...]:
    """Minibatches of ever new lengths, in turns with some that were seen before, and with those of PyTorch."""
    rng, cache = np.random.default_rng(1), ComputationCache()
    net, peer = lstm_network(cache), PackedLstm()

    def minibatch() -> tuple[list[np.ndarray], list[np.ndarray]]:
        lengths = rng.integers(*FRAMES, size=SEQUENCES)
        xs = [rng.normal(size=(INPUTS, length)).astype(np.float32) for length in lengths]
        return xs, [np.eye(CLASSES, dtype=np.float32)[:, rng.integers(CLASSES, size=length)] for length in lengths]

    def ours(xs: list[np.ndarray], labels: list[np.ndarray]) -> float:
        return net.backward({"x": cn.sequences(xs), "labels": cn.sequences(labels)})

    known = [minibatch() for _ in range(4)]
    for batch in 3 * known:
        ours(*batch)
        peer.step(*batch)
    compiled = cache.counts.compiled + cache.counts.continued
    times = []
    for number in range(count):
        new = minibatch()
        times.append((seconds(ours, *new), seconds(ours, *known[number % 4]), seconds(peer.step, *new)))
    first, again, packed = (median(each) for each in zip(*times, strict=True))
    return (
        f"LSTM {CELLS} cells, {SEQUENCES} sequences of {FRAMES[0]} to {FRAMES[1] - 1}",
        f"{compiled}, then {cache.counts.compiled + cache.counts.continued - compiled}",
        f"{first * 1e3:.0f}",
        f"{again * 1e3:.0f}",
        f"{packed * 1e3:.0f}",
        f"{first / again:.2f}",
        f"{first / packed:.2f}",
    )


class Clock:
    """Observes computers, and adds up the processor time of what they run."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def run(self, linked: LinkedComputation, segment: SegmentPlan) -> None:
        calls = linked.calls_of_segment(linked.plan.segments.index(segment))
        start = time.process_time()
        for call in calls:
            call()
        self.seconds += time.process_time() - start


class ClockedRunner(ChunkRunner):
    clock = Clock()

    def _computer_of(self, program: NnetComputation) -> NnetComputer:
        computer = super()._computer_of(program)
        computer._observer = self.clock
        return computer


def measure_utterances(folder: Path, name: str, count: int) -> tuple[str, ...]:
    nnet = read_network(folder / name, train=False)
    options = UtteranceOptions(frame_subsampling_factor=FACTOR)
    computer, runner = UtteranceComputer(nnet, options), ClockedRunner(nnet, options, "cpu")
    computer._runner = runner
    lengths = random.Random(1).sample(range(SHORTEST, SHORTEST + 5 * count // 2), count)
    ivector = torch.zeros(nnet.node_dim("ivector")) if "ivector" in nnet.input_names else None
    computer.compute(torch.zeros(1, nnet.node_dim("input")), ivector)
    counts = replace(default_cache().counts)
    runner.clock.seconds, start = 0.0, time.process_time()
    for length in lengths:
        computer.compute(torch.zeros(FACTOR * length, nnet.node_dim("input")), ivector)
    total, now = time.process_time() - start, default_cache().counts
    return (
        f"{name} {count} utterances",
        f"{now.compiled - counts.compiled} + {now.continued - counts.continued}",
        f"{total / count * 1e3:.0f}",
        f"{1 - runner.clock.seconds / total:.3f}",
    )


def measure_module(folder: Path, name: str, sequences: int, count: int) -> tuple[str, ...]:
    nnet, cache = read_network(folder / name, train=True), ComputationCache()
    module = TorchModule(nnet, frame_subsampling_factor=FACTOR, outputs=["output"], cache=cache)
    lengths = random.Random(1).sample(range(SHORTEST, SHORTEST + count), count)

    def step(length: int) -> float:
        features = torch.randn(sequences, FACTOR * length, nnet.node_dim("input"))
        ivectors = torch.randn(sequences, nnet.node_dim("ivector")) if "ivector" in nnet.input_names else None
        start = time.process_time()
        output = module(features, ivectors)
        output.backward(torch.ones_like(output))
        return time.process_time() - start

    one = round(sum(lengths) / count)
    step(one)
    pairs = [(step(length), step(one)) for length in lengths]
    new, same = (sum(seconds) for seconds in zip(*pairs, strict=True))
    return (
        f"TorchModule {name} {sequences} x {SHORTEST} to {SHORTEST + count - 1}",
        f"{cache.counts.compiled} + {cache.counts.continued}",
        f"{new / count * 1e3:.0f}",
        f"{new / same:.2f}",
    )


def alternating(*steps: Callable[[], object], rounds: int = 9) -> list[float]:
    """Median processor times of steps that take turns; the first turn does not count."""
    times = [[seconds(step) for step in steps] for _ in range(rounds + 1)][1:]
    return [median(each) for each in zip(*times, strict=True)]


def first_link(folder: Path, name: str, frames: int) -> Callable[[], NnetComputer]:
    """Returns what compiles and links a request with a new cache."""
    nnet = read_network(folder / name, train=False)
    request = request_for(nnet, Case(name, 1, frames, False))

    def make() -> NnetComputer:
        computer = NnetComputer(ComputationCache().compile(nnet, request), nnet, check_finite=False)
        with torch.no_grad():
            computer._linked()
        return computer

    return make


def measure_first(folder: Path) -> Iterator[tuple[str, ...]]:
    """Programs that are made for the first time: a short one, and those of recurrences of two lengths."""
    make = first_link(folder, "tdnnf", 50)
    computer = make()
    given = {port.name: torch.zeros(port.shape) for port in computer.wanted()}
    made, run = alternating(make, lambda: computer.compute(given))
    yield "tdnnf 1 x 50: first compile and link / run", f"{made * 1e3:.0f} / {run * 1e3:.0f} ms", f"{made / run:.2f}"
    few, many = alternating(*(first_link(folder, "blstm", frames) for frames in (50, 5000)))
    yield (
        "blstm 1 x 5000 / 1 x 50: first compile and link",
        f"{many * 1e3:.0f} / {few * 1e3:.0f} ms",
        f"{many / few:.2f}",
    )
    times, xs = [], [np.zeros((INPUTS, 800), np.float32)] * SEQUENCES
    labels = [np.zeros((CLASSES, 800), np.float32)] * SEQUENCES
    for _ in range(4):
        net = lstm_network(ComputationCache())
        times.append([seconds(net.backward, {"x": cn.sequences(xs), "labels": cn.sequences(labels)}) for _ in range(3)])
    making = median(first - min(again) for first, *again in times[1:])
    yield f"LSTM {CELLS} cells, {SEQUENCES} sequences of 800: first compile", f"{making * 1e3:.0f} ms", ""


def measure_memory(count: int) -> tuple[str, ...]:
    """Resident memory that each new set of lengths takes, after ten have been seen."""
    net, rng = lstm_network(ComputationCache()), np.random.default_rng(1)

    def resident() -> int:
        gc.collect()
        return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()

    before = 0
    for number in range(10 + count):
        if number == 10:
            before = resident()
        lengths = [*rng.integers(*FRAMES, size=SEQUENCES).tolist(), FRAMES[1]]  # one is always as long as can be
        x, labels = ([np.zeros((rows, length), np.float32) for length in lengths] for rows in (INPUTS, CLASSES))
        net.backward({"x": cn.sequences(x), "labels": cn.sequences(labels)})
    grown = (resident() - before) / count
    return f"LSTM: resident memory per new set of lengths, mean of {count}", f"{grown / 1e3:.0f} kB", ""


@click.command()
@click.option("--folder", type=click.Path(path_type=Path), default=Path("../shared/golden/bench"), show_default=True)
@click.option("--count", type=click.IntRange(2, LONGEST - SHORTEST + 1), default=24, show_default=True, help="Lengths.")
@click.option("--utterances", type=click.IntRange(1), default=500, show_default=True, help="Whole utterances.")
@click.option("--steps", type=click.IntRange(1), default=20, show_default=True, help="Steps of a TorchModule.")
@click.option("--minibatches", type=click.IntRange(1), default=40, show_default=True, help="Sets of sequences.")
def main(folder: Path, count: int, utterances: int, steps: int, minibatches: int) -> None:
    torch.set_num_threads(1)
    if not folder.is_dir():
        raise click.ClickException(f"there is no folder {folder} with the networks to compile")
    columns = (
        *("request", "compiled + continued", "compiled, ms", "from cache, ms", "run, ms"),
        *("compiled / run", "cache / run", "median from cache / run"),
    )
    table = Table(*columns, title=f"{count} new lengths, made and linked, as a share of running them", box=None)
    for name, sequences, train in CASES:
        table.add_row(*measure(folder.resolve(), name, sequences, train, count))
    Console(width=170).print(table)
    columns = (
        *("request", "compiled + restricted", "compiled, ms", "from cache, ms", "run, ms", "run from cache, ms"),
        *("compiled / run", "from cache / run", "new / known"),
    )
    table = Table(*columns, title="Ever new sets of lengths, made and linked, medians", box=None)
    for name, train in itertools.product(("tdnnf_small", "tdnn_lstm", "blstm"), (False, True)):
        table.add_row(*measure_uneven(folder.resolve(), name, 8, train, max(3, count // 4)))
    Console(width=170).print(table)
    columns = ("work", "programs made", "new, ms", "seen again, ms", "torch.nn, ms", "new / again", "new / torch.nn")
    table = Table(*columns, title="Training steps on minibatches of sequences of several lengths", box=None)
    table.add_row(*measure_ragged(minibatches))
    Console(width=170).print(table)
    columns = ("work", "compiled + continued", "each, ms", "outside of runs")
    table = Table(*columns, title="Whole utterances, each of another length", box=None)
    table.add_row(*measure_utterances(folder.resolve(), "tdnnf_small", utterances))
    Console(width=170).print(table)
    table = Table("work", "measured", "ratio", title="Programs that are made for the first time; memory", box=None)
    for row in (*measure_first(folder.resolve()), measure_memory(minibatches)):
        table.add_row(*row)
    Console(width=170).print(table)
    columns = ("work", "compiled + continued", "each, ms", "new / one length")
    table = Table(*columns, title="Steps of a TorchModule on ever new lengths", box=None)
    for name in ("tdnnf", "tdnn_lstm", "blstm"):
        table.add_row(*measure_module(folder.resolve(), name, 4, steps))
    Console(width=170).print(table)


if __name__ == "__main__":
    main()
