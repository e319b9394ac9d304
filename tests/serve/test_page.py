"""The page of the server in a real browser, with a recording as microphone."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from nnet3.asr import Model
from nnet3.options import ServeOptions
from nnet3.serve import Server
from tests.asr.small_recognizer import RATE, write_recognizer
from tools.page_of_server import Page, browser, listen
from tools.real_model_speech import write_wave


@pytest.mark.skipif(browser() == "", reason="no Chromium is installed")
def test_words_appear_while_a_recording_is_heard(tmp_path: Path) -> None:
    """Two tones, each of which is a word, over and over; whoever stops gets the rest."""
    time = np.arange(RATE // 2) / RATE
    tones = [8000 * np.sin(2 * np.pi * pitch * time) for pitch in (1800, 300)]
    write_wave(tmp_path / "talk.wav", np.concatenate([*tones, np.zeros(2 * RATE)]), RATE)
    with Server(Model(write_recognizer(tmp_path / "model")), ServeOptions(port=0)) as server:
        host, port = server.address
        with Page(f"http://{host}:{port}/", tmp_path / "talk.wav") as page:
            heard = listen(page)
            assert {word for text in heard for word in text.split()} <= {"high", "low"}
            assert heard != []
            assert page.evaluate("getComputedStyle(hint).display") == "none", "it makes room for words"
            assert page.evaluate("model.textContent") != ""
            assert page.screenshot().startswith(b"\x89PNG")
