"""What it costs a processor core to read, shuffle and merge training examples, and how many GPUs that feeds.

python -m benchmarks.examples [--count 1500] [--minibatch 64] [--sharing 1,8,64]

Processor time of one thread, for chain examples of 150 frames and for frame-labelled ones of 8, with the contexts of
the TDNN-F. A run reads all examples once in each process, and so learns their places. Then each process shuffles and
divides the places of all examples, and reads and merges its own share: a core has time for so many of each process.
"""

from __future__ import annotations

import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import click
import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.chain import PDFS, make_supervision
from nnet3.base.kaldi_io.compressed import compress
from nnet3.base.kaldi_io.sparse import SparseMatrix
from nnet3.examples import EXAMPLES, Example, NnetIo, example_writer
from nnet3.training.chain.example import CHAIN_EXAMPLES, ChainExample, chain_minibatch
from nnet3.training.chain.supervision import ChainTarget
from nnet3.training.examples.example import ExampleKind, ExampleReader
from nnet3.training.examples.source import MinibatchSource, Position, SourceOptions
from nnet3.training.examples.stored import StoredTable
from nnet3.training.train.minibatch import Minibatch
from nnet3.training.train.to_minibatch import to_minibatch

FEATURES, IVECTOR, CONTEXT, FACTOR = 40, 100, 34, 3
DIMS = {"input": FEATURES, "ivector": IVECTOR}
DIFFERENT = 50  # so many examples take turns
BUFFER = 1000
MERGED = 64


def chain_examples() -> Iterator[ChainExample]:
    """150 frames and their context, compressed, an ivector, a supervision of 50 frames."""
    rng, frames = np.random.default_rng(0), 150
    for _ in range(DIFFERENT):
        target = ChainTarget(
            "output", _indexes(0, frames, FACTOR), make_supervision(1, frames // FACTOR), np.ones(50, np.float32)
        )
        yield ChainExample(_inputs(rng, frames), (target,))


def merged_examples() -> Iterator[ChainExample]:
    """Minibatches of 64 of these, merged beforehand."""
    examples = list(chain_examples())
    yield CHAIN_EXAMPLES.merge([examples[number % DIFFERENT] for number in range(MERGED)], True)


def labelled_examples() -> Iterator[Example]:
    """8 frames and their context, compressed, an ivector, a label each."""
    rng, frames = np.random.default_rng(0), 8
    for _ in range(DIFFERENT):
        labels = rng.integers(0, PDFS, frames).astype(np.int32)
        target = SparseMatrix(frames, PDFS, np.arange(frames + 1), labels, np.ones(frames, np.float32))
        yield Example((*_inputs(rng, frames), NnetIo("output", _indexes(0, frames), target)))


def _inputs(rng: np.random.Generator, frames: int) -> tuple[NnetIo, ...]:
    rows = _indexes(-CONTEXT, frames + CONTEXT)
    features = compress(rng.standard_normal((len(rows), FEATURES)).astype(np.float32))
    ivector = rng.standard_normal((1, IVECTOR)).astype(np.float32)
    return NnetIo("input", rows, features), NnetIo("ivector", _indexes(0, 1), ivector)


def _indexes(first: int, last: int, step: int = 1) -> np.ndarray:
    times = np.arange(first, last, step)
    return np.stack([0 * times, times, 0 * times], axis=1).astype(np.int32)


def seconds_for(entries: Iterable[Any], count: int) -> float:
    """The processor time that one of `count` entries takes."""
    start = time.thread_time()
    deque(entries, maxlen=0)
    return (time.thread_time() - start) / count


def measure(
    kind: ExampleKind[Any], examples: Iterable[Any], prepare: Callable[[Any, str], Any], count: int, minibatch: int
) -> dict[str, float]:
    """Bytes of an example, and seconds: to read it first, to shuffle and group its place, to read and merge it."""
    known = list(examples)
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "train.ark"
        with example_writer(f"ark:{path}", kind) as writer:
            for number in range(count):
                writer.write(f"example-{number}", known[number % len(known)])
        table, size = f"ark:{path}", path.stat().st_size / count

        def source(stored: Sequence[StoredTable | None] = ()) -> MinibatchSource[Any, Any]:
            sizes = f"1:{minibatch}" if minibatch else None
            options = SourceOptions(minibatch_size=sizes, shuffle_buffer=BUFFER)
            return MinibatchSource([table], kind, prepare, options, stored=stored)

        def read() -> float:
            with ExampleReader(table, kind) as reader:
                return seconds_for(reader, count)

        rounds = []
        for _ in range(3):
            counted = source()
            first = seconds_for(counted._groups(0), count)
            known = source(counted.stored)
            places = seconds_for(known._groups(0), count)
            rounds.append((read(), first, places, seconds_for(known.prepared(Position()), count)))
    reading, first, places, made = (min(times) for times in zip(*rounds, strict=True))
    return {"bytes": size, "first": first, "places": places, "read": reading, "merge": made - places - reading}


def _chain_minibatch(example: ChainExample, key: str) -> Minibatch:
    return chain_minibatch(example, DIMS, key)


def _labelled_minibatch(example: Example, key: str) -> Minibatch:
    return to_minibatch(example, DIMS, {"output": PDFS}, key)


@click.command()
@click.option("--count", default=1500, show_default=True, help="Examples in the archive.")
@click.option("--minibatch", default=64, show_default=True)
@click.option("--sharing", default="1,8,64", show_default=True, help="Numbers of processes that share minibatches.")
def main(count: int, minibatch: int, sharing: str) -> None:
    """Print a table."""
    kinds: dict[str, tuple[ExampleKind[Any], Iterable[Any], Callable[[Any, str], Any]]] = {
        "chain, 150 frames": (CHAIN_EXAMPLES, chain_examples(), _chain_minibatch),
        f"chain, {MERGED} x 150, merged": (CHAIN_EXAMPLES, merged_examples(), _chain_minibatch),
        "frames, 8": (EXAMPLES, labelled_examples(), _labelled_minibatch),
    }
    processes = [int(number) for number in sharing.split(",")]
    table = Table(title=f"examples, minibatches of {minibatch}, processor time of one core", box=None)
    columns = ["examples", "kB", "at first, µs", "place", "read", "merge", *(f"of {j}: each gets/s" for j in processes)]
    for column in columns:
        table.add_column(column, justify="left" if column == "examples" else "right")
    for name, made in kinds.items():
        is_merged = "merged" in name
        found = measure(*made, count // MERGED if is_merged else count, 0 if is_merged else minibatch)
        costs = [f"{1e6 * found[part]:.1f}" for part in ("first", "places", "read", "merge")]
        rates = [1 / (j * found["places"] + found["read"] + found["merge"]) for j in processes]
        table.add_row(name, f"{found['bytes'] / 1000:.1f}", *costs, *(f"{rate:.0f}" for rate in rates))
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
