"""Memory does not grow with the archive."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from nnet3.examples import (
    EXAMPLES,
    Example,
    ExampleReader,
    MinibatchSizes,
    MinibatchSource,
    Position,
    SourceOptions,
    example_writer,
    merge_examples,
)
from nnet3.training.train.minibatch import Minibatch
from nnet3.training.train.to_minibatch import to_minibatch
from tests.effort import at_night
from tests.train.example_data import frame_example


@pytest.fixture(scope="module")
def archives(tmp_path_factory: pytest.TempPathFactory) -> dict[Path, int]:
    """A small and a large one, and how many examples are in them."""
    example = frame_example(np.random.default_rng(0), frames=500)  # 19 kB
    found = {}
    for count in (96, 256):
        path = tmp_path_factory.mktemp("archives") / f"{count}.ark"
        with example_writer(f"ark:{path}", EXAMPLES) as writer:
            for number in range(count):
                writer.write(f"eg-{number}", example)
        found[path] = count
    return found


def _read_all(name: str, count: int) -> int:
    """The most memory that Python and NumPy take while an archive is merged, and while it is read for training."""

    def to(example: Example, key: str) -> Minibatch:
        return to_minibatch(example, {"input": 3}, {"output": 5}, key)

    tracemalloc.start()
    try:
        source = MinibatchSource([name], EXAMPLES, to, SourceOptions(minibatch_size="1:16", shuffle_buffer=32))
        with ExampleReader(name, EXAMPLES) as table, example_writer("ark:/dev/null", EXAMPLES) as writer:
            for key, minibatch in merge_examples(table, EXAMPLES, MinibatchSizes.parse("1:16")):
                writer.write(key, minibatch)
        with source.epoch(Position()) as minibatches:
            assert sum(made.minibatch.num_sequences for made in minibatches) == count
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("name", ["ark:{}", *at_night("ark:cat {} |")])
def test_a_larger_archive_takes_no_more_memory(archives: dict[Path, int], name: str) -> None:
    """Than one with which all buffers are full."""
    assert max(path.stat().st_size for path in archives) > 4.5e6
    small, large = (_read_all(name.format(path), count) for path, count in archives.items())
    assert large < small + 0.5e6
