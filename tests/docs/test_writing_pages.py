"""The short pages on what one adds: a node, a layer, an emitter, a native operation. They do what they say."""

from __future__ import annotations

import ctypes
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch

import nnet3
from nnet3.base.native.library import library
from nnet3.base.native.operations import STAYS
from nnet3.cn.operation_types import OPERATIONS
from nnet3.components import COMPONENT_TYPES
from nnet3.export.emitter_table import EMITTERS
from nnet3.xconfig import LAYER_TYPES
from tests.docs.doctest_page import DOCS, run_page
from tests.docs.shown_page import run_shown_page
from tests.native.native_code import needs_native_code

NATIVE = Path(nnet3.__file__).parent / "base/native"
REGISTRIES: list[dict[str, Any]] = [OPERATIONS, COMPONENT_TYPES, EMITTERS, LAYER_TYPES]


@pytest.fixture(autouse=True)
def own_types(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What a page registers is forgotten after it, and its files lie in a folder of its own."""
    monkeypatch.chdir(tmp_path)
    known = [dict(registry) for registry in REGISTRIES]
    yield
    for registry, before in zip(REGISTRIES, known, strict=True):
        registry.clear()
        registry.update(before)


def test_a_node_of_computational_networks() -> None:
    assert run_page("writing_a_cn_node.md") == 6
    assert "bump" in OPERATIONS


def test_an_xconfig_layer() -> None:
    names, shown = run_shown_page("writing_an_xconfig_layer.md")
    assert shown == 2
    assert LAYER_TYPES["skip-layer"] is names["SKIP"]


def test_an_onnx_emitter(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    _, shown = run_shown_page("writing_an_onnx_emitter.md")
    assert shown == 3
    assert sorted(path.name for path in tmp_path.iterdir()) == ["cubic.onnx", "power4.onnx"]


@needs_native_code
def test_a_native_operation() -> None:
    _, shown = run_shown_page("writing_a_native_operation.md")
    assert shown == 1


def _changed() -> dict[str, str]:
    """Returns the files of native/ with the diffs of the page applied, each where its old lines stand, once."""
    texts = {name: (NATIVE / name).read_text() for name in ("operations.c", "operations.py", "codes.py")}
    page = (DOCS / "writing_a_native_operation.md").read_text()
    diffs = re.findall(r"^```diff\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    assert len(diffs) == 3
    for diff in diffs:
        lines = diff.splitlines()
        old, new = ("".join(f"{line[1:]}\n" for line in lines if line[:1] != skipped) for skipped in "+-")
        (name,) = [name for name, text in texts.items() if text.count(old) == 1]
        texts[name] = texts[name].replace(old, new)
    return texts


@needs_native_code
def test_the_new_native_operation_computes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiler = next(filter(shutil.which, ("cc", "gcc", "clang")), None)
    if compiler is None:
        pytest.skip("there is no C compiler of the system")
    texts, built = _changed(), tmp_path / "changed.so"
    (tmp_path / "operations.c").write_text(texts["operations.c"])
    others = "cells.c", "layers.c", "panels.c", "amx.c"
    sources = [str(tmp_path / "operations.c"), *(str(NATIVE / name) for name in others)]
    codes, module, whole = ModuleType("changed_codes"), ModuleType("changed_operations"), library()
    assert whole is not None
    exec(compile(texts["codes.py"], "codes.py", "exec"), vars(codes))
    flags = "-O0", "-shared", "-fPIC", f"-I{NATIVE}", *codes.DEFINITIONS
    subprocess.run([compiler, *flags, "-o", str(built), *sources, "-lm"], check=True)
    monkeypatch.setitem(sys.modules, "nnet3.base.native.codes", codes)
    exec(compile(texts["operations.py"], "operations.py", "exec"), vars(module))
    x, y = torch.tensor([[-3.0, 0.0, 1.0], [7.0, -0.5, torch.nan]]), torch.empty(2, 3)
    rows, moves = np.array(module.softsign(y, x), np.int64), np.array([STAYS], np.int64)
    run = ctypes.CDLL(str(built)).nnet3_run
    run.argtypes, run.restype = whole.nnet3_run.argtypes, None
    run(rows.ctypes.data, moves.ctypes.data, None, 0, 1, 0, 1, None, 1)
    torch.testing.assert_close(y, torch.nn.functional.softsign(x), equal_nan=True)
    assert rows[0, 0] == len(codes.Code) - 1
