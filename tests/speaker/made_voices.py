"""A made-up x-vector model and made-up voices: noise whose spectrum goes between two shapes of the speaker's own."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from nnet3 import Nnet
from nnet3.kaldi_io import Writer
from nnet3.options import SpeakerLdaOptions
from nnet3.speech.features.wave_table import WaveData, write_wave
from nnet3.speech.speaker.plda_training import estimate_plda
from nnet3.speech.speaker.speaker_model import SpeakerModel
from nnet3.speech.speaker.speaker_stats import SpeakerStats, discriminant_transform, transformed, with_length

RATE = 8000
SPEAKERS = 6
_HOP = 400
_CONFIG = """
    input dim=13 name=input
    relu-layer name=tdnn1 dim=24 input=Append(-1,0,1)
    stats-layer name=stats config=mean+stddev(0:1:1:10000)
    relu-layer name=tdnn6 dim=12 input=stats
    output-layer name=output include-log-softmax=true dim=6
"""


def voice(speaker: int, seed: int, seconds: float = 1.0) -> np.ndarray:
    """Returns samples (n,) int16 of a made-up voice between two pauses of a quarter of a second."""
    own = np.random.default_rng(speaker)
    shapes = np.exp(np.repeat(own.normal(0, 1.3, (2, 10)), 20, axis=1)[:, : _HOP // 2 + 1])
    rate = own.uniform(0.3, 0.9)
    rng = np.random.default_rng([speaker, seed])
    blocks = int(seconds * RATE / _HOP)
    mix = (np.sin(rate * np.arange(blocks) + rng.uniform(0, 6)) > 0).astype(int)
    spectrum = np.fft.rfft(rng.normal(size=(blocks, _HOP)), axis=1)
    width = min(spectrum.shape[1], shapes.shape[1])
    speech = np.fft.irfft(spectrum[:, :width] * shapes[mix, :width], _HOP, axis=1).reshape(-1)
    pause = rng.normal(0, 1, RATE // 4)
    return np.concatenate([pause, 800 * speech, pause]).round().clip(-32000, 32000).astype(np.int16)


def wav_bytes(samples: np.ndarray, rate: int) -> bytes:
    """Returns the WAV file of samples (n,) or (n, channels)."""
    writer = Writer(binary=True)
    write_wave(writer, WaveData.of(rate, samples.reshape(len(samples), -1)))
    return writer.getvalue()


def save(path: Path, write: object) -> None:
    writer = Writer.of_file(binary=True)
    write(writer)  # type: ignore[operator]
    writer.write_to(path)


def make_model(folder: Path) -> None:
    """Makes a directory as recipes publish it: conf, a network in a folder, and what was trained on its vectors."""
    network, trained = folder / "exp" / "xvector_nnet_1a", folder / "exp" / "xvectors_train"
    for each in (folder / "conf", network, trained):
        each.mkdir(parents=True)
    (folder / "conf" / "mfcc.conf").write_text(
        "--sample-frequency=8000\n--frame-length=25 # as usual\n--snip-edges=false\n"
    )
    (folder / "conf" / "vad.conf").write_text("--vad-energy-threshold=5.5\n--vad-energy-mean-scale=0.5\n")
    Nnet.from_xconfig(_CONFIG, seed=1).save(network / "final.raw")
    (network / "extract.config").write_text("output-node name=output input=tdnn6.affine\n")
    (network / "max_chunk_size").write_text("10000\n")
    (network / "min_chunk_size").write_text("25\n")
    model = SpeakerModel(folder)
    vectors = np.stack([[model.vector((voice(who, n), RATE)) for n in range(8)] for who in range(SPEAKERS)])
    mean = vectors.reshape(-1, vectors.shape[2]).mean(axis=0)
    lda = discriminant_transform(SpeakerStats.of_speakers(vectors - mean), SpeakerLdaOptions(dim=4))
    prepared = [with_length(transformed(each - mean, lda)) for each in vectors]
    save(trained / "mean.vec", lambda writer: writer.vector(mean))
    save(trained / "transform.mat", lambda writer: writer.matrix(lda))
    save(trained / "plda", estimate_plda(SpeakerStats.of_speakers(prepared)).write_to)
