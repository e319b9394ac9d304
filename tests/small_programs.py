"""Golden data of Kaldi's small programs: their lines, which are run here, and the files they gave."""

from __future__ import annotations

import numpy as np
import pytest

from tests.road_case import RoadCase, run_good
from tests.shared_data import SHARED

FOLDER = SHARED / "rescoring" / "egs"
needs_small_programs = pytest.mark.skipif(
    not FOLDER.is_dir(), reason=f"the golden data of small programs are not at {FOLDER}"
)
BOUND = 1e-5  # of the golden data's README


def run_case(name: str, commands: str, *inputs: str) -> RoadCase:
    """Runs all lines of a case in the current folder."""
    case = RoadCase(FOLDER / name)
    case.take(*inputs)
    case.compared |= {path.name for path in case.folder.glob("*.log")}
    for line in case.lines(commands):
        run_good(line)
    return case


def largest_difference(ours: np.ndarray, theirs: np.ndarray) -> float:
    """The largest difference, relative where values are above 1, as exponentials of outputs are."""
    assert ours.shape == theirs.shape
    return float((np.abs(ours - theirs) / np.maximum(np.abs(theirs), 1.0)).max(initial=0.0))
