"""The rooms in which bugs are planted: their files, and the stages in which a bug can show."""

from __future__ import annotations

import itertools
from enum import Enum, auto
from typing import NamedTuple

from nnet3.base.native.library import library
from tools.mutation.mutant import Mutant
from tools.plant.bugs import bugs_of
from tools.plant.planting import ROOT


class Stage(Enum):
    """What is made of a case: programs, which are proved; plans, which are proved; numbers of native code."""

    PROGRAMS = auto()
    PLANS = auto()
    NATIVE = auto()


class Room(NamedTuple):
    name: str
    files: tuple[str, ...]  # patterns of paths in src/nnet3
    stages: tuple[Stage, ...]
    tests: str = ""  # of a proof: then the room's bugs are mistakes of proofs, not of what is proved

    @property
    def is_proof(self) -> bool:
        return self.tests != ""


ROOMS = (
    Room("lowering", ("engine/lowering/*.py",), (Stage.PROGRAMS,)),
    Room("passes", ("engine/ir/passes/*.py",), (Stage.PROGRAMS,)),
    Room(
        "families and restriction",
        ("engine/families/*.py", "engine/driver/ragged_family.py", "engine/driver/program_family.py"),
        (Stage.PROGRAMS, Stage.PLANS),
    ),
    Room(
        "planner",
        tuple(f"engine/runtime/{name}.py" for name in (
            "planner", "rules", "row_moves", "row_blocks", "row_planner", "ragged_plans", "packing", "unplaced_plan",
            "plan_family", "member_planner", "planning",
        )),
        (Stage.PLANS,),
    ),
    Room(
        "native operations",
        (
            "engine/runtime/native_*.py",
            "engine/runtime/view_operations.py",
            "base/native/operations.py",
            "base/native/ranges.py",
        ),
        (Stage.NATIVE,),
    ),
    Room("proof of programs", ("engine/ir/proof/*.py",), (Stage.PROGRAMS,), "tests/ir/proof"),
    Room(
        "proof of plans",
        ("engine/runtime/proof.py", "engine/runtime/plan_m*.py"),
        (Stage.PLANS,),
        "tests/runtime/test_proof.py",
    ),
)  # fmt: skip


def paths_of(room: Room) -> list[str]:
    """Returns the files of a room, none of native code where there is none."""
    if Stage.NATIVE in room.stages and library() is None:
        return []
    found = [path for pattern in room.files for path in sorted((ROOT / "src/nnet3").glob(pattern))]
    return [str(path.relative_to(ROOT)) for path in found]


def room_of(bug: Mutant) -> Room:
    return next(room for room in ROOMS if bug.path in paths_of(room))


def planted(each: int, seed: int, only: str = "") -> list[Mutant]:
    """Returns `each` bugs of every file, or of those whose path or room has `only` in it: first one of each file."""
    names = [name for room in ROOMS for name in paths_of(room) if only in name or only in room.name]
    of_files = [bugs_of(name, (ROOT / name).read_text(), each, seed) for name in names]
    return [bug for bugs in itertools.zip_longest(*of_files) for bug in bugs if bug is not None]
