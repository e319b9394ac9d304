"""docs/api.md: every public name has an example, and all of them do what they say."""

from __future__ import annotations

import inspect
import re
import shutil
from pathlib import Path

import numpy as np
import pytest

import nnet3
from nnet3.speech.asr import model_search
from tests.asr.small_recognizer import audio, write_recognizer
from tests.asr.small_speakers import write_speaker_model
from tests.docs.doctest_page import DOCS, run_page
from tests.shared_data import GOLDEN

PAGE = (DOCS / "api.md").read_text()
PACKAGES = (DOCS / "api_rooms.md").read_text()
MODULES = {name for name in nnet3.__all__ if type(getattr(nnet3, name)).__name__ == "module"}


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
    assert [name for name in MODULES if f".. automodule:: nnet3.{name}\n" not in PACKAGES] == []


def test_examples_of_the_packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("kaldi_decoder", "kaldi_native_fbank", "websockets"):
        pytest.importorskip(name, reason="recognizers and servers need nnet3[asr] and nnet3[serve]")
    monkeypatch.chdir(tmp_path)
    write_recognizer(tmp_path / "model")
    write_speaker_model(tmp_path / "speakers")
    (tmp_path / "models/vosk-model-small-xx-0.1").mkdir(parents=True)
    monkeypatch.setattr(nnet3.asr, "MODEL_DIRS", [])
    monkeypatch.setattr(model_search, "MODEL_DIRS", nnet3.asr.MODEL_DIRS)
    monkeypatch.delenv("VOSK_MODEL_PATH", raising=False)
    np.save("sound.npy", audio(2.0))
    assert run_page("api_examples.md") > 60


@pytest.mark.parametrize("package", sorted(MODULES - {"cn"}))
def test_every_name_of_a_package_has_an_example(package: str) -> None:
    """Names of computational networks have a page of their own."""
    text = (DOCS / "api_examples.md").read_text()
    module = getattr(nnet3, package)
    defined = [name for name, value in vars(module).items() if getattr(value, "__module__", "") == module.__name__]
    names = getattr(module, "__all__", None) or [name for name in defined if not name.startswith("_")]
    named = [name for name in names if not inspect.ismodule(getattr(module, name))]
    assert [name for name in named if not re.search(rf"\b{package}\.{name}\b", text)] == []
