"""Bugs are planted in every file of every room."""

from __future__ import annotations

from collections import Counter

from tests.effort import nightly
from tests.native.native_code import needs_native_code
from tools.plant.rooms import ROOMS, paths_of, planted, room_of


@nightly
@needs_native_code
def test_every_room_gets_bugs() -> None:
    bugs = planted(5, seed=0)
    counts = Counter(room_of(bug).name for bug in bugs)
    assert counts.keys() == {room.name for room in ROOMS}
    assert sum(counts[room.name] for room in ROOMS if not room.is_proof) >= 150
    of_files = Counter(bug.path for bug in bugs)
    assert set(of_files.values()) <= {1, 2, 3, 4, 5}
    assert len({bug.path for bug in bugs[: len(of_files)]}) == len(of_files), "the first ones of all files come first"


def test_rooms_are_apart() -> None:
    paths = [path for room in ROOMS for path in paths_of(room)]
    assert len(set(paths)) == len(paths)
    assert {bug.path for bug in planted(1, 0, "row_moves")} == {"src/nnet3/engine/runtime/row_moves.py"}
