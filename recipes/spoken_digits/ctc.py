"""Strings of digits by CTC: the network of words gets an output with a blank and learns from torch.nn.CTCLoss."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

import nnet3
from nnet3.speech.asr.word_errors import word_errors
from nnet3.train import exponential_rate
from recipes.spoken_digits.features import padded, read_features
from recipes.spoken_digits.strings import digits_of

_OUTPUT = "output-layer name=output dim=11 input=tdnnf6.noop"  # the blank is 0, digit d is d + 1
_FACTOR = 3
_MULTIPLE = 48

Batch = tuple[list[str], torch.Tensor]  # keys and features (strings, frames, 40), equally many frames


@dataclass(frozen=True)
class CtcTraining:
    """How many strings there are, and how the network is trained on them, by Adam."""

    train_strings: int = 2000
    test_strings: int = 300
    epochs: int = 6
    minibatch: int = 16
    first_rate: float = 0.002
    last_rate: float = 0.0001
    seed: int = 0


def ctc_module(words: Path, seed: int) -> nnet3.TorchModule:
    """The network of words, with one output more: it begins as one that says each digit in all of its frames."""
    nnet = nnet3.load_nnet(words)
    digits = {name: values.clone() for name, values in nnet.components["output.affine"].parameters().items()}
    nnet.apply_xconfig(_OUTPUT, seed=seed)
    for name, values in nnet.components["output.affine"].parameters().items():
        values[0] = 0
        values[1:] = digits[name]
    return nnet3.TorchModule(nnet, frame_subsampling_factor=_FACTOR)


def train_ctc(module: nnet3.TorchModule, table: Path, training: CtcTraining) -> list[float]:
    """The mean loss of each epoch. Strings of a minibatch are equally long, so that few computations are compiled."""
    strings = read_features(table)
    rng = np.random.default_rng(training.seed)
    torch.manual_seed(training.seed)
    optimizer = torch.optim.Adam(module.parameters())
    loss_function = torch.nn.CTCLoss()
    module.train()
    means = []
    for epoch in range(training.epochs):
        batches = list(_batches([strings[i] for i in rng.permutation(len(strings))], training.minibatch))
        losses = []
        for number, i in enumerate(rng.permutation(len(batches))):
            keys, features = batches[i]
            done = (epoch + number / len(batches)) / training.epochs
            optimizer.param_groups[0]["lr"] = exponential_rate(training.first_rate, training.last_rate, done)
            outputs = module(features).transpose(0, 1)  # (output frames, strings, 11) log-probabilities
            targets = [torch.tensor(digits_of(key)) + 1 for key in keys]
            lengths = torch.full((len(keys),), len(outputs))
            loss = loss_function(outputs, torch.cat(targets), lengths, torch.tensor([len(each) for each in targets]))
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(module.parameters(), 5.0)
            optimizer.step()
            losses.append(loss.item())
        means.append(float(np.mean(losses)))
    return means


def decode_strings(module: nnet3.TorchModule, table: Path) -> dict[str, list[int]]:
    """What is heard in each string: the best label of each frame, repetitions and then blanks left out."""
    module.eval()
    heard = {}
    with torch.no_grad():
        for keys, features in _batches(read_features(table), 16):
            for key, labels in zip(keys, module(features).argmax(dim=2), strict=True):
                once = torch.unique_consecutive(labels)
                heard[key] = (once[once != 0] - 1).tolist()
    return heard


def digit_error_rate(heard: dict[str, list[int]]) -> float:
    """Digits put in, left out or confused, per digit said."""
    errors = sum(word_errors(digits_of(key), digits).errors for key, digits in heard.items())
    return errors / sum(len(digits_of(key)) for key in heard)


def _batches(strings: list[tuple[str, np.ndarray]], size: int) -> Iterator[Batch]:
    by_length = defaultdict[int, list[tuple[str, np.ndarray]]](list)
    for key, rows in strings:
        frames = padded(rows, _MULTIPLE)
        queue = by_length[len(frames)]
        queue.append((key, frames))
        if len(queue) == size:
            yield _batch(by_length.pop(len(frames)))
    yield from map(_batch, by_length.values())


def _batch(strings: list[tuple[str, np.ndarray]]) -> Batch:
    return [key for key, _ in strings], torch.from_numpy(np.stack([rows for _, rows in strings]))
