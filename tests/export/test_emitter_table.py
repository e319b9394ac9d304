"""Every component type as a file: against the executor, by export_onnx itself, and against what Kaldi computed."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest

from nnet3.cn.operation_types import OPERATIONS
from nnet3.components import COMPONENT_TYPES
from nnet3.errors import ExportError
from nnet3.export.emitter_table import EMITTERS
from tests.export.exported import Exported
from tests.export.one_component import check_golden, golden_components
from tools.onnx_page import network_of, sample_of


def test_every_type_has_an_emitter() -> None:
    assert {name for name in EMITTERS if name not in OPERATIONS} == {*COMPONENT_TYPES, "AffineSlice"}


@pytest.mark.parametrize("type_name", COMPONENT_TYPES)
def test_a_sample_of_each_type_agrees_with_the_executor(type_name: str, tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # batch-norm without statistics
        exported = Exported(network_of(sample_of(type_name)), tmp_path, frames_per_chunk=6)
    assert exported.about.output_rows == 6


@golden_components()
def test_golden_components(case: Path, tmp_path: Path) -> None:
    check_golden(case, tmp_path)


def test_a_type_without_emitter_is_refused_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(EMITTERS, "TanhComponent")
    with pytest.raises(ExportError, match=r"^component 'tried': TanhComponent has no form in ONNX$"):
        Exported(network_of(sample_of("TanhComponent")), tmp_path)
    assert list(tmp_path.iterdir()) == []
