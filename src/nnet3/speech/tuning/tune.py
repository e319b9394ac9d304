"""Tunes the network of a recognizer on utterances with transcripts: aligns them, trains, and compares."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from nnet3.base.options.examples import ChunkOptions
from nnet3.base.options.tuning import TuningOptions
from nnet3.errors import Nnet3Error, TrainingError
from nnet3.model.nnet import AcousticModel, Nnet, load
from nnet3.speech.asr.recognizer import Model
from nnet3.speech.asr.word_errors import WordErrors
from nnet3.speech.tuning.hearing import count_errors
from nnet3.speech.tuning.parameters import with_fixed_norms, with_parameters_of
from nnet3.speech.tuning.prepared import PreparedSpeech
from nnet3.speech.tuning.speech_aligner import SpeechAligner, Spoken
from nnet3.speech.tuning.spoken_graphs import SpokenGraphs
from nnet3.speech.tuning.supervisions import ChainSupervision, Cutting, FrameSupervision, TuningSupervision
from nnet3.training.runs.data_kinds import KINDS
from nnet3.training.runs.interfaces import Share
from nnet3.training.runs.settings import RunSettings
from nnet3.training.runs.settings_text import parse_toml
from nnet3.training.runs.train_model import train_model
from nnet3.training.train.evaluation import evaluate
from nnet3.training.train.objectives import total_stats

Utterances = Callable[[], Iterable[Spoken]]  # each call reads them anew
Parts = tuple[PreparedSpeech, PreparedSpeech]  # to train on, and held out
_CHUNKS = (150, 120, 90, 60, 45, 30, 21)  # frames
_LAST_RATE = 0.1  # of the first one, unless it is given
_START, _SETTINGS, _RUN = "start.mdl", "run.toml", "run"


class StoppedError(Nnet3Error):
    """A signal has asked training to stop. `status`: the exit status for the signal."""

    def __init__(self, status: int):
        self.status = status
        super().__init__("training was stopped: no model is written")


class Compared(NamedTuple):
    """The objective of held-out examples, a frame on average, and the word errors in held-out utterances."""

    objective: float
    errors: WordErrors


@dataclass(frozen=True, eq=False)
class Tuned:
    """The tuned model, its data, and both models on the held-out utterances; None if nothing was held out."""

    model: AcousticModel
    training: PreparedSpeech
    held_out: PreparedSpeech
    before: Compared | None
    after: Compared | None


@dataclass(frozen=True, eq=False)
class Tuner:
    """Tunes a model. `graphs`: the graphs of all transcripts; `folder`: for intermediate files; `say`: called
    with lines on the progress; `device`: the device to train on.
    """

    model: Model
    graphs: SpokenGraphs
    options: TuningOptions
    folder: Path
    say: Callable[[str], None]
    device: str = "cpu"

    def tune(self, training: Utterances, held_out: Utterances) -> Tuned:
        """Returns the tuned model. Raises Nnet3Error if nothing can be trained on, StoppedError for a signal."""
        path = self.model.folder.path / self.model.folder.network
        original = load(path)
        assert isinstance(original, AcousticModel), "the recognizer has loaded it"
        if original.nnet.num_parameters == 0:
            raise TrainingError(f"{path}: this network has no parameter that training could change")
        supervision = self._supervision(original)
        parts = PreparedSpeech(self.folder, "train"), PreparedSpeech(self.folder, "valid")
        has_held_out = self._write_examples(parts, (training, held_out), supervision)
        with_fixed_norms(original).save(self.folder / _START)
        settings = self._settings(parts, supervision, has_held_out)
        status = train_model(settings, KINDS)
        if status:
            raise StoppedError(status)
        trained = load(Path(settings.output.folder) / "final.mdl")
        assert isinstance(trained, AcousticModel), "training began with an acoustic model"
        tuned = with_parameters_of(original, trained)
        before = after = None
        if has_held_out:
            self.say("comparing both models on what was held out")
            objectives = (self._objective(model.nnet, settings) for model in (original, tuned))
            errors = count_errors(self.model, [original, tuned], held_out())
            before, after = map(Compared, objectives, errors)
        return Tuned(tuned, *parts, before, after)

    def _supervision(self, original: AcousticModel) -> TuningSupervision:
        """Returns LF-MMI for a model without priors, as chain models are; else cross-entropy."""
        front, options = self.model.front, self.options
        factor = front.decoding.frame_subsampling_factor
        margin = factor // 2  # for shifting the input from epoch to epoch
        left, right = original.left_context + options.extra_left_context + margin, original.right_context + margin
        chunks = ChunkOptions(_CHUNKS, 0, left, right, frame_subsampling_factor=factor)
        period = 1 if front.ivectors is None else front.ivectors.options.ivector_period
        cutting = Cutting(chunks, period, options.seed)
        if len(original.priors):
            return FrameSupervision(original.transition_model, cutting)
        return ChainSupervision(original, cutting, self.folder)

    def _write_examples(
        self,
        parts: Parts,
        data: tuple[Utterances, Utterances],
        supervision: TuningSupervision,
    ) -> bool:
        """Makes the examples of both parts; returns True if any is held out. TrainingError without training data."""
        aligner = SpeechAligner(self.model, self.graphs, self.options)
        with_ivectors = self.model.front.ivectors is not None
        for part, utterances in zip(parts, data, strict=True):
            part.align(utterances(), aligner, with_ivectors)
        training, held_out = parts
        self.say(
            f"{len(training.alignments)} utterances to train on, {training.seconds / 60:.1f} minutes; "
            f"{len(held_out.alignments)} held out, {held_out.seconds / 60:.1f} minutes; "
            f"{training.left_out + held_out.left_out} not aligned and left out"
        )
        if not training.alignments:
            raise TrainingError("there is no utterance to train on: none could be read and aligned with its transcript")
        supervision.prepare([*training.alignments.values(), *held_out.alignments.values()])
        counts = [part.write_examples(supervision, with_ivectors) for part in parts]
        if not counts[0]:
            raise TrainingError(f"there is nothing to train on: no utterance gave a chunk of {min(_CHUNKS)} frames")
        return counts[1] > 0

    def _settings(self, parts: Parts, supervision: TuningSupervision, has_held_out: bool) -> RunSettings:
        """Writes the settings of the run, and returns them as read back."""
        options, (training, held_out) = self.options, parts
        sections: dict[str, dict[str, Any]] = {
            "model": {"file": str(self.folder / _START)},
            "data": {
                **supervision.settings["data"],
                "train": training.table("egs"),
                **({"valid": held_out.table("egs")} if has_held_out else {}),
                "minibatch-size": f"1:{options.minibatch_size}",
                "valid-minibatch-size": f"1:{options.minibatch_size}",
            },
            "objective": supervision.settings["objective"],
            "training": {
                "epochs": options.epochs,
                "initial-learning-rate": options.initial_learning_rate,
                "final-learning-rate": options.final_learning_rate or _LAST_RATE * options.initial_learning_rate,
                "seed": options.seed,
                "device": self.device,
            },
            "combination": {"models": 0},
            "priors": {"adjust": False},
            "output": {"folder": str(self.folder / _RUN), "print-every": 10, "tensorboard": False, "curves": False},
        }
        path = self.folder / _SETTINGS
        lines = []
        for name, values in sections.items():
            lines += [f"[{name}]", *(f"{key} = {json.dumps(value)}" for key, value in values.items()), ""]
        path.write_text("\n".join(lines), encoding="utf-8")
        return KINDS.read(parse_toml("\n".join(lines), str(path)))

    def _objective(self, nnet: Nnet, settings: RunSettings) -> float:
        """Returns the objective of held-out examples, a frame on average, in test mode."""
        source = KINDS.data[settings.data_kind].kind().open(settings.data, nnet, Share(0, 1, 0), self.options.seed)
        objectives = KINDS.objective[settings.objective_kind].kind().make(settings.objective, nnet)
        return total_stats(evaluate(nnet, source.validation(), objectives.compare).values()).average
