"""Programs of others that hear with Vosk, unchanged: SpeechRecognition, the plug-in of OpenVoiceOS, vosk-transcriber.

`compare_programs` runs each twice, with Vosk and with `nnet3.asr` under its name, and compares what they write. This
file is also the script that runs one: `programs.py NAME MODEL recording.wav ...`.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

PACKAGES = ("SpeechRecognition==3.17.0", "ovos-stt-plugin-vosk==0.2.7")
_NAMES = ("speech_recognition", "ovos", "vosk-transcriber")
_FFMPEG = "imageio-ffmpeg==0.6.0"  # has the program in its package
_SHIM = """import sys

import nnet3.asr

nnet3.asr.__path__ = [{place!r}]  # of vosk.transcriber
sys.modules[__name__] = nnet3.asr
"""


def compare_programs(folder: Path, python: Path, model: Path, recordings: Sequence[Path]) -> str:
    """Returns a table: each program, and of how many recordings it writes the same with Vosk and with nnet3."""
    place, ours = folder / "programs", folder / "shim"
    if not place.exists():
        command = [str(python), "-m", "pip", "install", "--quiet", "--target", str(place)]
        subprocess.run([*command, "--no-deps", "vosk==0.3.45"], check=True)
        subprocess.run([*command, *PACKAGES, _FFMPEG], check=True)
        (place / "bin" / "ffmpeg").symlink_to(next((place / "imageio_ffmpeg" / "binaries").glob("ffmpeg*")))
    ours.mkdir(exist_ok=True)
    (ours / "vosk.py").write_text(_SHIM.format(place=str(place / "vosk")))
    lines = ["| program | recordings | same text |", "|---|---|---|"]
    for name in _NAMES:
        theirs = _written(python, [place], name, model, recordings)
        own = _written(Path(sys.executable), [ours, place], name, model, recordings)
        same = sum(left == right for left, right in zip(theirs, own, strict=True))
        lines.append(f"| {name} | {len(recordings)} | {same} |")
    return "\n".join(lines) + "\n"


def _written(python: Path, folders: Sequence[Path], name: str, model: Path, recordings: Sequence[Path]) -> list[str]:
    """Runs a program with these folders before all others of Python; returns a line for each recording."""
    before = os.environ.get("PYTHONPATH")
    path = os.pathsep.join([*map(str, folders), *([before] if before else [])])
    command = [str(python), __file__, name, str(model), *map(str, recordings)]
    programs = os.pathsep.join([str(folders[-1] / "bin"), os.environ.get("PATH", os.defpath)])
    environment = os.environ | {"PYTHONPATH": path, "PATH": programs, "OMP_NUM_THREADS": "1"}
    output = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=environment).stdout
    return output.splitlines()[-len(recordings) :]  # lines of a log may come before them


def _with_speech_recognition(model: str, recordings: Sequence[str]) -> list[str]:
    package = importlib.import_module("speech_recognition")
    link = Path(str(package.__file__)).parent / "models" / "vosk"
    link.parent.mkdir(exist_ok=True)
    with contextlib.suppress(FileExistsError):
        link.symlink_to(model)
    recognizer, texts = package.Recognizer(), []
    for recording in recordings:
        with package.AudioFile(recording) as source:
            texts.append(recognizer.recognize_vosk(recognizer.record(source)))
    return texts


def _with_ovos(model: str, recordings: Sequence[str]) -> list[str]:
    plugin = importlib.import_module("ovos_stt_plugin_vosk").VoskKaldiSTT(config={"model": model, "lang": "ko"})
    audio = importlib.import_module("ovos_plugin_manager.utils.audio")
    texts = []
    for recording in recordings:
        with audio.AudioFile(recording) as source:
            texts.append(plugin.execute(source.read()))
    return texts


def _with_transcriber(model: str, recordings: Sequence[str]) -> list[str]:
    main, texts = importlib.import_module("vosk.transcriber.cli").main, []
    for recording in recordings:
        sys.argv = ["vosk-transcriber", "--model", model, "--input", recording, "--log-level", "ERROR"]
        with contextlib.redirect_stdout(io.StringIO()) as written:
            main()
        texts.append(" ".join(written.getvalue().split()))
    return texts


def main() -> None:
    name, model, *recordings = sys.argv[1:]
    ways = dict(zip(_NAMES, (_with_speech_recognition, _with_ovos, _with_transcriber), strict=True))
    for text in ways[name](model, recordings):
        print(text)


if __name__ == "__main__":
    main()
