"""Every golden component case: files, description, arithmetic, gradients, updates and statistics as Kaldi has them."""

from __future__ import annotations

from pathlib import Path

import pytest

from nnet3.components import COMPONENT_TYPES
from tests.components.golden_harness import check_golden, type_of_case
from tests.shared_data import golden_cases


@pytest.mark.parametrize("path", golden_cases("component"), ids=lambda path: path.name)
def test_case_agrees_with_kaldi(path: Path, tmp_path: Path) -> None:
    assert type_of_case(path) in COMPONENT_TYPES
    check_golden(path, tmp_path)
