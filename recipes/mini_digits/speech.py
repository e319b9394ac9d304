"""Data and features: strings of digits with pauses, of lengths that a flat start can use, split into jobs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import NamedTuple

import numpy as np

from nnet3.kaldi_io import matrix_writer
from recipes.mini_digits.dictionary import WORDS
from recipes.spoken_digits.features import coloured_noise, fbank, less_means, varied
from recipes.spoken_digits.recordings import Recording, speakers_of
from recipes.spoken_digits.strings import FEWEST, MOST

FACTOR = 3  # frames of input for each of output
FRAMES_PER_SECOND = 100
_SHORTEST, _LONGEST, _STEP = 60, 900, 1.06  # frames; lengths of strings to train on are that much apart
_PAUSES = 0.02, 0.25  # seconds before, between and behind digits
_DECIBELS_OF_PAUSES = -45.0


class Spoken(NamedTuple):
    """A string: `samples` (samples,) of all digits and pauses; `kind` tells apart those that were made different."""

    key: str
    kind: tuple[str, bool]
    samples: np.ndarray
    rate: int


def lengths() -> list[int]:
    """The numbers of frames that strings to train on may have, whole numbers of output frames."""
    count = int(np.log(_LONGEST / _SHORTEST) / np.log(_STEP)) + 1
    return sorted({FACTOR * round(_SHORTEST * _STEP**k / FACTOR) for k in range(count)})


def words_of(key: str) -> list[str]:
    """What the string with such a key says."""
    return [WORDS[int(digit)] for digit in key.split("-")[1]]


def write_data(keys: list[list[str]], folder: Path, word_labels: Mapping[str, int]) -> None:
    """Files as Kaldi's data folders have them, and `text.JOB.int` for the keys of each job."""
    ordered = sorted(key for part in keys for key in part)
    texts = {key: words_of(key) for key in ordered}
    (folder / "text").write_text("".join(f"{key} {' '.join(words)}\n" for key, words in texts.items()))
    labels = {key: " ".join(str(word_labels[word]) for word in words) for key, words in texts.items()}
    for job, part in enumerate(keys, 1):
        (folder / f"text.{job}.int").write_text("".join(f"{key} {labels[key]}\n" for key in sorted(part)))
    (folder / "utt2spk").write_text("".join(f"{key} {key.split('-')[0]}\n" for key in ordered))
    speakers = sorted({key.split("-")[0] for key in ordered})
    own = {speaker: [key for key in ordered if key.split("-")[0] == speaker] for speaker in speakers}
    (folder / "spk2utt").write_text("".join(f"{speaker} {' '.join(utts)}\n" for speaker, utts in own.items()))


def join(
    recordings: list[Recording],
    which: list[int],
    strings: int | Sequence[str],
    vary: bool = False,
    fit: bool = False,
    seed: int = 0,
) -> Iterator[Spoken]:
    """The strings of some speakers, by their numbers.

    `strings`: how many there are of all speakers together, of random digits; or the digits of each.
    `vary`: half of them at another speed, with noise. `fit`: each is stretched to the next one of `lengths`.
    """
    count = strings if isinstance(strings, int) else len(strings)
    speakers = speakers_of(recordings)
    for number in which:
        speaker = speakers[number]
        own = [each for each in recordings if each.speaker == speaker]
        rng = np.random.default_rng([seed, number])
        for string in range(number, count, len(speakers)):
            if isinstance(strings, int):
                chosen = [own[each] for each in rng.choice(len(own), rng.integers(FEWEST, MOST + 1))]
            else:
                chosen = [_one_of(own, int(digit), rng) for digit in strings[string]]
            samples = _with_pauses(chosen, rng)
            different = vary and bool(rng.uniform() < 0.5)
            if different:
                samples = varied(samples, rng)
            rate = chosen[0].rate
            digits = "".join(str(each.digit) for each in chosen)
            yield Spoken(
                f"{speaker}-{digits}-{string:05d}",
                (speaker, different),
                _stretched(samples, rate) if fit else samples,
                rate,
            )


def _one_of(recordings: list[Recording], digit: int, rng: np.random.Generator) -> Recording:
    takes = [each for each in recordings if each.digit == digit]
    return takes[rng.integers(len(takes))]


def _with_pauses(digits: list[Recording], rng: np.random.Generator) -> np.ndarray:
    rate, level = digits[0].rate, np.sqrt(np.mean(np.concatenate([each.samples for each in digits]) ** 2))
    pieces = []
    for each in [*digits, None]:
        pause = coloured_noise(int(rate * rng.uniform(*_PAUSES)), rng)
        pieces.append(pause * level * 10 ** (_DECIBELS_OF_PAUSES / 20))
        pieces += [] if each is None else [each.samples]
    return np.concatenate(pieces).astype(np.float32)


def _stretched(samples: np.ndarray, rate: int) -> np.ndarray:
    """The samples at a speed at which they last as long as one of `lengths`."""
    step = rate // FRAMES_PER_SECOND
    frames = min(lengths(), key=lambda length: abs(np.log(length * step / len(samples))))
    places = np.linspace(0, len(samples) - 1, frames * step)
    return np.interp(places, np.arange(len(samples)), samples).astype(np.float32)


class FeatureJob(NamedTuple):
    """What strings one job makes features of: those of some speakers, `which`."""

    recordings: list[Recording]
    which: list[int]
    strings: int | Sequence[str]
    vary: bool
    fit: bool
    seed: int
    folder: Path
    number: int


def write_features(
    recordings: list[Recording],
    strings: int | Sequence[str],
    vary: bool,
    fit: bool,
    seed: int,
    folder: Path,
    jobs: int,
    at_once: bool,
) -> list[list[str]]:
    """`feats.JOB.ark` and `feats.JOB.scp` with log mel energies less the speaker's mean; returns the keys of each.

    The strings, as `join` has them, do not depend on the number of jobs. `at_once`: in a process for each.
    """
    speakers = range(len(speakers_of(recordings)))
    parts = [
        FeatureJob(recordings, [*speakers[job::jobs]], strings, vary, fit, seed, folder, job + 1) for job in range(jobs)
    ]
    if not at_once:
        return [_write_part(part) for part in parts]
    with ProcessPoolExecutor(jobs, get_context("spawn")) as pool:
        return list(pool.map(_write_part, parts))


def _write_part(job: FeatureJob) -> list[str]:
    strings = list(join(job.recordings, job.which, job.strings, job.vary, job.fit, job.seed))
    utterances = less_means([fbank(each.samples, each.rate) for each in strings], [each.kind for each in strings])
    target = f"ark,scp:{job.folder}/feats.{job.number}.ark,{job.folder}/feats.{job.number}.scp"
    with matrix_writer(target) as table:
        for each, rows in sorted(zip(strings, utterances, strict=True), key=lambda pair: pair[0].key):
            table.write(each.key, rows)
    return [each.key for each in strings]
