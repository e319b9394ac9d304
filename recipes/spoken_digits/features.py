"""Features of speech, less the mean of each speaker; and speech made different: other speeds, volumes, and noise."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Sequence
from pathlib import Path

import numpy as np

from nnet3.errors import Nnet3Error
from nnet3.kaldi_io import matrix_writer, open_matrix_table
from recipes.spoken_digits.recordings import Recording, speakers_of

try:
    import kaldi_native_fbank
except ImportError:
    kaldi_native_fbank = None

DIM = 40
_SPEEDS = 0.8, 1.25
_DECIBELS_OF_NOISE = 10.0, 35.0  # signal to noise
_DECIBELS_LOUDER = -4.0, 4.0  # than the recording
_FEWEST_SAMPLES = 400


def fbank(samples: np.ndarray, rate: int) -> np.ndarray:
    """Logarithms of 40 mel filters' energies every 10 ms, (frames, 40) float32."""
    if kaldi_native_fbank is None:
        raise Nnet3Error("this recipe needs kaldi-native-fbank: pip install 'nnet3[demo]'")
    options = kaldi_native_fbank.FbankOptions()
    options.frame_opts.samp_freq = rate
    options.frame_opts.dither = 0.0
    options.frame_opts.snip_edges = False
    options.mel_opts.num_bins = DIM
    options.mel_opts.low_freq = 60
    options.mel_opts.high_freq = 3800
    computer = kaldi_native_fbank.OnlineFbank(options)
    computer.accept_waveform(rate, samples.tolist())
    computer.input_finished()
    return np.stack([computer.get_frame(frame) for frame in range(computer.num_frames_ready)])


def less_means(utterances: Sequence[np.ndarray], groups: Sequence[Hashable]) -> list[np.ndarray]:
    """Each utterance (frames, 40) less the mean over all frames of its group: those of a speaker, for instance.

    The mean of an utterance of one word would take away much of its vowel.
    """
    members = defaultdict[Hashable, list[np.ndarray]](list)
    for rows, group in zip(utterances, groups, strict=True):
        members[group].append(rows)
    means = {group: np.concatenate(own).mean(axis=0, dtype=np.float64) for group, own in members.items()}
    return [(rows - means[group]).astype(np.float32) for rows, group in zip(utterances, groups, strict=True)]


def varied(samples: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """The same word at another speed (and so at another pitch), louder or softer, with noise of a random colour."""
    speed = rng.uniform(*_SPEEDS)
    count = max(int(len(samples) / speed), _FEWEST_SAMPLES)
    faster = np.interp(np.arange(count) * speed, np.arange(len(samples)), samples)
    noise = coloured_noise(count, rng)
    level = np.sqrt(np.mean(faster**2)) * 10 ** (-rng.uniform(*_DECIBELS_OF_NOISE) / 20)
    noisy = faster + level * noise
    volume = np.sqrt(np.mean(samples**2) / (np.mean(noisy**2) + 1e-9)) * 10 ** (rng.uniform(*_DECIBELS_LOUDER) / 20)
    return (volume * noisy).astype(np.float32)


def coloured_noise(count: int, rng: np.random.Generator) -> np.ndarray:
    """(count,) samples of power 1, whose spectrum falls with a random power of the frequency (0 to 2)."""
    spectrum = np.fft.rfft(rng.standard_normal(count))
    spectrum *= np.arange(1, len(spectrum) + 1) ** (-rng.uniform(0.0, 2.0) / 2)
    noise = np.fft.irfft(spectrum, count)
    return noise / (np.sqrt(np.mean(noise**2)) + 1e-12)


def padded(features: np.ndarray, multiple: int) -> np.ndarray:
    """First and last frame repeated equally often, up to a multiple of frames: few lengths, so few computations."""
    missing = -len(features) % multiple
    return np.pad(features, ((missing // 2, missing - missing // 2), (0, 0)), mode="edge")


def write_features(recordings: list[Recording], num_variants: int, seed: int, folder: Path) -> None:
    """A table `SPEAKER-PART.ark` for each speaker and part; recordings to train on also in so many variants.

    What is taken away is the mean of a speaker's recordings, all parts (no labels are needed for that); of variants,
    that of the speaker's variants of the same number.
    """
    for number, speaker in enumerate(speakers_of(recordings)):
        rng = np.random.default_rng([seed, number])
        parts, keys, variants, utterances = [], [], [], []
        for recording in recordings:
            if recording.speaker != speaker:
                continue
            for variant in range(num_variants + 1 if recording.part == "train" else 1):
                samples = varied(recording.samples, rng) if variant else recording.samples
                parts.append(recording.part)
                keys.append(f"{recording.key}-{variant}" if variant else recording.key)
                variants.append(variant)
                utterances.append(fbank(samples, recording.rate))
        utterances = less_means(utterances, variants)
        for part in set(parts):
            with matrix_writer(f"ark:{folder}/{speaker}-{part}.ark") as table:
                for own, key, rows in zip(parts, keys, utterances, strict=True):
                    if own == part:
                        table.write(key, rows)


def read_features(path: Path) -> list[tuple[str, np.ndarray]]:
    """The utterances of a table: keys and (frames, 40)."""
    with open_matrix_table(f"ark:{path}") as table:
        return list(table)
