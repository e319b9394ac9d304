"""Archives as data of a run: parts of an epoch, positions, shares of processes, held-out examples."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

import nnet3
from nnet3.errors import Nnet3Error
from nnet3.examples import EXAMPLES, ExampleReader, example_writer
from nnet3.training.examples.source import MinibatchSource, SourceOptions
from nnet3.training.runs import archives
from nnet3.training.runs.archives import FramesKind
from nnet3.training.runs.data_kinds import ArchivesSection
from nnet3.training.runs.interfaces import DataSource, Share
from tests.runs.task import Task


def _open(task: Task, share: Share | None = None, **values: Any) -> DataSource:
    folder = task.folder
    tables = {"train": (f"ark:{folder}/train.ark",), "valid": (f"ark:{folder}/valid.ark",)}
    section = ArchivesSection(**{**tables, "minibatch_size": "8", **values})
    return FramesKind().open(section, nnet3.Nnet.from_config_file(folder / "net.config"), share or Share(), 0)


def _keys(source: DataSource, epoch: int = 0, position: Any = None) -> list[str]:
    return [placed.minibatch.key for placed in source.training(epoch, position)]


def test_parts_of_an_epoch_and_positions(task: Task) -> None:
    source = _open(task)
    placed = list(source.training(0, None))
    assert [each.done for each in placed] == pytest.approx([number / 12 for number in range(1, 13)])
    assert placed[-1].done == 1.0
    counts = source.counts()
    assert counts.keys() == {"discarded", "idle_share"}  # nothing is damaged
    assert counts["discarded"] == 4
    assert 0 <= counts["idle_share"] <= 1
    keys = [each.minibatch.key for each in placed]
    assert len(set(keys)) == 12
    assert all("and 5 more" in key for key in keys)
    assert _keys(source, 0, placed[4].position) == keys[5:]
    assert _keys(source, 0, placed[-1].position) == []
    assert _keys(source, 1) != keys
    assert _keys(_open(task)) == keys


def test_processes_share_minibatches(task: Task) -> None:
    alone = _keys(_open(task))
    shares = [_keys(_open(task, Share(rank, 2))) for rank in range(2)]
    assert [key for pair in zip(*shares, strict=True) for key in pair] == alone


def test_examples_may_be_minibatches_already(task: Task) -> None:
    source = _open(task, minibatch_size="as-it-is")
    assert len(_keys(source)) == 100
    assert source.identity()["minibatches"] == 100


def test_held_out_examples(task: Task) -> None:
    source = _open(task)
    assert [minibatch.num_sequences for minibatch in source.validation()] == [20]
    assert [minibatch.num_sequences for minibatch in source.combination()] == [20]
    assert [m.num_sequences for m in _open(task, valid_minibatch_size="8,4").validation()] == [8, 8, 4]
    assert list(_open(task, valid=()).validation()) == []
    other = _open(task, combine=(f"ark:{task.folder}/train.ark",)).combination()
    assert [minibatch.num_sequences for minibatch in other] == [64, 36]


def test_identity_changes_with_the_data(task: Task) -> None:
    """Also if examples come in another order, or have other numbers, and all sizes are as before."""
    path = task.folder / "train.ark"
    before = _open(task).identity()
    table = f"checksum of ark:{path}"
    assert before == {"training examples": 100, "minibatches": 12, table: before[table]}
    assert _open(task).identity() == before
    with ExampleReader(f"ark:{path}", EXAMPLES) as reader:
        entries = list(reader)
    with example_writer(f"ark:{path}", EXAMPLES) as writer:
        for key, example in [entries[1], entries[0], *entries[2:]]:
            writer.write(key, example)
    assert _open(task).identity() == before | {table: _open(task).identity()[table]} != before
    for count, seed in ((100, 2), (99, 1)):
        task.write_examples(path, count, seed)
        assert _open(task).identity() != before


def test_settings_reach_the_readers(task: Task, monkeypatch: pytest.MonkeyPatch) -> None:
    """Examples are counted and held-out ones read in their order, and whole: only training is shuffled and shared."""
    made: list[tuple[tuple[str, ...], SourceOptions]] = []

    class Source(MinibatchSource[Any, Any]):
        def __init__(self, tables: Any, kind: Any, prepare: Any, options: SourceOptions, *others: Any, **named: Any):
            made.append((tuple(tables), options))
            super().__init__(tables, kind, prepare, options, *others, **named)

    monkeypatch.setattr(archives, "MinibatchSource", Source)
    train, valid = (f"ark:{task.folder}/{name}.ark" for name in ("train", "valid"))
    section = ArchivesSection(
        (train,), (valid,), (), "8", valid_minibatch_size="4", shuffle_buffer=17, on_damage="skip", ahead=3
    )
    nnet = nnet3.Nnet.from_config_file(task.folder / "net.config")
    source = FramesKind().open(section, nnet, Share(1, 2), 11)
    count = SourceOptions("8", on_damage="skip", ahead=3, seed=11, rank=1, num_ranks=2)
    held_out = dataclasses.replace(count, minibatch_size="4", rank=0, num_ranks=1)
    training = dataclasses.replace(count, shuffle_buffer=17)
    assert made == [((train,), count), ((valid,), held_out), ((train,), training)]
    assert [minibatch.num_sequences for minibatch in source.combination()] == [4] * 5
    assert made[3:] == [((valid,), held_out)]
    placed = list(source.training(0, None))
    assert [each.position for each in placed] == [1, 2, 3, 4, 5, 6]
    assert [each.done for each in placed] == pytest.approx([k / 6 for k in range(1, 7)])
    assert all(len(each.keys) == 8 and each.minibatch.key.startswith(each.keys[0]) for each in placed)
    assert source.identity()["minibatches"] == 6


def test_time_waited_is_rounded(task: Task) -> None:
    source: Any = _open(task)
    source._idle_share = 0.123456789
    assert source.counts() == {"idle_share": 0.12346}


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"train": ()}, "expected tables of training examples such as ark:train.ark, got none"),
        ({"train": ("ark:none.ark",)}, "none.ark"),
        ({"train": ("none.ark",)}, "none.ark"),
        ({"valid": ("ark:none.ark",)}, "none.ark"),
        ({"train": ("ark:/dev/null",)}, "train: there are no minibatches in ark:/dev/null: 0 examples, 0 damaged, "),
        ({"valid": ("ark:/dev/null",)}, "valid: there are no minibatches in ark:/dev/null: 0 examples, 0 damaged, "),
        ({"combine": ("ark:/dev/null",)}, "combine: there are no minibatches in ark:/dev/null: 0 examples, 0 damaged"),
        (
            {"minibatch_size": "60"},
            "train.ark: 100 examples, 0 damaged, minibatch size 60 for each of 2 processes\n"
            "  100 examples of input (6 rows, t = -1 to 4), output (4 rows, t = 0 to 3) did not fill a minibatch",
        ),
        ({"valid_minibatch_size": "64"}, "valid: there are no minibatches in ark:"),
    ],
)
def test_mistakes_are_named(task: Task, values: dict[str, Any], message: str) -> None:
    with pytest.raises(Nnet3Error) as error:
        _open(task, Share(0, 2), **values)
    assert message in str(error.value)


def test_a_network_without_the_nodes(task: Task) -> None:
    config = (task.folder / "net.config").read_text().replace("name=output", "name=outputs")
    Path(task.folder / "net.config").write_text(config)
    with pytest.raises(
        Nnet3Error, match="has 'output', but the network has the inputs 'input' and the outputs 'outputs'"
    ):
        _keys(_open(task))
