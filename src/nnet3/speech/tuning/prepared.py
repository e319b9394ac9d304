"""PreparedSpeech: utterances on their way to examples: features and ivectors in files, alignments in memory."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt

from nnet3.base.kaldi_io.specifiers import NO_TABLE
from nnet3.base.kaldi_io.table_values import matrix_writer, open_matrix_table, random_access_matrices
from nnet3.errors import Nnet3Error, TrainingError
from nnet3.speech.tuning.speech_aligner import AlignedSpeech, SpeechAligner, Spoken
from nnet3.speech.tuning.supervisions import TuningSupervision
from nnet3.training.examples.example import example_writer

_LOG = logging.getLogger("nnet3")


@dataclass
class PreparedSpeech:
    """The utterances of one part of the data, `train` or `valid`; `folder` has the files with the part's name."""

    folder: Path
    name: str
    alignments: dict[str, npt.NDArray[np.int32]] = field(default_factory=dict)
    seconds: float = 0.0
    left_out: int = 0

    def table(self, kind: str) -> str:
        """Returns the table of a kind in Kaldi's words: feats, ivectors or egs."""
        return f"ark:{self.folder / f'{self.name}.{kind}.ark'}"

    def align(self, utterances: Iterable[Spoken], aligner: SpeechAligner, with_ivectors: bool) -> None:
        """Aligns utterances and writes the network's inputs. Unusable utterances are named and counted."""
        ivectors_table = self.table("ivectors") if with_ivectors else NO_TABLE
        with matrix_writer(self.table("feats")) as features, matrix_writer(ivectors_table) as ivectors:
            for spoken in utterances:
                try:
                    speech = aligner.align(spoken)
                except Nnet3Error as error:
                    self._leave_out(spoken.key, error)
                    continue
                features.write(spoken.key, speech.features)
                if speech.ivectors is not None:
                    ivectors.write(spoken.key, speech.ivectors)
                self.alignments[spoken.key] = speech.transition_ids
                self.seconds += spoken.seconds

    def write_examples(self, supervision: TuningSupervision, with_ivectors: bool) -> int:
        """Writes the examples of all utterances; returns how many there are."""
        with example_writer(self.table("egs"), supervision.kind) as examples:
            for speech_key, speech in self._aligned(with_ivectors):
                try:
                    made = supervision.examples(speech_key, speech)
                    if not made:
                        raise TrainingError(f"no chunk could be made of its {len(speech.features)} frames")
                except TrainingError as error:
                    self._leave_out(speech_key, error)
                    continue
                for key, example in made:
                    examples.write(key, example)
            return examples.count

    def _aligned(self, with_ivectors: bool) -> Iterator[tuple[str, AlignedSpeech]]:
        ivectors = random_access_matrices(self.table("ivectors")) if with_ivectors else None
        with open_matrix_table(self.table("feats")) as table:
            for key, features in table:
                own = None if ivectors is None else ivectors.get(key)
                yield key, AlignedSpeech(features, own, self.alignments[key])

    def _leave_out(self, key: str, error: Nnet3Error) -> None:
        _LOG.warning("%s is left out: %s", key, error)
        self.left_out += 1
