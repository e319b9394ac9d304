"""What streams cost: a chunk against its share of a whole utterance, streams at once against one by one, memory.

python -m benchmarks.streams [--streams 64] [--threads 1] [--small] [--plain] [--minutes 60]
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import click
import torch
from rich.console import Console
from rich.table import Table

from benchmarks.tdnnf_network import tdnnf_config
from nnet3 import Nnet, StreamComputer
from nnet3.decode import StreamProgram
from nnet3.engine.runtime import NnetComputer
from nnet3.options import StreamOptions

CHUNK, FACTOR, INPUT = 21, 3, 40
WHOLE = 50 * CHUNK


def best(run: Callable[[], object], rounds: int) -> float:
    """Returns the least time of some runs in milliseconds."""
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return 1000 * min(times)


def calls_alone(nnet: Nnet, rounds: int) -> float:
    """Returns the time of the commands of one chunk, run back to back, in milliseconds."""
    program = StreamProgram.of(nnet, StreamOptions())
    (chunk,) = program.cycle
    computer = NnetComputer(program.computation(chunk), program.nnet)
    inputs = {name: torch.randn(len(table), program.nnet.node_dim(name)) for name, table in chunk.inputs.items()}
    computer.compute(inputs)
    computer._state.accepted.update(inputs)
    calls = list(computer._linked().calls_of_segment(0))

    def run() -> None:
        with torch.no_grad():
            for call in calls:
                call()

    return best(run, rounds)


def of_one_stream(nnet: Nnet, rounds: int) -> dict[str, float]:
    """Returns milliseconds of a chunk, of its commands alone, and of its share of a whole utterance."""
    stream, frames = StreamComputer(nnet, frame_subsampling_factor=FACTOR).open(), torch.randn(WHOLE, INPUT)
    stream.accept(frames[: 10 * CHUNK])
    chunk = best(lambda: stream.accept(frames[:CHUNK]), rounds)
    whole = best(lambda: nnet.compute(frames, frame_subsampling_factor=FACTOR), max(rounds // 10, 2))
    return {"chunk": chunk, "commands alone": calls_alone(nnet, rounds), "share of a whole": whole * CHUNK / WHOLE}


def of_many_streams(nnet: Nnet, number: int, rounds: int) -> dict[str, float]:
    """Returns milliseconds of a chunk of many streams at once, and one by one."""
    computer, frames = (
        StreamComputer(nnet, num_streams=number, frame_subsampling_factor=FACTOR),
        torch.randn(10 * CHUNK, INPUT),
    )
    streams = [computer.open() for _ in range(number)]
    chunk = dict.fromkeys(streams, frames[:CHUNK])
    computer.accept(dict.fromkeys(streams, frames))
    at_once = best(lambda: computer.accept(chunk), rounds)
    alone = best(lambda: [stream.accept(frames[:CHUNK]) for stream in streams], rounds)
    return {"at once": at_once, "one by one": alone}


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def memory_of(nnet: Nnet, minutes: int) -> list[tuple[int, float]]:
    """Returns the memory of the process in MB after so many minutes of one stream, at some times."""
    stream, frames, found = StreamComputer(nnet, frame_subsampling_factor=FACTOR).open(), torch.randn(6000, INPUT), []
    for minute in range(1, minutes + 1):
        stream.accept(frames)
        if minute in (1, 2, minutes // 2, minutes):
            found.append((minute, resident_bytes() / 1e6))
    return found


@click.command()
@click.option("--streams", default=64, show_default=True)
@click.option("--threads", default=1, show_default=True)
@click.option("--rounds", default=30, show_default=True)
@click.option("--minutes", default=60, show_default=True, help="Of a stream whose memory is measured, a small network.")
@click.option("--small", is_flag=True, help="Layers of 256 and 64.")
@click.option("--plain", is_flag=True, help="Not packed, as verbs and recognizers run it.")
def main(streams: int, threads: int, rounds: int, minutes: int, small: bool, plain: bool) -> None:
    torch.set_num_threads(threads)
    few = Nnet.from_config(tdnnf_config(256, 64, 200))
    nnet = few if small else Nnet.from_config(tdnnf_config())
    nnet = nnet if plain else nnet.pack()
    one, many = of_one_stream(nnet, rounds), of_many_streams(nnet, streams, max(rounds // 5, 2))
    table = Table(title=f"TDNN-F, chunks of {CHUNK} frames, {threads} threads", box=None)
    for column in ("what", "best (ms)", "ratio"):
        table.add_column(column, justify="left" if column == "what" else "right")
    table.add_row("a chunk of one stream", f"{one['chunk']:.2f}", "")
    table.add_row("  share of a whole utterance", f"{one['share of a whole']:.2f}", _ratio(one, "share of a whole"))
    outside = 1 - one["commands alone"] / one["chunk"]
    table.add_row("  its commands alone", f"{one['commands alone']:.2f}", f"{outside:.1%} outside")
    table.add_row(f"a chunk of {streams} streams at once", f"{many['at once']:.2f}", "")
    table.add_row("  one by one", f"{many['one by one']:.2f}", f"{many['one by one'] / many['at once']:.2f}")
    console = Console()
    console.print(table)
    for minute, size in memory_of(few, minutes):
        console.print(f"after {minute} minutes: {size:.0f} MB")


def _ratio(times: dict[str, float], other: str) -> str:
    return f"{times['chunk'] / times[other]:.2f}"


if __name__ == "__main__":
    main()
