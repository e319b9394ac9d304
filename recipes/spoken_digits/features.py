"""Features of speech, and speech made different: other speeds, volumes, and noise."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from nnet3.errors import Nnet3Error
from nnet3.kaldi_io import matrix_writer, open_matrix_table
from recipes.spoken_digits.recordings import Recording

try:
    import kaldi_native_fbank
except ImportError:
    kaldi_native_fbank = None

DIM = 40
_SPEEDS = 0.8, 1.25
_DECIBELS_OF_NOISE = 10.0, 35.0  # signal to noise
_FEWEST_SAMPLES = 400


def fbank(samples: np.ndarray, rate: int) -> np.ndarray:
    """Logarithms of 40 mel filters' energies every 10 ms, (frames, 40) float32, less their mean over the frames."""
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
    rows = np.stack([computer.get_frame(frame) for frame in range(computer.num_frames_ready)])
    return (rows - rows.mean(axis=0)).astype(np.float32)


def varied(samples: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """The same word at another speed (and so at another pitch), louder or softer, with noise of a random colour."""
    speed = rng.uniform(*_SPEEDS)
    count = max(int(len(samples) / speed), _FEWEST_SAMPLES)
    faster = np.interp(np.arange(count) * speed, np.arange(len(samples)), samples)
    noise = coloured_noise(count, rng)
    level = np.sqrt(np.mean(faster**2)) * 10 ** (-rng.uniform(*_DECIBELS_OF_NOISE) / 20)
    return (rng.uniform(0.3, 2.0) * (faster + level * noise)).astype(np.float32)


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
    """A table `SPEAKER-PART.ark` for each speaker and part; recordings to train on also in so many variants."""
    for number, (speaker, part) in enumerate(sorted({(each.speaker, each.part) for each in recordings})):
        rng = np.random.default_rng([seed, number])
        with matrix_writer(f"ark:{folder}/{speaker}-{part}.ark") as table:
            for recording in recordings:
                if (recording.speaker, recording.part) != (speaker, part):
                    continue
                table.write(recording.key, fbank(recording.samples, recording.rate))
                for variant in range(num_variants if part == "train" else 0):
                    rows = fbank(varied(recording.samples, rng), recording.rate)
                    table.write(f"{recording.key}-{variant + 1}", rows)


def read_features(path: Path) -> list[tuple[str, np.ndarray]]:
    """The utterances of a table: keys and (frames, 40)."""
    with open_matrix_table(f"ark:{path}") as table:
        return list(table)
