"""Archives as data of a run: parts of an epoch, positions, shares of processes, held-out examples."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import nnet3
from nnet3.errors import Nnet3Error
from nnet3.train.run.archives import ArchivesSection
from nnet3.train.run.frames import FramesKind
from nnet3.train.run.plugs import DataSource, Share
from train.run.task import Task


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
    path = task.folder / "train.ark"
    before = _open(task).identity()
    assert before == {"training examples": 100, "minibatches": 12, f"size of {path}": path.stat().st_size}
    task.write_examples(task.folder / "train.ark", 99, 1)
    assert _open(task).identity() != before


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"train": ()}, "expected tables of training examples such as ark:train.ark, got none"),
        ({"train": ("ark:none.ark",)}, "none.ark"),
        ({"train": ("none.ark",)}, "none.ark"),
        ({"valid": ("ark:none.ark",)}, "none.ark"),
        ({"combine": ("ark:/dev/null",)}, "there are no minibatches in ark:/dev/null"),
        ({"minibatch_size": "60"}, "100 training examples make 1 minibatches of size 60, too few for 2 processes"),
    ],
)
def test_mistakes(task: Task, values: dict[str, Any], message: str) -> None:
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
