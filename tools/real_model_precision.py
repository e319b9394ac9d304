"""A deployed model with products of eight and sixteen bits: are the words of our recognizer those of float32?"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from nnet3.asr import Model, Recognizer
from nnet3.model.nnet import AcousticModel
from tools.real_model_chain import utterances
from tools.real_model_speech import RATE, read_wave

STRINGS = 30  # of spoken digits


def compare_precisions(
    folder: Path, recordings: Path, sentences: list[Path], report: Callable[[str, bool], None]
) -> None:
    """Report in how many sentences, and strings of digits, the model in a folder hears the same words.

    Synthetic speech and English digits are far from what a Korean model knows: what it hears in them is so uncertain
    that int8 changes it.
    """
    model = Model(folder)
    am = model.front.acoustic_model
    spoken = [(path.name, *read_wave(path.read_bytes())) for path in sentences]
    digits = list(_digits(recordings)) if recordings.is_file() else []
    wanted = {name: _words(model, am, samples, rate) for name, samples, rate in [*spoken, *digits]}
    for products in (torch.int8, torch.bfloat16):
        smaller = am.quantize(products)
        for what, strings in (("sentences", spoken), ("strings of digits", digits)):
            same = sum(_words(model, smaller, samples, rate) == wanted[name] for name, samples, rate in strings)
            good = same == len(strings) or what != "sentences" or products == torch.int8
            report(f"{products}: the same words in {same} of {len(strings)} {what}", good)


def _digits(recordings: Path) -> Iterator[tuple[str, np.ndarray, int]]:
    for name, samples in utterances(recordings, STRINGS):
        yield name, samples, RATE


def _words(model: Model, am: AcousticModel, samples: np.ndarray, rate: int) -> list[str]:
    """Returns the words that the recognizer hears with an acoustic model in the place of its own."""
    heard: list[str] = []
    with Recognizer(model, rate, computer=replace(model.front, acoustic_model=am).computer()) as recognizer:
        for piece in np.array_split(samples, max(1, len(samples) * 5 // rate)):
            if recognizer.accept(piece.astype(np.float32)):
                heard += recognizer.result().text.split()
        return heard + recognizer.finish().text.split()
