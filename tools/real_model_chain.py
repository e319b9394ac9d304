"""Tunes a deployed model by `nnet3 tune`, on strings of digits with transcripts in the words that the model has."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

import nnet3
from tools.real_model_speech import RATE, read_wave, resample, write_wave

STRINGS = 40
NOISE = 3.0  # of samples of 16 bits: nobody records zeros
# The model has no word that sounds more like nine than the last one.
DIGITS = ("제로", "원", "투", "쓰리", "포", "파이브", "식스", "세븐", "에이트", "라인")
_OBJECTIVES = re.compile(r"objective per frame: (\S+) before, (\S+) after")
_RATES = re.compile(r"word error rate: .*")


def utterances(recordings: Path, count: int) -> Iterator[tuple[str, np.ndarray]]:
    """Strings of five digits, each by one speaker: keys such as george-31415 and samples at 16 kHz."""
    with zipfile.ZipFile(recordings) as archive:
        names = [re.fullmatch(r".*/(\d)_([a-z]+)_(\d+)\.wav", name) for name in archive.namelist()]
        speakers = sorted({name[2] for name in names if name})
        rng = np.random.default_rng(0)
        for number in range(count):
            speaker, digits = speakers[number % len(speakers)], rng.integers(0, 10, 5)
            take = number // len(speakers)
            pieces = [read_wave(archive.read(f"recordings/{digit}_{speaker}_{take}.wav")) for digit in digits]
            rate = pieces[0][1]
            samples = np.concatenate([np.append(piece, np.zeros(rate // 10)) for piece, _ in pieces])
            loud = resample(samples, rate)
            yield f"{speaker}-{''.join(map(str, digits))}", loud + NOISE * rng.standard_normal(len(loud))


def write_data(recordings: Path, folder: Path) -> None:
    """Writes wav.scp, text and recordings."""
    folder.mkdir(parents=True, exist_ok=True)
    scp, text = [], []
    for key, samples in utterances(recordings, STRINGS):
        path = folder / f"{key}.wav"
        write_wave(path, samples, RATE)
        scp.append(f"{key} {path}\n")
        text.append(f"{key} {' '.join(DIGITS[int(digit)] for digit in key.rpartition('-')[2])}\n")
    (folder / "wav.scp").write_text("".join(scp))
    (folder / "text").write_text("".join(text), encoding="utf-8")


def tune_sequences(source: Path, recordings: Path, folder: Path, report: Callable[[str, bool], None]) -> Path:
    """Tunes the model in `source`; returns the tuned model's file."""
    tuned = folder / "tuned"
    shutil.rmtree(tuned, ignore_errors=True)  # of a run before
    write_data(recordings, folder / "data")
    command = [sys.executable, "-m", "nnet3", "tune", "--held-out-share=0.2", source, folder / "data", tuned]
    print("nnet3", *map(str, command[3:]), flush=True)
    done = subprocess.run(list(map(str, command)), stdout=subprocess.PIPE, text=True, check=False)
    objectives, rates = _OBJECTIVES.search(done.stdout), _RATES.search(done.stdout)
    if done.returncode != 0 or objectives is None or rates is None:
        raise SystemExit(done.stdout)
    before, after = map(float, objectives.groups())
    report(f"LF-MMI: objective on held-out utterances {before:.4f} -> {after:.4f} per frame", after > before)
    report(f"LF-MMI: held-out {rates[0]}", True)
    path = tuned / "am" / "final.mdl"
    report(f"LF-MMI: {path.name} has the form of the original", _same_form(source / "am" / "final.mdl", path))
    return path


def _same_form(original: Path, tuned: Path) -> bool:
    """Whether two files say the same but for numbers: the same text once these are taken out."""
    forms = []
    for path in (original, tuned):
        text = tuned.with_name("form.txt")
        model = nnet3.load(path)
        model.save(text, binary=False)
        words = [word for word in text.read_text().split() if not re.fullmatch(r"[-+0-9.e]+|-?nan|-?inf", word)]
        forms.append((words, path.stat().st_size))
        text.unlink()
    return forms[0] == forms[1]
