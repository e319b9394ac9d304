"""Minibatches epoch by epoch, from any position on."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from nnet3.errors import ArgumentError, TableError, TrainingError
from nnet3.examples import EXAMPLES, Example, example_writer
from nnet3.training.examples.source import MinibatchSource, NoMinibatchesError, Position, Prepared, SourceOptions
from tests.train.example_data import frame_example, written

Source = MinibatchSource[Example, bytes]


@pytest.fixture
def archives(tmp_path: Path) -> list[str]:
    rng = np.random.default_rng(0)
    paths = [tmp_path / f"egs.{number}.ark" for number in (1, 2, 3)]
    for path in paths:
        with example_writer(f"ark:{path}", EXAMPLES) as writer:
            for number in range(25):
                writer.write(f"{path.stem}-{number}", frame_example(rng, frames=4 + number % 2))
    return [f"ark:{path}" for path in paths]


def _source(archives: list[str], **options: object) -> Source:
    return MinibatchSource(
        archives,
        EXAMPLES,
        lambda example, key: key.encode() + written(example),
        SourceOptions(**options),  # type: ignore[arg-type]
    )


def _epoch(source: Source, epoch: int = 0, minibatch: int = 0) -> list[Prepared[bytes]]:
    with source.epoch(Position(epoch, minibatch)) as minibatches:
        return list(minibatches)


@pytest.mark.parametrize("shuffle_buffer", [None, 0, 10])
def test_an_epoch_has_every_example_once(archives: list[str], shuffle_buffer: int | None) -> None:
    source = _source(archives, minibatch_size="1:8", shuffle_buffer=shuffle_buffer)
    keys = [[key for made in _epoch(source, epoch) for key in made.example_keys] for epoch in (0, 0, 1)]
    assert sorted(keys[0]) == sorted(f"egs.{a}-{b}" for a in (1, 2, 3) for b in range(25))
    assert keys[0] == keys[1]
    assert (keys[0] != keys[2]) == (shuffle_buffer is not None)
    assert source.statistics.num_examples == 75
    other = _source(archives, minibatch_size="1:8", shuffle_buffer=shuffle_buffer, seed=1)
    assert (keys[0] != [key for made in _epoch(other) for key in made.example_keys]) == (shuffle_buffer is not None)


def test_any_position_gives_the_rest(archives: list[str]) -> None:
    options = {"minibatch_size": "1:8", "shuffle_buffer": 10}
    whole = _epoch(_source(archives, **options), 2)
    assert [made.position for made in whole] == [Position(2, number) for number in range(1, len(whole) + 1)]
    for done in range(len(whole) + 1):
        assert _epoch(_source(archives, **options), 2, done) == whole[done:]


def test_what_is_skipped_is_not_prepared(archives: list[str]) -> None:
    prepared: list[str] = []
    source = MinibatchSource(
        archives, EXAMPLES, lambda _, key: prepared.append(key), SourceOptions(minibatch_size="1:8")
    )
    list(source.prepared(Position(0, 8)))
    assert [key.split("-")[1] for key in prepared] == ["8", "9"]


def test_archives_come_in_random_order_too(archives: list[str]) -> None:
    """A small buffer alone would leave the beginning of each epoch to the first archive."""
    first = set()
    for epoch in range(12):
        source = _source(archives, minibatch_size="4", shuffle_buffer=2, seed=-1)
        first.add(next(iter(source.prepared(Position(epoch)))).example_keys[0].split("-")[0])
    assert first == {"egs.1", "egs.2", "egs.3"}


def test_examples_that_are_merged_already(archives: list[str]) -> None:
    made = _epoch(_source(archives[:1]))
    assert [minibatch.key for minibatch in made] == [f"egs.1-{number}" for number in range(25)]
    assert all(minibatch.example_keys == (minibatch.key,) for minibatch in made)
    by_two = MinibatchSource(archives[:1], EXAMPLES, lambda example, _: example.num_sequences)
    assert {prepared.minibatch for prepared in by_two.prepared(Position())} == {1}
    assert by_two.statistics.num_examples == 25


def test_what_is_wrong_with_a_minibatch_is_said_of_its_examples(archives: list[str]) -> None:
    def prepare(example: Example, key: str) -> None:
        raise TrainingError(f"{key} is broken")

    source = MinibatchSource(archives[:1], EXAMPLES, prepare, SourceOptions(minibatch_size="5"))
    wanted = r"egs\.1\.ark: a minibatch of egs\.1-0 egs\.1-2 egs\.1-4 and 2 more: merged-0-5 is broken"
    with pytest.raises(TrainingError, match=wanted):
        next(iter(source.prepared(Position())))


@pytest.mark.parametrize("count", [2, 4])
def test_processes_divide_minibatches_of_one_structure(archives: list[str], count: int) -> None:
    """Together they have what one has with minibatches as many times as large, in the same order."""
    alone = _keys_of(_source(archives, minibatch_size=f"{count}:{6 * count}", shuffle_buffer=20))
    ranks = [
        _keys_of(_source(archives, minibatch_size="1:6", shuffle_buffer=20, rank=rank, num_ranks=count))
        for rank in range(count)
    ]
    assert [sum(parts, ()) for parts in zip(*ranks, strict=True)] == alone
    sizes = [[len(keys) for keys in parts] for parts in zip(*ranks, strict=True)]
    assert max(map(max, sizes)) == 6
    assert all(max(each) - min(each) <= 1 for each in sizes)
    assert any(max(each) != min(each) for each in sizes)
    assert all(len({int(key.split("-")[1]) % 2 for key in keys}) == 1 for keys in alone)  # 4 frames, or 5
    source = _source(archives, minibatch_size="1:6", rank=1, num_ranks=count)
    assert source.count()[0] == len(alone)
    assert source.statistics.num_discarded == 75 - sum(map(len, alone))


def _keys_of(source: Source) -> list[tuple[str, ...]]:
    return [made.example_keys for made in _epoch(source)]


def test_examples_that_are_minibatches_go_to_processes_in_turn(archives: list[str]) -> None:
    ranks = [_keys_of(_source(archives[:1], rank=rank, num_ranks=2)) for rank in range(2)]
    assert [keys for pair in zip(*ranks, strict=True) for keys in pair] == [(f"egs.1-{k}",) for k in range(24)]
    assert _source(archives[:1], rank=1, num_ranks=2).count() == (12, 24)


@pytest.mark.parametrize("count", [1, 2])
def test_the_first_minibatches_of_the_first_epoch_may_be_halved(archives: list[str], count: int) -> None:
    options = {"minibatch_size": "1:8", "shuffle_buffer": 20, "num_halved": 3, "num_ranks": count}
    ranks = [_epoch(_source(archives, rank=rank, **options)) for rank in range(count)]
    assert [len(made.example_keys) for made in ranks[0]][:5] == [4, 4, 4, 8, 8]
    keys = [key for parts in zip(*ranks, strict=True) for made in parts for key in made.example_keys]
    assert len(set(keys)) == len(keys)
    done = np.cumsum([sum(len(made.example_keys) for made in parts) for parts in zip(*ranks, strict=True)])
    assert [made.examples_done for made in ranks[0]] == done.tolist()
    later = _epoch(_source(archives, rank=0, **options), 1)
    assert [len(made.example_keys) for made in later][:3] == [8, 8, 8]
    position = Position(0, 2)
    assert _epoch(_source(archives, rank=0, **options), *vars(position).values()) == ranks[0][2:]
    with pytest.raises(ArgumentError, match="made already cannot be halved"):
        SourceOptions(num_halved=1)


def test_changes_by_epoch(archives: list[str]) -> None:
    epochs: set[int] = set()

    def change(example: Example, epoch: int) -> Example:
        epochs.add(epoch)
        return Example(example.ios[:1])

    source = MinibatchSource(
        archives, EXAMPLES, lambda example, _: len(example.ios), SourceOptions(minibatch_size="8"), change
    )
    assert {made.minibatch for made in source.prepared(Position(3))} == {1}
    assert epochs == {3}


def test_damage_is_an_error_or_counted(archives: list[str]) -> None:
    path = Path(archives[1].removeprefix("ark:"))
    path.write_bytes(path.read_bytes().replace(b"egs.2-7 \0B<Nnet3Eg> <NumIo> ", b"egs.2-7 \0B<Nnet3Eg> <NumIX> "))
    with pytest.raises(TableError, match=r"egs\.2\.ark.*the entry 'egs\.2-7': .*egs\.2\.ark: byte \d+: expected"):
        _epoch(_source(archives))
    path = Path(archives[2].removeprefix("ark:"))
    path.write_bytes(path.read_bytes().replace(b"egs.3-24 \0B<Nnet3Eg> ", b"egs.3-24 \0B<Nnet3EX> "))
    source = _source(archives, on_damage="skip")
    for epoch in (1, 2):
        assert len(_epoch(source)) == 73
        assert source.num_damaged == 2 * epoch
    minibatches = source.prepared(Position())
    before = [source.num_damaged for number, _ in enumerate(minibatches) if number in (0, 31, 32)]
    assert before == [4, 4, 5]  # as soon as what comes behind the damage is there


def test_nothing_to_train_on(archives: list[str]) -> None:
    wanted = (
        r"egs\.3\.ark: 75 examples, 0 damaged, minibatch size 999\n  39 examples of input \(6 rows.*\n  36 examples of"
    )
    for fail in (_epoch, Source.count):
        with pytest.raises(NoMinibatchesError, match=wanted):
            fail(_source(archives, minibatch_size="999"))
    with pytest.raises(NoMinibatchesError, match="minibatch size 20 for each of 2 processes"):
        _source(archives, minibatch_size="20", num_ranks=2).count()
    with pytest.raises(ArgumentError, match="no archives"):
        _source([])
    with pytest.raises(ArgumentError, match="rank 2 is none of 2"):
        SourceOptions(rank=2, num_ranks=2)
    with pytest.raises(ArgumentError, match="rank -1 is none of 1"):
        SourceOptions(rank=-1)
    with pytest.raises(ArgumentError, match="expected a number"):
        SourceOptions(minibatch_size="x")
