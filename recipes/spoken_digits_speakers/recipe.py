"""The stages in their order, from recordings to a report."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from pathlib import Path

from recipes.spoken_digits.recordings import read_recordings, speakers_of
from recipes.spoken_digits.stages import Stage, key_of_file, run_stage
from recipes.spoken_digits.words import WordTraining, train_network
from recipes.spoken_digits_speakers.report import Condition, write_report
from recipes.spoken_digits_speakers.speech import write_examples, write_features
from recipes.spoken_digits_speakers.verification import Trials, Vectors, compute_vectors

NETWORK = Path(__file__).with_name("network.xconfig")
_PARTS = "train", "valid", "test"


@dataclass(frozen=True)
class Settings:
    """`stretches` are cut out of each recording to train on; speakers are left out in groups of `left_out`."""

    stretches: int = 3
    left_out: int = 2
    training: WordTraining = field(default_factory=lambda: WordTraining(epochs=3, models=5))


QUICK = Settings(stretches=1, training=WordTraining(epochs=1, models=2))


def run_recipe(archive: Path, out: Path, settings: Settings) -> Path:
    """All stages that are not done yet; returns the path of the report."""
    recordings = read_recordings(archive)
    speakers = speakers_of(recordings)

    def write_tables(folder: Path) -> None:
        for part in _PARTS:
            write_features([each for each in recordings if each.part == part], folder / f"{part}.ark")

    features = run_stage(out, "features", {"recordings": key_of_file(archive)}, write_tables)
    tables = {part: features.folder / f"{part}.ark" for part in _PARTS}

    def train(name: str, who: list[str]) -> Stage:
        def make(folder: Path) -> None:
            network = folder / "network.xconfig"
            network.write_text(NETWORK.read_text().replace("SPEAKERS", str(len(who))))
            for part, count in (("train", settings.stretches), ("valid", 1)):
                write_examples(tables[part], who, count, settings.training.seed, folder / f"{part}.ark")
            train_network(network, [folder / "train.ark"], [folder / "valid.ark"], settings.training, folder)

        depends_on = {"features": features.key, "network": key_of_file(NETWORK), "speakers": who, **asdict(settings)}
        return run_stage(out, name, depends_on, make)

    def vectors(stage: Stage, part: str, of: list[str], trained_on: list[str]) -> Vectors:
        return compute_vectors(stage.folder / "final.raw", tables[part], of, tables["valid"], trained_on)

    everybody = train("everybody", speakers)
    known = vectors(everybody, "test", speakers, speakers)
    words, enrolled = [], []
    for start in range(0, len(speakers), settings.left_out):
        away = speakers[start : start + settings.left_out]
        others = [each for each in speakers if each not in away]
        if len(away) < 2 or len(others) < 2:
            continue  # no trials, or nothing to learn
        stage = train(f"without-{'-'.join(away)}", others)
        unknown = vectors(stage, "test", away, others)
        words.append(unknown.word_trials())
        enrolled.append(unknown.speaker_trials(vectors(stage, "valid", away, others)))
    conditions = [
        Condition(
            "speakers to train on",
            known.word_trials(),
            known.speaker_trials(vectors(everybody, "valid", speakers, speakers)),
        ),
    ]
    if words:
        conditions.append(Condition("speakers left out", Trials.joined(words), Trials.joined(enrolled)))
    return write_report(len(recordings), known, conditions, out)
