"""A folder with the page, a network and a recording; and what the page shows in a headless browser."""

from __future__ import annotations

import json
import shutil
import subprocess
import wave
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

import nnet3
from nnet3.speech.features.features import FeatureStream, read_feature_options

HERE = Path(__file__).parent
CONF = HERE / "fbank.conf"
CHUNK = {"frames_per_chunk": 21, "frame_subsampling_factor": 3}
_ENGINE = HERE / "node_modules" / "onnxruntime-web" / "dist"
_BROWSERS = ("chromium", "chromium-browser", "google-chrome")


def missing() -> str:
    """Returns what is not installed that the page needs, or ""."""
    lacks = [] if _browser() else [f"a browser ({', '.join(_BROWSERS)})"]
    lacks += [] if shutil.which("node") else ["node"]
    lacks += [] if _ENGINE.is_dir() else [f"the packages of {HERE.name}/package.json: run npm ci there"]
    return "; ".join(lacks)


def write_page(folder: Path, nnet: nnet3.Nnet, samples: np.ndarray, rate: int, labels: Sequence[str]) -> None:
    """Write the page for a network and a recording, (samples,) in the scale of 16 bits; outputs have these labels.

    Any web server can serve the folder.
    """
    folder.mkdir(parents=True, exist_ok=True)
    about = nnet3.export_onnx(nnet, folder / "model.onnx", streaming=True, features=f"fbank:{CONF}", **CHUNK)
    (folder / "page.json").write_text(json.dumps({"about": asdict(about), "labels": list(labels)}))
    with wave.open(str(folder / "recording.wav"), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(rate)
        file.writeframes(samples.astype("<i2").tobytes())
    (folder / "ort").mkdir(exist_ok=True)
    for name in ("ort.wasm.min.mjs", "ort-wasm-simd-threaded.mjs", "ort-wasm-simd-threaded.wasm"):
        shutil.copy(_ENGINE / name, folder / "ort")
    for name in ("index.html", "page.mjs", "stream.mjs"):
        shutil.copy(HERE / name, folder)


def watch(folder: Path, screenshot: Path | None = None) -> tuple[np.ndarray, list[str]]:
    """Opens the page in a headless browser; returns the rows of its network, (rows, dim), and the words that it heard.

    Raises RuntimeError if the page says that something is wrong.
    """
    command = ["node", str(HERE / "watch.mjs"), str(folder), _browser(), *([str(screenshot)] if screenshot else [])]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    result: dict[str, Any] = json.loads(done.stdout) if done.returncode == 0 else {"error": done.stderr}
    if "error" in result:
        raise RuntimeError(result["error"])
    return np.array(result["rows"], np.float32), result["words"]


def expected(nnet: nnet3.Nnet, samples: np.ndarray, rate: int) -> np.ndarray:
    """Returns the rows that nnet3 computes of features of kaldi-native-fbank."""
    features = FeatureStream(read_feature_options(CONF, "fbank"), rate).accept(samples.astype(np.float32), last=True)
    rows: np.ndarray = nnet3.StreamComputer(nnet, **CHUNK).compute(features).numpy()
    return rows


def _browser() -> str:
    return next(filter(None, map(shutil.which, _BROWSERS)), "")
