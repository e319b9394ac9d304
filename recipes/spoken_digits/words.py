"""The network of single words: trained by `nnet3 train-model`, decided by the sum of its log-probabilities."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import nnet3
from nnet3.errors import Nnet3Error
from recipes.spoken_digits.examples import FACTOR, MULTIPLE
from recipes.spoken_digits.features import padded, read_features
from recipes.spoken_digits.recordings import digit_of, is_variant

NETWORK = Path(__file__).with_name("network.xconfig")
_RUN = """\
[model]
file = "{network}"
seed = {seed}

[data]
train = {train}
valid = {valid}
minibatch-size = "{minibatch}"
shuffle-buffer = 0

[training]
epochs = {epochs}
initial-learning-rate = {first_rate}
final-learning-rate = {last_rate}
max-param-change = 2.0
seed = {seed}
threads = 1

[checkpoints]
every = 500

[combination]
models = {models}
part = 0.3

[output]
folder = "{folder}"
tensorboard = false
"""


@dataclass(frozen=True)
class WordTraining:
    """How a network of words is trained. An epoch goes over all variants of a recording."""

    epochs: int
    minibatch: int = 64
    first_rate: float = 0.005
    last_rate: float = 0.0002
    models: int = 10
    seed: int = 0


def train_words(archives: Sequence[Path], valid: Sequence[Path], training: WordTraining, folder: Path) -> None:
    """`folder/final.raw`, trained on archives of examples; goes on where it was if it has been interrupted."""
    train_network(NETWORK, archives, valid, training, folder)


def train_network(
    network: Path, archives: Sequence[Path], valid: Sequence[Path], training: WordTraining, folder: Path
) -> None:
    """The same for the network of any xconfig."""
    text = _RUN.format(
        network=network,
        train=[f"ark:{path}" for path in archives],
        valid=[f"ark:{path}" for path in valid],
        folder=folder,
        **vars(training),
    )
    run_train_model(text, folder)


def run_train_model(text: str, folder: Path) -> None:
    """`nnet3 train-model` with these settings, which go into `folder/run.toml`; goes on with what is there."""
    (folder / "run.toml").write_text(text)
    command = [sys.executable, "-m", "nnet3", "train-model", "--resume", str(folder / "run.toml")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Nnet3Error(f"{' '.join(command)} has failed:\n{done.stderr[-2000:]}")


@dataclass(frozen=True, eq=False)
class Decisions:
    """What was heard, (utterances,), and the log-probability per frame of what was said."""

    keys: list[str]
    heard: np.ndarray
    log_probabilities: np.ndarray  # (utterances,)

    @property
    def said(self) -> np.ndarray:
        return np.array([digit_of(key) for key in self.keys])

    @property
    def accuracy(self) -> float:
        return float((self.said == self.heard).mean())

    @property
    def confusions(self) -> np.ndarray:
        """(10 digits said, 10 heard) numbers of utterances."""
        counts = np.zeros((10, 10), int)
        np.add.at(counts, (self.said, self.heard), 1)
        return counts

    def save(self, path: Path) -> None:
        rows = zip(self.keys, self.heard.tolist(), self.log_probabilities.tolist(), strict=True)
        path.write_text(json.dumps(list(rows)))

    @classmethod
    def load(cls, path: Path) -> Decisions:
        keys, heard, log_probabilities = zip(*json.loads(path.read_text()), strict=True)
        return cls(list(keys), np.array(heard), np.array(log_probabilities))

    def errors(self) -> list[str]:
        """The wrong ones, with what was heard."""
        wrong = np.flatnonzero(self.said != self.heard)
        return [f"{self.keys[number]} heard as {self.heard[number]}" for number in wrong]


def decide(nnet: nnet3.Nnet, tables: Sequence[Path]) -> Decisions:
    """The most probable digit of each utterance, variants left out: log-probabilities, summed up over output frames."""
    utterances = [(key, rows) for path in tables for key, rows in read_features(path) if not is_variant(key)]
    utterances.sort(key=lambda pair: len(pair[1]))  # equal lengths meet: what is compiled for one serves the next
    heard, log_probabilities = [], []
    for key, rows in utterances:
        frames = nnet.compute(padded(rows, MULTIPLE), frame_subsampling_factor=FACTOR)
        heard.append(int(frames.sum(dim=0).argmax()))
        log_probabilities.append(float(frames[:, digit_of(key)].mean()))
    return Decisions([key for key, _ in utterances], np.array(heard), np.array(log_probabilities))
