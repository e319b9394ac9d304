"""Trains a small network on strings of spoken digits, and shows it in a browser.

    python -m examples.browser.digits --recordings recordings.zip --out dist --screenshot browser.png

The network says for every third frame which digit is being spoken, or that there is a pause.
"""

from __future__ import annotations

import itertools
from pathlib import Path

import click
import numpy as np
import torch

import nnet3
from examples.browser.page import CONF, expected, missing, watch, write_page
from nnet3.speech.features.features import FeatureStream, read_feature_options
from nnet3.train import MatrixTarget, Minibatch, NetworkInput, Trainer, TrainerOptions, exponential_rate
from nnet3.training.train.minibatch import grid, one_hot
from recipes.spoken_digits.features import varied
from recipes.spoken_digits.recordings import Recording, read_recordings

LABELS = [*"0123456789", "-"]
PAUSE = 10
NETWORK = """
input name=input dim=40
batchnorm-component name=norm input=input
relu-batchnorm-layer name=tdnn1 dim=128 input=Append(-2,-1,0,1,2)
tdnnf-layer name=tdnnf2 dim=128 bottleneck-dim=48 time-stride=3
tdnnf-layer name=tdnnf3 dim=128 bottleneck-dim=48 time-stride=3
tdnnf-layer name=tdnnf4 dim=128 bottleneck-dim=48 time-stride=3
fast-lstmp-layer name=lstm cell-dim=128 recurrent-projection-dim=48 non-recurrent-projection-dim=48 delay=-3
output-layer name=output dim=11 output-delay=6
"""
FACTOR = 3
FRAMES = 120  # of outputs of a training sequence
BEFORE = 30  # frames more that the recurrence sees before these
BATCH, BATCHES = 32, 320
SAID = 31415926
RATE = 8000


def train(recordings: list[Recording], seed: int = 0) -> nnet3.Nnet:
    """Returns a network that is trained, in test mode."""
    rng = np.random.default_rng(seed)
    nnet = nnet3.Nnet.from_xconfig(NETWORK, source="NETWORK", seed=seed)
    trainer = Trainer(nnet, TrainerOptions(seed=seed))
    times = np.arange(-nnet.left_context - BEFORE, FRAMES + nnet.right_context)
    wanted = np.arange(0, FRAMES, FACTOR)
    for number in range(BATCHES):
        pairs = [_sequence(recordings, rng, times, wanted) for _ in range(BATCH)]
        frames, labels = (np.concatenate(each) for each in zip(*pairs, strict=True))
        minibatch = Minibatch(
            [NetworkInput("input", grid(BATCH, times.tolist()), torch.from_numpy(frames))],
            [MatrixTarget("output", grid(BATCH, wanted.tolist()), one_hot(labels, len(LABELS)))],
        )
        loss = -trainer.train_minibatch(minibatch, exponential_rate(0.01, 0.0005, number / BATCHES)).total.average
        if number % 20 == 19:
            click.echo(f"minibatch {number + 1} of {BATCHES}: loss {loss:.3f}")
    return nnet.in_test_mode()


def _sequence(
    recordings: list[Recording], rng: np.random.Generator, times: np.ndarray, wanted: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Returns features (frames, 40) of a part of a random string, and its labels (rows,)."""
    chosen = [recordings[i] for i in rng.integers(len(recordings), size=1)]
    speaker = [each for each in recordings if each.speaker == chosen[0].speaker]
    chosen = [speaker[i] for i in rng.integers(len(speaker), size=6)]
    samples, digits = joined([(each.digit, varied(each.samples, rng)) for each in chosen], rng)
    features = FeatureStream(read_feature_options(CONF, "fbank"), RATE).accept(samples, last=True)
    start = int(rng.integers(0, max(len(features) - FRAMES, 1)))
    middles = ((wanted + start) * RATE // 100 + RATE // 200).clip(max=len(digits) - 1)
    return features[(times + start).clip(0, len(features) - 1)], digits[middles]


def joined(parts: list[tuple[int, np.ndarray]], rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Returns samples of digits with pauses before, between and behind them, and the class of each sample."""
    pauses = [rng.integers(0.1 * RATE, 0.4 * RATE) for _ in range(len(parts) + 1)]
    pieces = [np.zeros(pauses[0], np.float32)]
    classes = [np.full(pauses[0], PAUSE)]
    for (digit, samples), pause in zip(parts, pauses[1:], strict=True):
        pieces += [samples, np.zeros(pause, np.float32)]
        classes += [np.full(len(samples), digit), np.full(pause, PAUSE)]
    whole = np.concatenate(pieces)
    return (whole + rng.uniform(1, 40) * rng.standard_normal(len(whole))).astype(np.float32), np.concatenate(classes)


def spoken(recordings: list[Recording], seed: int = 1) -> np.ndarray:
    """Returns samples of digits by one speaker, of recordings that are for tests."""
    rng = np.random.default_rng(seed)
    speaker = recordings[0].speaker
    test = [each for each in recordings if each.part == "test" and each.speaker == speaker]
    by_digit = {digit: itertools.cycle([each for each in test if each.digit == digit]) for digit in range(10)}
    parts = [(int(digit), next(by_digit[int(digit)]).samples) for digit in str(SAID)]
    return np.rint(joined(parts, rng)[0]).clip(-32768, 32767)


@click.command()
@click.option("--recordings", "archive", type=click.Path(path_type=Path), required=True, help="The ZIP of recordings.")
@click.option("--out", "folder", type=click.Path(path_type=Path), required=True, help="Folder of the page.")
@click.option("--screenshot", type=click.Path(path_type=Path), help="PNG of the page when it has heard everything.")
def main(archive: Path, folder: Path, screenshot: Path | None) -> None:
    """Train a network, write the page, look at it in a headless browser and compare it with nnet3."""
    if missing():
        raise click.ClickException(f"the page needs {missing()}")
    recordings = read_recordings(archive)
    nnet = train([each for each in recordings if each.part == "train"])
    samples = spoken(recordings)
    write_page(folder, nnet, samples, RATE, LABELS)
    rows, words = watch(folder, screenshot)
    wanted = expected(nnet, samples, RATE)
    difference = float(np.abs(rows - wanted).max() / np.abs(wanted).max())
    click.echo(f"heard {' '.join(words)}; {len(rows)} rows, which differ from those of nnet3 by {difference:.1g}")
    if rows.shape != wanted.shape or not difference <= 1e-4:
        raise click.ClickException("the browser and nnet3 do not agree")
    if "".join(words) != str(SAID):
        raise click.ClickException(f"the page heard other digits than {SAID}")
    click.echo(f"the page is in {folder}")


if __name__ == "__main__":
    main()
