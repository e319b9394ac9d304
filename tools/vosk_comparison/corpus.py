"""Recordings to compare recognizers on: synthetic Korean of several voices and speeds, noise, pauses, English digits,
for which the model is not made, other rates and formats, clipped ones, and long ones."""

from __future__ import annotations

import json
import subprocess
import zipfile
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import soundfile

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
RATES = (11025, 22050, 32000, 44100, 48000)
#: Kinds of files: the end of the name, the rate, and soundfile's names of format and type.
FORMATS = {
    "24 bits": [("wav", RATE, "WAV", "PCM_24"), ("wav", 44100, "WAVEX", "PCM_24")],
    "32 bits": [("wav", RATE, "WAV", "PCM_32"), ("wav", 48000, "WAVEX", "PCM_32")],
    "\u00b5-law": [("wav", 8000, "WAV", "ULAW"), ("wav", RATE, "WAV", "ULAW")],
    "Ogg Vorbis": [("ogg", RATE, "OGG", "VORBIS"), ("ogg", 48000, "OGG", "VORBIS")],
    "MP3": [("mp3", RATE, "MP3", "MPEG_LAYER_III"), ("mp3", 44100, "MP3", "MPEG_LAYER_III")],
}
_LOUDER = (6.0, 12.0, 25.0)  # times as loud as 16 bits hold
_SECONDS = {"75 seconds": (75, 75), "5 minutes": (300,)}

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
    spelled = list(_digits(digits))
    made += [(f"digits{number:02}", "English digits", samples, RATE) for number, samples in enumerate(spelled)]
    for number, rate in enumerate(RATES):
        made.append((f"rate{rate}", "11 to 48 kHz", _at_rate(clean[7 * number], rate), rate))
    for number, times in enumerate(_LOUDER):
        made.append((f"clipped{number}", "clipped", clean[5 * number + 2] * times, RATE))
    generator = np.random.default_rng(1)
    for kind, all_seconds in _SECONDS.items():
        for number, seconds in enumerate(all_seconds):
            name = f"{kind.replace(' ', '')}{number}"
            made.append((name, kind, _long([*clean, *spelled], seconds, generator), RATE))
    recordings = []
    for name, kind, samples, rate in made:
        recordings.append(Recording(name, kind, folder / f"{name}.wav"))
        write_wave(recordings[-1].path, samples, rate)
    for row, (kind, formats) in enumerate(FORMATS.items()):
        for column, (end, rate, form, subtype) in enumerate(formats):
            name = f"format{row}{column}"
            recordings.append(Recording(name, kind, folder / f"{name}.{end}"))
            samples = _at_rate(clean[2 * row + 11 * column + 1], rate) / 32768
            soundfile.write(recordings[-1].path, samples.clip(-1, 1), rate, format=form, subtype=subtype)
    return recordings


def _at_rate(samples: Samples, rate: int) -> Samples:
    return resample(samples, RATE * RATE / rate)


def _long(pieces: Sequence[Samples], seconds: float, generator: np.random.Generator) -> Samples:
    """Pieces in a random order, with pauses, until it is so long."""
    parts: list[Samples] = []
    while sum(map(len, parts)) < seconds * RATE:
        parts.append(_with_pauses([pieces[int(generator.integers(len(pieces)))]], generator))
    return np.concatenate(parts) + generator.normal(scale=10.0, size=sum(map(len, parts)))


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
