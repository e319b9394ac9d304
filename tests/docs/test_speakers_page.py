"""docs/speakers.md: its examples, with a made-up model and made-up voices."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from nnet3.cli.verb import find_program
from tests.docs.doctest_page import DOCS, run_page
from tests.speaker.made_voices import RATE, make_model, voice, wav_bytes


def test_the_page_does_what_it_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    make_model(Path("model"))
    voices = {f"anna.{n}": voice(0, n) for n in (1, 2, 3)} | {"eva.1": voice(3, 1)}
    voices["call"] = np.concatenate([voice(who, 300 + n, 3.0) for n, who in enumerate((0, 3, 0))])
    for name, samples in voices.items():
        Path(f"{name}.wav").write_bytes(wav_bytes(samples.astype(np.float32), RATE))
    assert run_page("speakers.md") > 15


def test_the_programs_of_the_page_are_there() -> None:
    blocks = "\n".join(re.findall(r"^```sh\n(.*?)^```$", (DOCS / "speakers.md").read_text(), re.MULTILINE | re.DOTALL))
    programs = set(
        re.findall(
            r"(?:^|[|:] |[|] *\"|ark:)((?:ivector|compute|apply|select|transform|agglo|make)-[a-z-]+)", blocks, re.M
        )
    )
    assert len(programs) > 10
    assert [program for program in programs if find_program(program) is None] == []
