"""Memory does not grow with the archive."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from nnet3.train.examples import EXAMPLES, example_writer
from train.example_data import frame_example

SCRIPT = """
import resource, sys
from nnet3.train.examples import *
from nnet3.train.examples.to_minibatch import to_minibatch

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024

def run(name, count):
    source = MinibatchSource([name], EXAMPLES, to, SourceOptions(minibatch_size="1:16", shuffle_buffer=32))
    with ExampleReader(name, EXAMPLES) as table, example_writer("ark:/dev/null", EXAMPLES) as writer:
        for key, minibatch in merge_examples(table, EXAMPLES, MinibatchSizes.parse("1:16")):
            writer.write(key, minibatch)
    with source.epoch(Position()) as minibatches:
        assert sum(made.minibatch.num_sequences for made in minibatches) == int(count)

def to(example, key):
    return to_minibatch(example, {"input": 3}, {"output": 5}, key)

run(*sys.argv[1:3])
small = peak()
run(*sys.argv[3:5])
print(peak() - small)
"""


@pytest.fixture(scope="module")
def archives(tmp_path_factory: pytest.TempPathFactory) -> dict[Path, int]:
    """A small and a large one, and how many examples are in them."""
    example = frame_example(np.random.default_rng(0), frames=4000)  # 120 kB
    found = {}
    for count in (64, 450):
        path = tmp_path_factory.mktemp("archives") / f"{count}.ark"
        with example_writer(f"ark:{path}", EXAMPLES) as writer:
            for number in range(count):
                writer.write(f"eg-{number}", example)
        found[path] = count
    return found


@pytest.mark.parametrize("name", ["ark:{}", "ark:cat {} |"])
def test_an_archive_of_fifty_megabytes(archives: dict[Path, int], name: str) -> None:
    assert max(path.stat().st_size for path in archives) > 50e6
    arguments = [word for path, count in archives.items() for word in (name.format(path), str(count))]
    process = subprocess.run([sys.executable, "-c", SCRIPT, *arguments], capture_output=True, text=True)
    assert process.returncode == 0, process.stderr
    assert float(process.stdout) < 20, "megabytes more for the large archive than for the small one"
