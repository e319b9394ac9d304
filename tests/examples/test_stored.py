"""Examples of known places: the same minibatches, of which only the used ones are read."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nnet3.base.kaldi_io.reader import Reader
from nnet3.errors import TrainingError
from nnet3.examples import EXAMPLES, Example, example_writer
from nnet3.training.examples.source import MinibatchSource, Position, Prepared, SourceOptions
from tests.train.example_data import frame_example, written

Source = MinibatchSource[Example, bytes]


@pytest.fixture
def archives(tmp_path: Path) -> list[str]:
    rng = np.random.default_rng(0)
    for number, form in ((1, "ark"), (2, "ark,t")):
        with example_writer(f"{form}:{tmp_path}/{number}.ark", EXAMPLES) as writer:
            for place in range(25):
                writer.write(f"{number}-{place}", frame_example(rng, frames=4 + place % 2))
    return [f"ark:{tmp_path}/{number}.ark" for number in (1, 2)]


def _prepare(example: Example, key: str) -> bytes:
    return key.encode() + written(example)


def _weighted(example: Example, number: int) -> Example:
    return EXAMPLES.weighted(example, 1.0 + number)


def _later(example: Example, epoch: int) -> Example:
    moved = (replace(io, indexes=io.indexes + np.array([0, epoch, 0], np.int32)) for io in example.ios)
    return Example(tuple(moved))


def _with_places(archives: list[str], options: dict[str, Any], **more: Any) -> Source:
    counted = MinibatchSource(archives, EXAMPLES, _prepare, SourceOptions(**options), of_table=_weighted)
    counted.count()
    return MinibatchSource(
        archives, EXAMPLES, _prepare, SourceOptions(**options), of_table=_weighted, stored=counted.stored, **more
    )


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"minibatch_size": "1:8"},
        {"minibatch_size": "3", "shuffle_buffer": 0, "num_halved": 2},
        {"minibatch_size": "1:4", "shuffle_buffer": 10, "rank": 1, "num_ranks": 3},
        {"shuffle_buffer": 10, "rank": 1, "num_ranks": 2},
    ],
)
@pytest.mark.parametrize("mixed", [None, (25, 25)])
def test_the_same_minibatches(archives: list[str], options: dict[str, Any], mixed: tuple[int, int] | None) -> None:
    more: dict[str, Any] = {"change": _later, "mixed": mixed}
    known = _with_places(archives, options, **more)
    plain: Source = MinibatchSource(archives, EXAMPLES, _prepare, SourceOptions(**options), of_table=_weighted, **more)
    for epoch in (0, 2):
        expected = list(plain.prepared(Position(epoch)))
        assert list(known.prepared(Position(epoch))) == expected
        assert list(known.prepared(Position(epoch, 3))) == expected[3:]
        assert known.statistics.minibatches == plain.statistics.minibatches
        assert known.statistics.num_discarded == plain.statistics.num_discarded


def test_only_what_is_used_is_read(archives: list[str]) -> None:
    places: list[int] = []

    def read(reader: Reader) -> Example:
        places.append(reader.position)
        return EXAMPLES.read(reader)

    kind = replace(EXAMPLES, read=read)
    options = SourceOptions(minibatch_size="1:5", rank=1, num_ranks=5)
    counted = MinibatchSource(archives, kind, _prepare, options)
    counted.count()
    assert len(places) == 50
    places.clear()
    known = MinibatchSource(archives, kind, _prepare, options, stored=counted.stored)
    made: list[Prepared[bytes]] = list(known.prepared(Position(0, 1)))
    assert 0 < len(places) < 10
    assert len(places) == sum(len(each.example_keys) for each in made)


def test_other_tables_are_read_as_before(archives: list[str]) -> None:
    mixed = [archives[0], f"ark:cat {archives[1].removeprefix('ark:')} |"]
    options: dict[str, Any] = {"minibatch_size": "1:8", "shuffle_buffer": 10}
    files, piped = _with_places(archives, options), _with_places(mixed, options)
    expected = [made.minibatch for made in files.prepared(Position())]
    assert [made.minibatch for made in piped.prepared(Position())] == expected


def test_what_is_left_out_stays_left_out(archives: list[str]) -> None:
    path = Path(archives[0].removeprefix("ark:"))
    path.write_bytes(path.read_bytes().replace(b"1-7 \0B<Nnet3Eg> <NumIo> ", b"1-7 \0B<Nnet3Eg> <NumIX> "))
    known = _with_places(archives, {"on_damage": "skip"})
    keys = [key for made in known.prepared(Position()) for key in made.example_keys]
    assert "1-7" not in keys
    assert len(keys) == 49
    assert known.num_damaged == 0  # they were counted, and warned of, by the one that read all


def test_a_file_that_has_changed(archives: list[str]) -> None:
    known = _with_places(archives, {"minibatch_size": "1:8"})
    path = Path(archives[0].removeprefix("ark:"))
    before = path.stat()
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns + 1))
    with pytest.raises(TrainingError, match=r"1\.ark: this file has changed since training began"):
        list(known.prepared(Position()))
    damaged = bytearray(path.read_bytes())
    damaged[200:220] = bytes(20)
    path.write_bytes(damaged)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    with pytest.raises(TrainingError, match=r"1\.ark: the example at byte \d+ cannot be read any more: "):
        list(known.prepared(Position()))
    path.unlink()
    with pytest.raises(TrainingError, match=r"1\.ark: cannot read this file any more: No such file"):
        list(known.prepared(Position()))
