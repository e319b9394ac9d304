"""Recordings to compare recognizers on: synthetic Korean of several voices and speeds, noise, pauses, other rates, and
English digits, for which the model is not made."""

from __future__ import annotations

import json
import subprocess
import zipfile
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tools.real_model_speech import RATE, read_wave, resample, write_wave

SENTENCES = (
    "안녕하세요 반갑습니다",
    "오늘은 날씨가 좋습니다",
    "내일 학교에 갑니다",
    "저는 한국어를 공부하고 있습니다",
    "지금 몇 시입니까",
    "서울에서 부산까지 기차로 세 시간 걸립니다",
    "어제 친구하고 영화를 봤어요",
    "이 음식은 아주 맛있습니다",
    "전화번호를 알려 주세요",
    "회의는 오후 두 시에 시작합니다",
    "우리 가족은 모두 네 명입니다",
    "비가 와서 집에 있었습니다",
)
VOICES = ("ko", "ko+f2", "ko+m3", "ko+f5", "ko+m7", "ko+m1")
SPEEDS = (110, 145, 180)
DIGITS = ("31415", "92653", "67890", "58979", "20481", "77345")
SPEAKERS = ("george", "jackson", "nicolas", "theo", "yweweler", "lucas")
_CLEAN, _NOISY, _LONG, _OTHER_RATE, _DIGITS = 36, 12, 6, 6, 12

Samples = npt.NDArray[np.float64]


class Recording(NamedTuple):
    name: str
    kind: str
    path: Path


def make_corpus(folder: Path, python: Path, digits: Path) -> list[Recording]:
    """Writes the recordings into a folder, those of digits if the ZIP file of the data set is there."""
    folder.mkdir(parents=True, exist_ok=True)
    generator = np.random.default_rng(0)
    clean = _spoken(folder, python)
    made: list[tuple[str, str, Samples, int]] = [
        (f"clean{number:02}", "synthetic speech", samples, RATE) for number, samples in enumerate(clean)
    ]
    for number, samples in enumerate(islice(clean, 0, 3 * _NOISY, 3)):
        decibels = (20, 10)[number % 2]
        made.append((f"noise{number:02}", f"with noise, {decibels} dB", _noisy(samples, decibels, generator), RATE))
    for number in range(_LONG):
        pieces = [clean[(5 * number + 7 * place) % _CLEAN] for place in range(4)]
        made.append((f"long{number:02}", "with pauses", _with_pauses(pieces, generator), RATE))
    for number, samples in enumerate(islice(clean, 1, 6 * _OTHER_RATE, 6)):
        made.append((f"rate{number:02}", "8 kHz", resample(samples, 2 * RATE), RATE // 2))
    made += [(f"digits{number:02}", "English digits", samples, RATE) for number, samples in enumerate(_digits(digits))]
    recordings = []
    for name, kind, samples, rate in made:
        path = folder / f"{name}.wav"
        write_wave(path, samples, rate)
        recordings.append(Recording(name, kind, path))
    return recordings


def _spoken(folder: Path, python: Path) -> list[Samples]:
    """Sentences by each voice in turn and at each speed in turn."""
    wanted = [
        {
            "text": SENTENCES[number % len(SENTENCES)],
            "voice": VOICES[(number + number // len(SENTENCES)) % len(VOICES)],
            "speed": SPEEDS[(number + number // len(SENTENCES)) % len(SPEEDS)],
            "path": str(folder / f"spoken{number:02}.wav"),
        }
        for number in range(_CLEAN)
    ]
    script = Path(__file__).with_name("speak.py")
    subprocess.run([str(python), str(script)], input=json.dumps(wanted), text=True, check=True)
    return [resample(*read_wave(Path(str(each["path"])).read_bytes())) for each in wanted]


def _noisy(samples: Samples, decibels: float, generator: np.random.Generator) -> Samples:
    """With white noise that is so much quieter than the whole."""
    power = np.mean(samples**2) / 10 ** (decibels / 10)
    return samples + generator.normal(scale=np.sqrt(power), size=len(samples))


def _with_pauses(pieces: list[Samples], generator: np.random.Generator) -> Samples:
    """One after the other, with pauses of up to 1.4 s of faint noise."""
    parts: list[Samples] = []
    for piece in pieces:
        parts += [piece, generator.normal(scale=3.0, size=int(generator.uniform(0.2, 1.4) * RATE))]
    return np.concatenate(parts)


def _digits(recordings: Path) -> Iterator[Samples]:
    if not recordings.is_file():
        return
    with zipfile.ZipFile(recordings) as archive:
        for number in range(_DIGITS):
            speaker, digits = SPEAKERS[number % len(SPEAKERS)], DIGITS[(number * 5 + number // 6) % len(DIGITS)]
            parts = []
            for take, digit in enumerate(digits):
                samples, rate = read_wave(archive.read(f"recordings/{digit}_{speaker}_{take}.wav"))
                parts += [samples, np.zeros(rate // 10 * (1 + number % 3))]
            yield resample(np.concatenate(parts), rate)
