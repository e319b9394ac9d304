"""Verifier: is it the speaker who was enrolled?"""

from __future__ import annotations

import os

import numpy as np

from nnet3.errors import ArgumentError
from nnet3.speech.arrays.aliases import Singles
from nnet3.speech.speaker.speaker_model import Recording, SpeakerModel


class Verifier:
    """Enrols speakers by name and scores recordings against them, with a directory of x-vectors and PLDA."""

    def __init__(self, model: SpeakerModel | str | os.PathLike[str]):
        """Raises ModelFormatError for a directory that is no model."""
        self.model = model if isinstance(model, SpeakerModel) else SpeakerModel(model)
        self._enrolled: dict[str, list[Singles]] = {}

    @property
    def speakers(self) -> list[str]:
        """The names of those who are enrolled."""
        return list(self._enrolled)

    def enrol(self, name: str, *recordings: Recording) -> None:
        """Enrols a speaker with a recording or more, in addition to earlier ones of this name.

        Raises Nnet3Error for a recording that cannot be read or has no voice; nobody is enrolled then.
        """
        if not recordings:
            raise ArgumentError(f"give at least one recording of '{name}'")
        vectors = [self.model.vector(recording) for recording in recordings]
        self._enrolled.setdefault(name, []).extend(vectors)

    def score(self, name: str, recording: Recording) -> float:
        """Returns the log-likelihood ratio that the enrolled speaker speaks in a recording, and not somebody else.

        Above 0 it is likelier the speaker, if the model fits the recordings; take a threshold from recordings of your
        own. Without `plda` in the directory it is the cosine. Raises ArgumentError for an unknown name.
        """
        if name not in self._enrolled:
            raise ArgumentError(f"'{name}' is not enrolled; enrolled are: {', '.join(self._enrolled) or 'nobody'}")
        return self.scores(recording)[name]

    def scores(self, recording: Recording) -> dict[str, float]:
        """Returns the score of each enrolled speaker."""
        if not self._enrolled:
            raise ArgumentError("nobody is enrolled")
        means = np.stack([np.mean(vectors, axis=0, dtype=np.float32) for vectors in self._enrolled.values()])
        counts = [len(vectors) for vectors in self._enrolled.values()]
        scores = self.model.compare(means, counts, self.model.vector(recording)[np.newaxis])
        return dict(zip(self._enrolled, scores[:, 0].tolist(), strict=True))

    def compare(self, first: Recording, second: Recording) -> float:
        """Returns the score of two recordings: are they of one speaker?"""
        vectors = [self.model.vector(recording)[np.newaxis] for recording in (first, second)]
        return float(self.model.compare(vectors[0], [1], vectors[1])[0, 0])
