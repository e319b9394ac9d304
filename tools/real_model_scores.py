"""Ivectors and scores of the recognizer in the wheel, written down while it listens, beside ours."""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from nnet3.asr import FeatureStream, ModelFolder, OnlineIvectors
from tools.real_model_speech import read_wave

# Fifteen steps of conjugate gradients do not converge: a last bit of the features changes ivectors by up to 1e-3.
TOLERANCE = 3e-3
_PIECE = 0.2  # seconds

LISTEN = """
import sys, wave
import vosk
vosk.SetLogLevel(-1)
with wave.open(sys.argv[2]) as file:
    recognizer = vosk.KaldiRecognizer(vosk.Model(sys.argv[1]), file.getframerate())
    recognizer.AcceptWaveform(file.readframes(file.getnframes()))
    recognizer.FinalResult()
"""


class _Record(NamedTuple):
    kind: str
    number: int
    values: npt.NDArray[np.float32]  # (rows, columns)
    frames: npt.NDArray[np.int64]  # of changes of weights


def compare_scores(
    model: Path, folder: Path, sentences: list[Path], report: Callable[[str, bool], None], say: Callable[[str], None]
) -> None:
    """Report how far ivectors and scores of sentences are from those in the wheel; `model` has no dither."""
    compiler = shutil.which("g++")
    if compiler is None:
        say("without g++ the recognizer's ivectors and scores cannot be compared")
        return
    hook = folder / "hook.so"
    source = Path(__file__).with_name("vosk_hook.cc")
    old_strings = "-D_GLIBCXX_USE_CXX11_ABI=0"  # those of the wheel
    subprocess.run([compiler, "-shared", "-fPIC", old_strings, str(source), "-o", str(hook), "-ldl"], check=True)
    for number, sentence in enumerate(sentences, start=1):
        ivectors, scores = _differences(model, sentence, list(_listen(model, folder, hook, sentence)))
        text = f"sentence {number}: ivectors differ by {ivectors:.1e} of their size, scores by {scores:.1e}"
        report(text, max(ivectors, scores) <= TOLERANCE)


def _listen(model: Path, folder: Path, hook: Path, sentence: Path) -> Iterator[_Record]:
    """Yields what the recognizer in the wheel computes of a sentence."""
    python, log = folder / "env" / "bin" / "python", folder / "hook.log"
    (library,) = folder.glob("env/lib/python*/site-packages/vosk/libvosk.so")
    names = {"LD_PRELOAD": str(hook), "HOOK_LIBRARY": str(library), "HOOK_LOG": str(log)}
    subprocess.run([str(python), "-c", LISTEN, str(model), str(sentence)], check=True, env=os.environ | names)
    contents, at = log.read_bytes(), 0
    while at < len(contents):
        kind = chr(contents[at])
        first, second = struct.unpack_from("<ii", contents, at + 1)
        rows, columns = {"W": (second, 2), "G": (1, second), "C": (second, first)}[kind]
        values = np.frombuffer(contents, "<f4", rows * columns, at + 9).reshape(rows, columns)
        at += 9 + values.nbytes
        yield _Record(kind, first, values, values[:, 0].copy().view("<i4").astype(np.int64))


def _differences(model: Path, sentence: Path, records: list[_Record]) -> tuple[float, float]:
    """Returns the relative differences of ivectors and of scores; frames have the weights that they have there."""
    front = ModelFolder(model).load()
    assert front.ivectors is not None
    samples, rate = read_wave(sentence.read_bytes())
    piece, given = int(_PIECE * rate), 0
    features, ivectors = FeatureStream(front.features, rate), OnlineIvectors(front.ivectors, weighted=True)
    stream = front.computer().open()
    new, theirs, ours, rows = [], [], [], []
    for record in records:
        if record.kind == "W":
            while ivectors.ready < record.number:
                last = given >= len(samples)
                new.append(features.accept(samples[given : given + piece].astype(np.float32), last))
                ivectors.accept(new[-1], last)
                given += piece
            ivectors.weigh(record.frames, record.values[:, 1].astype(np.float64))
        elif record.kind == "G":
            theirs.append(record.values[0])
            ours.append(ivectors.at(record.number))
            if new:
                rows.append(stream.accept(np.concatenate(new), ours[-1]).numpy())
                new = []
    rows.append(stream.finish().numpy())
    scores, expected = np.concatenate(rows), np.concatenate([each.values for each in records if each.kind == "C"])
    return _relative(np.stack(ours), np.stack(theirs)), _relative(scores, expected[: len(scores)])


def _relative(ours: npt.NDArray[np.float32], theirs: npt.NDArray[np.float32]) -> float:
    return float(np.linalg.norm(ours - theirs) / np.linalg.norm(theirs))
