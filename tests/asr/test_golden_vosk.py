"""All modes in which the wheel heard the recordings of models that are rescored, or not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.asr.golden_vosk import Heard, check_mode, modes_of, said
from tests.rescoring_data import needs_rescoring, rescoring_cases

CASES = rescoring_cases("vosk")
MODES = [(case, mode) for case in CASES for mode in modes_of(case)]


@needs_rescoring
def test_there_are_cases() -> None:
    assert len(CASES) == 8


@pytest.fixture(scope="module")
def heard() -> dict[Path, Heard]:
    return {case: Heard(case) for case in CASES}


@pytest.mark.parametrize(("case", "mode"), MODES, ids=[f"{case.name}-{mode['name']}" for case, mode in MODES])
def test_as_the_wheel(heard: dict[Path, Heard], case: Path, mode: dict[str, Any]) -> None:
    check_mode(case, mode, said(heard[case], mode))
