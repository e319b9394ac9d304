"""docs/api.md: every public name has an example, and all of them do what they say."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

import nnet3
from tests.docs.doctest_page import DOCS, run_page
from tests.shared_data import GOLDEN

PAGE = (DOCS / "api.md").read_text()
PACKAGES = (DOCS / "api_rooms.md").read_text()


def test_the_examples_do_what_they_say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("onnxruntime", reason="examples of export need nnet3[onnx]")
    monkeypatch.chdir(tmp_path)
    shutil.copy(GOLDEN / "mdl" / "1" / "final.mdl", "final.mdl")
    nnet3.load_nnet("final.mdl").save("final.raw")
    assert run_page("api.md") > 50


def test_every_public_name_has_an_example() -> None:
    blocks = dict(re.findall(r"^### nnet3\.(\S+)\n(.*?)(?=^##|\Z)", PAGE, re.MULTILINE | re.DOTALL))
    examples = {
        name.replace("\\", ""): "\n".join(re.findall(r"^>>> .*", block, re.M)) for name, block in blocks.items()
    }
    assert sorted(examples) == sorted(nnet3.__all__)
    assert [name for name, example in examples.items() if not example] == []


def test_every_public_package_is_described() -> None:
    packages = [name for name in nnet3.__all__ if type(getattr(nnet3, name)).__name__ == "module"]
    assert [name for name in packages if f".. automodule:: nnet3.{name}\n" not in PACKAGES] == []
