"""Counts the word errors of a recognizer with several networks in turn."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from nnet3.model.nnet import AcousticModel
from nnet3.speech.asr.recognizer import Model, Recognizer
from nnet3.speech.asr.word_errors import WordErrors, word_errors
from nnet3.speech.tuning.speech_aligner import Spoken

_PIECE_SECONDS = 0.2


def count_errors(model: Model, networks: Sequence[AcousticModel], utterances: Iterable[Spoken]) -> list[WordErrors]:
    """Returns the word errors in utterances with each network in the place of the model's own."""
    computers = [replace(model.front, acoustic_model=network.pack()).computer() for network in networks]
    totals = [WordErrors() for _ in networks]
    for spoken in utterances:
        for number, computer in enumerate(computers):
            with Recognizer(model, spoken.rate, computer=computer) as recognizer:
                totals[number] += word_errors(spoken.words, list(_heard(recognizer, spoken)))
    return totals


def _heard(recognizer: Recognizer, spoken: Spoken) -> Iterator[str]:
    """Yields the words heard in an utterance, in pieces as a stream has them."""
    size = int(_PIECE_SECONDS * spoken.rate)
    for first in range(0, len(spoken.samples), size):
        if recognizer.accept(spoken.samples[first : first + size]):
            yield from (word.word for word in recognizer.result().words)
    yield from (word.word for word in recognizer.finish().words)
