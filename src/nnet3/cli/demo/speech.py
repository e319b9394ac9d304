"""Spoken digits: a ZIP of WAV files `DIGIT_SPEAKER_INDEX.wav` (Free Spoken Digit Dataset), as MFCCs.

Recordings 0 to 4 of each speaker and digit are the customary test set. An utterance is decided by the sum of its
frames' log-probabilities.
"""

from __future__ import annotations

import io
import re
import wave
import zipfile
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from nnet3.cli.demo.task import DemoTask, RateSchedule
from nnet3.errors import Nnet3Error
from nnet3.training.train.minibatch import MatrixTarget, Minibatch, NetworkInput, grid, one_hot

_FILE = re.compile(r"(?:.*/)?(\d)_([A-Za-z0-9]+)_(\d+)\.wav")
_NUM_TEST_RECORDINGS = 5
_CONTEXT = 14  # frames at each side, as the network has it
_TRAIN_FRAMES, _TRAIN_STEP, _TEST_FRAMES = 12, 4, 24  # output frames of a chunk
_BATCH, _BATCHES_PER_EPOCH = 128, 40


@dataclass(frozen=True, eq=False)
class SpokenDigit:
    """A recording of one digit. `samples` is (samples,) float32 with the values of 16-bit samples."""

    digit: int
    speaker: str
    index: int
    rate: int
    samples: np.ndarray


@dataclass(frozen=True)
class Recording:
    digit: int
    speaker: str
    recording: int
    features: np.ndarray  # (frames, 13), normalised to mean 0 and variance 1


def speech_tasks(archive: str, seed: int) -> list[DemoTask]:
    """Returns one TDNN over the frames."""
    utterances = read_utterances(archive)
    test = [u for u in utterances if u.recording < _NUM_TEST_RECORDINGS]
    train = [u for u in utterances if u.recording >= _NUM_TEST_RECORDINGS]
    if not test or not train:
        raise Nnet3Error(f"{archive}: {len(train)} recordings to train on and {len(test)} to test on: both are needed")
    rng = np.random.default_rng(seed)
    chunks = [(number, start) for number, u in enumerate(test) for start in range(0, len(u.features), _TEST_FRAMES)]
    test_minibatch = _minibatch([(test[number], start) for number, start in chunks], _TEST_FRAMES, 1)

    def judge(outputs: Sequence[np.ndarray]) -> np.ndarray:
        """Returns log-probabilities, (utterances, words), summed over the real frames of each utterance."""
        by_chunk = outputs[0].reshape(len(chunks), _TEST_FRAMES, 10)
        scores = np.zeros((len(test), 10))
        for (number, start), frames in zip(chunks, by_chunk, strict=True):
            scores[number] += frames[: len(test[number].features) - start].sum(axis=0)
        return scores

    return [
        DemoTask(
            name="tdnn",
            config="speech_tdnn.config",
            what="a TDNN over the frames of spoken digits; an utterance is decided by its summed log-probabilities",
            schedule=RateSchedule(num_epochs=8, initial_learning_rate=0.01, final_learning_rate=0.001),
            make_minibatches=lambda epoch: _train_minibatches(train, rng),
            test_minibatches=[test_minibatch],
            judge=judge,
            labels=np.array([u.digit for u in test]),
            pictures=[u.features.T for u in test],
            goal=0.94,
        )
    ]


def read_utterances(archive: str) -> list[Recording]:
    """Returns the features of all recordings of the ZIP, by name. Raises Nnet3Error if it is not such a ZIP."""
    utterances = []
    for spoken in read_spoken_digits(Path(archive)):
        features = mfcc(spoken.samples, spoken.rate)
        normalized = (features - features.mean(axis=0)) / (features.std(axis=0) + 1e-3)
        utterances.append(Recording(spoken.digit, spoken.speaker, spoken.index, normalized.astype(np.float32)))
    return utterances


def read_spoken_digits(archive: Path) -> list[SpokenDigit]:
    """Returns all recordings of the ZIP, by name. Raises Nnet3Error if it is not such a ZIP."""
    if not archive.is_file():
        found = "this is a folder" if archive.is_dir() else "no such file"
        raise Nnet3Error(f"{archive}: {found}; give the ZIP of the Free Spoken Digit Dataset's recordings")
    try:
        with zipfile.ZipFile(archive) as file:
            names = [name for name in sorted(file.namelist()) if _FILE.fullmatch(name)]
            spoken = [_spoken_digit(name, file.read(name)) for name in names]
    except (zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError, wave.Error, EOFError) as error:
        raise Nnet3Error(f"{archive}: not a ZIP of WAV files: {error}") from None
    if not spoken:
        raise Nnet3Error(f"{archive}: no files named DIGIT_SPEAKER_INDEX.wav in it, such as 7_jackson_32.wav")
    return spoken


def _spoken_digit(name: str, data: bytes) -> SpokenDigit:
    match = _FILE.fullmatch(name)
    assert match is not None
    with wave.open(io.BytesIO(data)) as file:
        if file.getsampwidth() != 2 or file.getnchannels() != 1:
            raise wave.Error(f"{name} is not 16-bit mono")
        samples = np.frombuffer(file.readframes(file.getnframes()), "<i2").astype(np.float32)
        return SpokenDigit(int(match[1]), match[2], int(match[3]), file.getframerate(), samples)


def mfcc(samples: np.ndarray, rate: int) -> np.ndarray:
    """Returns 13 MFCCs every 10 ms, (frames, 13)."""
    try:
        import kaldi_native_fbank
    except ImportError:
        raise Nnet3Error("spoken digits need kaldi-native-fbank: pip install 'nnet3[demo]'") from None
    options = kaldi_native_fbank.MfccOptions()
    options.frame_opts.samp_freq = rate
    options.frame_opts.dither = 0.0
    options.frame_opts.snip_edges = False
    options.use_energy = False
    computer = kaldi_native_fbank.OnlineMfcc(options)
    computer.accept_waveform(rate, samples.tolist())
    computer.input_finished()
    return np.stack([computer.get_frame(frame) for frame in range(computer.num_frames_ready)])


def _train_minibatches(train: Sequence[Recording], rng: np.random.Generator) -> list[Minibatch]:
    """Chunks with random beginnings, every second stretch of each utterance."""
    cuts = [
        (utterance, start)
        for utterance in train
        for start in range(int(rng.integers(-_TRAIN_FRAMES // 2, 1)), len(utterance.features), 2 * _TRAIN_FRAMES)
    ]
    order = rng.permutation(len(cuts))
    batches = [order[start : start + _BATCH] for start in range(0, len(order) - _BATCH + 1, _BATCH)]
    return [_minibatch([cuts[i] for i in batch], _TRAIN_FRAMES, _TRAIN_STEP) for batch in batches[:_BATCHES_PER_EPOCH]]


def _minibatch(cuts: Sequence[tuple[Recording, int]], num_frames: int, step: int) -> Minibatch:
    """Returns a sequence for each chunk; outside the utterance its first or last frame is repeated."""
    times = np.arange(-_CONTEXT, num_frames + _CONTEXT)
    frames = [u.features[np.clip(times + start, 0, len(u.features) - 1)] for u, start in cuts]
    outputs = np.arange(0, num_frames, step)
    labels = np.repeat([u.digit for u, _ in cuts], len(outputs))
    return Minibatch(
        [NetworkInput("input", grid(len(cuts), times.tolist()), torch.from_numpy(np.concatenate(frames)))],
        [MatrixTarget("output", grid(len(cuts), outputs.tolist()), one_hot(labels, 10))],
    )
