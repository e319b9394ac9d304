"""Trials: are two recordings of one speaker? Cosines of their x-vectors, or PLDA, and the equal-error rate."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import nnet3
from nnet3 import speaker
from nnet3.kaldi_io import open_matrix_table
from nnet3.options import SpeakerLdaOptions
from recipes.spoken_digits_speakers.speech import LENGTHS, speaker_of

EMBEDDING = "output-node name=output input=tdnn6.affine"


@dataclass(frozen=True, eq=False)
class Trials:
    """Scores of pairs of one speaker, (same,), and of two speakers, (different,)."""

    same: np.ndarray
    different: np.ndarray

    @property
    def equal_error_rate(self) -> float:
        """The share of errors at the threshold where as many pairs of one speaker are missed as others accepted."""
        misses, alarms = self.errors()
        place = int(np.argmin(np.abs(misses - alarms)))
        return float(misses[place] + alarms[place]) / 2

    def errors(self) -> tuple[np.ndarray, np.ndarray]:
        """Returns the shares of `same` below and of `different` at or above each threshold, (thresholds,)."""
        thresholds = np.unique(np.concatenate([self.same, self.different]))
        below = np.searchsorted(np.sort(self.same), thresholds) / len(self.same)
        return below, 1 - np.searchsorted(np.sort(self.different), thresholds) / len(self.different)

    @classmethod
    def joined(cls, parts: Sequence[Trials]) -> Trials:
        return cls(np.concatenate([p.same for p in parts]), np.concatenate([p.different for p in parts]))


#: Gives the scores (n, m) of vectors (n, dim), each the mean of so many, (n,), and tests (m, dim).
Score = Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]


def cosines(enrolled: np.ndarray, counts: np.ndarray, tests: np.ndarray) -> np.ndarray:
    """The cosines of the angles between vectors."""
    return nnet3.cosine_scores(enrolled, tests).numpy()


@dataclass(frozen=True, eq=False)
class Vectors:
    """The x-vectors of utterances, (utterances, dim), and their speakers."""

    speakers: np.ndarray
    vectors: np.ndarray

    def of(self, speaker: str) -> np.ndarray:
        return self.vectors[self.speakers == speaker]

    def word_trials(self, score: Score = cosines) -> Trials:
        """Each pair of two words."""
        first, second = np.triu_indices(len(self.vectors), k=1)
        scores = score(self.vectors, np.ones(len(self.vectors), int), self.vectors)[first, second]
        same = self.speakers[first] == self.speakers[second]
        return Trials(scores[same], scores[~same])

    def speaker_trials(self, enrolled: Vectors, score: Score = cosines) -> Trials:
        """Each word against each speaker, whose vector is the mean of those that are enrolled."""
        names, counts = np.unique(enrolled.speakers, return_counts=True)
        scores = score(np.stack([enrolled.of(name).mean(axis=0) for name in names]), counts, self.vectors)
        same = names[:, np.newaxis] == self.speakers
        return Trials(scores[same], scores[~same])


def train_plda(known: Vectors) -> Score:
    """PLDA behind LDA, as Kaldi's recipes have it, trained on vectors of known speakers.

    LDA keeps a dimension less than there are speakers: more do not differ between them.
    """
    names = np.unique(known.speakers)
    stats = speaker.SpeakerStats.of_speakers(known.of(name) for name in names)
    transform = speaker.discriminant_transform(stats, SpeakerLdaOptions(dim=len(names) - 1))

    def prepared(vectors: np.ndarray) -> np.ndarray:
        return speaker.with_length(speaker.transformed(vectors.astype(np.float32), transform))

    plda = speaker.estimate_plda(speaker.SpeakerStats.of_speakers(prepared(known.of(name)) for name in names))

    def score(enrolled: np.ndarray, counts: np.ndarray, tests: np.ndarray) -> np.ndarray:
        own, _ = plda.in_own_space(prepared(enrolled), counts)
        return plda.ratios(own, counts, plda.in_own_space(prepared(tests))[0])

    return score


def compute_vectors(network: Path, features: Path, speakers: list[str], mean_of: Path, others: list[str]) -> Vectors:
    """The vectors of all utterances of `speakers`, less the mean of those of `others` in another table."""
    nnet = nnet3.load_nnet(network)
    nnet.apply_config(EMBEDDING)
    _, known = _vectors(nnet, mean_of, others)
    found, vectors = _vectors(nnet, features, speakers)
    return Vectors(found, vectors - known.mean(axis=0))


def _vectors(nnet: nnet3.Nnet, features: Path, speakers: list[str]) -> tuple[np.ndarray, np.ndarray]:
    with open_matrix_table(f"ark:{features}") as table:
        utterances = [(speaker_of(key), rows) for key, rows in table if speaker_of(key) in speakers]
    vectors = nnet3.xvectors(nnet, (rows for _, rows in utterances), min_chunk_size=LENGTHS[0])
    return np.array([speaker for speaker, _ in utterances]), vectors.numpy()
