"""What a table of utterances costs: `python -m benchmarks.decoding [--utterances 500] [--factor 3] [--device cuda]`.

Utterances of a real distribution of lengths, recordings of spoken digits joined at random to 1 to 30 s, through the
TDNN-F of `benchmarks/tdnnf_network.py`: one at a time in chunks of 50 frames as Kaldi's nnet3-compute does, one at a
time whole, by BatchComputer whole and in chunks of 150, and hand-written in PyTorch (convolutions over minibatches of
16, sorted by length in stretches of 64, padded; all frames, of which every `--factor`-th is kept). Each in a process
of its own, which says how many programs it compiled (and continued), its peak memory, and the
share of time outside matrix products. With `--network` the network of a file, without the hand-written one.
"""

from __future__ import annotations

import multiprocessing
import resource
import time
import warnings
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import click
import numpy as np
import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor
from torch.profiler import ProfilerActivity, profile

from benchmarks.tdnnf_network import TdnnfTwin, tdnnf_config
from nnet3 import BatchComputer, Nnet, load_nnet
from nnet3.decode import UtteranceComputer, UtteranceOptions
from nnet3.engine.driver import default_cache
from nnet3.kaldi_io import matrix_writer, open_matrix_table
from recipes.spoken_digits.features import fbank
from recipes.spoken_digits.recordings import read_recordings

SECONDS = 1.0, 30.0
PRODUCTS = ("mm", "addmm", "bmm", "baddbmm", "addmv", "mv", "convolution", "gemm", "gemv", "conv")
WAYS = {
    "one at a time, chunks of 50": "chunks",
    "one at a time, whole": "whole",
    "BatchComputer, whole": "batch",
    "BatchComputer, chunks of 150": "batch-chunks",
    "hand-written in PyTorch, padded": "twin",
}


@dataclass(frozen=True)
class Work:
    """What each process does."""

    features: str  # an rspecifier
    factor: int
    device: str
    threads: int
    small: bool
    network: str | None

    def utterances(self) -> list[tuple[str, np.ndarray, np.ndarray | None]]:
        width = self.nnet().input_dims.get("ivector")
        with open_matrix_table(self.features) as table:
            return [(key, rows, np.zeros(width, np.float32) if width else None) for key, rows in table]

    def nnet(self) -> Nnet:
        if self.network:
            return load_nnet(self.network)
        return Nnet.from_config(tdnnf_config(256, 64, 200) if self.small else tdnnf_config())


def write_features(recordings: Path, count: int, path: Path) -> None:
    """A table of features of recordings, joined until they are as long as was drawn."""
    rng, spoken = np.random.default_rng(0), read_recordings(recordings)
    with matrix_writer(f"ark:{path}") as table:
        for number in range(count):
            wanted, parts = rng.uniform(*SECONDS), []
            while sum(map(len, parts)) < wanted * spoken[0].rate:
                parts.append(spoken[rng.integers(len(spoken))].samples)
            samples = np.concatenate(parts)[: int(wanted * spoken[0].rate)]
            table.write(f"utt{number:03}", fbank(samples, spoken[0].rate))


def outputs(way: str, work: Work, utterances: list[tuple[str, np.ndarray, np.ndarray | None]]) -> Iterator[Tensor]:
    nnet = work.nnet().to(device=work.device)
    if way == "twin":
        yield from twin_outputs(TdnnfTwin(nnet).to(work.device).eval(), nnet, work, [rows for _, rows, _ in utterances])
    elif way.startswith("batch"):
        chunks = 150 if way == "batch-chunks" else 0
        batch = BatchComputer(nnet, frame_subsampling_factor=work.factor, frames_per_chunk=chunks)
        yield from (rows for _, rows in batch.compute(utterances))
    else:
        chunks = 50 if way == "chunks" else 0
        options = UtteranceOptions(frame_subsampling_factor=work.factor, frames_per_chunk=chunks)
        computer = UtteranceComputer(nnet, options, work.device)
        yield from (computer.compute(rows, ivector) for _, rows, ivector in utterances)


