"""When models are kept for the final combination."""

from __future__ import annotations

from pathlib import Path

import pytest

import nnet3
from nnet3.errors import Nnet3Error
from nnet3.training.runs.snapshots import Snapshots

NNET = nnet3.Nnet.from_config(
    """
    input-node name=input dim=1
    component name=a type=AffineComponent input-dim=1 output-dim=1
    component-node name=a component=a input=input
    output-node name=output input=a
    """
)


@pytest.mark.parametrize(
    ("models", "part", "steps", "expected"),
    [
        (4, 0.5, 16, [10, 12, 14, 16]),
        (4, 1.0, 16, [4, 8, 12, 16]),
        (1, 0.5, 7, [7]),
        (20, 0.5, 8, [5, 6, 7, 8]),  # not more than there are
        (0, 0.5, 8, []),
        (3, 0.3, 7, [6, 7]),
    ],
)
def test_snapshots_are_evenly_spread(models: int, part: float, steps: int, expected: list[int]) -> None:
    snapshots = Snapshots(Path("."), models, part)
    assert [step for step in range(1, steps + 1) if snapshots.are_due((step - 1) / steps, step / steps)] == expected


def test_only_the_last_snapshots_are_kept(tmp_path: Path) -> None:
    snapshots = Snapshots(tmp_path / "models", 3, 0.5)
    snapshots.prepare()
    for step in (5, 7, 9):
        NNET.save(snapshots.path(step))
    (snapshots.folder / "notes.txt").touch()
    snapshots.prepare()
    assert [path.name for path in snapshots.newest_first([5, 9, 7])] == [f"00000000{step}.raw" for step in (9, 7, 5)]
    snapshots.remove_others([5, 9])
    assert sorted(path.name for path in snapshots.folder.iterdir()) == ["000000005.raw", "000000009.raw", "notes.txt"]


def test_a_folder_only_where_models_are_kept(tmp_path: Path) -> None:
    Snapshots(tmp_path / "models", 0, 0.5).prepare()
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "models").touch()
    with pytest.raises(Nnet3Error, match=r"models: models cannot be kept here: File exists"):
        Snapshots(tmp_path / "models", 1, 0.5).prepare()


def test_a_model_that_is_gone_meanwhile_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "glob", lambda folder, pattern: iter([folder / "000000005.raw"]))
    Snapshots(tmp_path, 1, 0.5).remove_others([])
    assert list(tmp_path.iterdir()) == []
