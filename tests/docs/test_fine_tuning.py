"""docs/fine_tuning.md: its commands run as they stand, with a small model; its defaults are those of the options."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest
import torch

from nnet3 import AcousticModel, load
from nnet3.model.components.base import Component
from nnet3.options import TuningOptions, declared
from tests.asr.small_recognizer import write_recognizer
from tests.asr.spoken_tones import random_words, spoken, wav_bytes
from tests.docs.doctest_page import DOCS

pytest.importorskip("kaldifst")
PAGE = (DOCS / "fine_tuning.md").read_text()


def test_the_commands_run(tmp_path: Path, programs: Path) -> None:
    write_recognizer(tmp_path / "vosk-model-small-ko-0.22")
    recordings = tmp_path / "recordings"
    recordings.mkdir()
    for number in range(10):
        words = random_words(3)
        (recordings / f"talk{number}.wav").write_bytes(wav_bytes(spoken(words)))
        (recordings / f"talk{number}.txt").write_text(" ".join(words) + "\n")
    scripts = re.findall(r"^```sh\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    script = "".join(scripts).replace("name=output*", "name=last*")  # as the layer is called in the small model
    (shown,) = re.findall(r"^```text\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    environment = {**os.environ, "PATH": f"{programs}:{os.environ['PATH']}"}
    command = ["bash", "-c", f"set -euo pipefail\n{script}"]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=tmp_path, check=False)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert [_without_numbers(line) for line in lines[:2]] == [_without_numbers(line) for line in shown.splitlines()]
    assert [line.split()[0] for line in lines[2:12]] == [f"talk{number}" for number in range(10)]
    models = (load(tmp_path / folder / "am/final.mdl") for folder in ("start", "tuned", "tuned-above"))
    before, tuned, above = ([*model.nnet.components.items()] for model in models if isinstance(model, AcousticModel))
    assert _learned(before, tuned) == {"affine", "last"}
    assert _learned(before, above) == {"last"}


def _learned(before: list[tuple[str, Component]], after: list[tuple[str, Component]]) -> set[str]:
    """Returns the components of which a parameter has changed."""
    pairs = [
        (name, *each)
        for (name, old), (_, new) in zip(before, after, strict=True)
        for each in zip(old.parameters().values(), new.parameters().values(), strict=True)
    ]
    return {name for name, old, new in pairs if not torch.equal(old, new)}


def _without_numbers(line: str) -> str:
    return re.sub(r"-?\d+(\.\d+)?", "N", line)


def test_the_defaults_are_those_of_the_options() -> None:
    shown = {name: float(value) for name, value in re.findall(r"^\| `--([\w-]+)` \| ([\d.]+) \|", PAGE, re.MULTILINE)}
    defaults = {item.flag: item.default for item in declared(TuningOptions)}
    assert len(shown) > 4
    assert shown == {name: defaults[name] for name in shown}
    assert f"within a beam of {TuningOptions().retry_beam:g}" in PAGE