def twin_outputs(twin: TdnnfTwin, nnet: Nnet, work: Work, features: list[np.ndarray]) -> Iterator[Tensor]:
    left, right = nnet.left_context, nnet.right_context
    for start in range(0, len(features), 64):
        window = features[start : start + 64]
        order = sorted(range(len(window)), key=lambda number: -len(window[number]))
        found: dict[int, Tensor] = {}
        for first in range(0, len(order), 16):
            numbers = order[first : first + 16]
            longest = len(window[numbers[0]])
            padded = np.stack(
                [np.pad(window[n], ((left, right + longest - len(window[n])), (0, 0)), "edge") for n in numbers]
            )
            with torch.no_grad():
                rows = twin(torch.from_numpy(padded).to(work.device).transpose(1, 2))
            for place, number in enumerate(numbers):
                found[number] = rows[place, :, : len(window[number]) : work.factor].T
        yield from (found[number] for number in range(len(window)))


def measure(way: str, work: Work) -> tuple[float, float, int, int, float, float, float]:
    """Seconds, of a second time, programs compiled and continued, peak MiB, share outside products, a checksum."""
    warnings.simplefilter("ignore")
    torch.manual_seed(0)
    torch.set_num_threads(work.threads)
    utterances = work.utterances()
    # Of one thread the processor's time, so that other work on the machine counts little.
    clock = time.process_time if work.threads == 1 and work.device == "cpu" else time.perf_counter
    seconds = []
    for _ in range(2):
        start, checksum = clock(), 0.0
        for rows in outputs(way, work, utterances):
            checksum += float(rows[:: len(rows) // 4 + 1].double().sum())
        seconds.append(clock() - start)
    counts = default_cache().counts
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    if work.device != "cpu":
        peak = torch.cuda.max_memory_allocated() / 2**20
    few = utterances[: max(1, len(utterances) // 5)]
    activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if work.device != "cpu" else [])]
    with profile(activities=activities) as profiler:
        for _ in outputs(way, work, few):
            pass
    return (*seconds, counts.compiled, counts.continued, peak, outside_products(profiler, work.device), checksum)


def outside_products(profiler: profile, device: str) -> float:
    """Returns the share of the time of operations that is none of matrix products."""
    name = "self_cpu_time_total" if device == "cpu" else "self_device_time_total"
    events = [(event.key.lower(), float(getattr(event, name))) for event in profiler.key_averages()]
    products = sum(t for key, t in events if any(word in key for word in PRODUCTS))
    return 1 - products / max(1e-9, sum(t for _, t in events))


@click.command()
@click.option("--utterances", default=40, show_default=True, help="500 take some minutes.")
@click.option("--recordings", default="../shared/data/fsdd/recordings.zip", show_default=True)
@click.option("--features", help="An rspecifier of features (frames, 40) instead of the recordings.")
@click.option("--network", help="The file of a network instead of the TDNN-F.")
@click.option("--factor", default=3, show_default=True, help="Frames for each output.")
@click.option("--threads", default=1, show_default=True)
@click.option("--device", default="cpu", show_default=True)
@click.option("--small", is_flag=True, help="256/64 instead of 1536/160.")
def main(
    utterances: int, recordings: str, features: str | None, network: str | None, factor: int, threads: int,
    device: str, small: bool,
) -> None:  # fmt: skip
    if features is None:
        path = Path(f"build/decoding-{utterances}.ark")
        path.parent.mkdir(exist_ok=True)
        if not path.exists():
            write_features(Path(recordings), utterances, path)
        features = f"ark:{path}"
    work = Work(features, factor, device, threads, small, network)
    frames = sum(len(rows) for _, rows, _ in work.utterances())
    title = f"{utterances} utterances, {frames} frames, an output for {factor}, {device}, {threads} threads"
    table = Table(title=title, box=None)
    for column in (
        "way",
        "first (s)",
        "again (s)",
        "frames/s",
        "compiled",
        "continued",
        "peak (MiB)",
        "outside products",
    ):
        table.add_column(column, justify="left" if column == "way" else "right")
    checksums = []
    for name, way in WAYS.items():
        if way == "twin" and network:
            continue
        with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as process:
            first, again, compiled, continued, peak, outside, checksum = process.submit(measure, way, work).result()
        table.add_row(
            name, f"{first:.2f}", f"{again:.2f}", f"{frames / first:,.0f}", str(compiled), str(continued),
            f"{peak:,.0f}", f"{outside:.0%}",
        )  # fmt: skip
        checksums.append(checksum)
        Console(width=140).print(f"{name}: {first:.2f} s")
    Console(width=140).print(table)
    if not network:
        assert max(checksums) - min(checksums) < 1e-3 * abs(checksums[0]), f"they compute different things: {checksums}"


if __name__ == "__main__":
    main()
