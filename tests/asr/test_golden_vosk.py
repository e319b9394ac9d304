"""All modes in which the wheel heard the recordings of models that are rescored, or not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from nnet3.asr import Model
from tests.asr.golden_vosk import cases_of, check_mode, modes_of, said
from tests.shared_data import needs_shared

CASES = cases_of("vosk")
MODES = [(case, mode) for case in CASES for mode in modes_of(case)]


@needs_shared
def test_there_are_cases() -> None:
    assert len(CASES) == 8


@pytest.fixture(scope="module")
def models() -> dict[Path, Model]:
    return {case: Model(case / "model") for case in CASES}


@pytest.mark.parametrize(("case", "mode"), MODES, ids=[f"{case.name}-{mode['name']}" for case, mode in MODES])
def test_as_the_wheel(models: dict[Path, Model], case: Path, mode: dict[str, Any]) -> None:
    check_mode(case, mode, said(models[case], case, mode))
