"""The stages in their order, from recordings to a report."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from pathlib import Path

from recipes.spoken_digits.recordings import read_recordings, speakers_of
from recipes.spoken_digits.stages import Stage, key_of_file, run_stage
from recipes.spoken_digits.words import WordTraining, train_network
from recipes.spoken_digits_speakers.report import Condition, write_report
from recipes.spoken_digits_speakers.speech import write_examples, write_features
from recipes.spoken_digits_speakers.verification import Trials, Vectors, compute_vectors, cosines, train_plda

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

    def trials(stage: Stage, of: list[str], trained_on: list[str]) -> tuple[Vectors, list[Trials]]:
        """The vectors of words, and trials of words and of speakers by cosines, then both by PLDA."""
        words, enrolled = (vectors(stage, part, of, trained_on) for part in ("test", "valid"))
        plda = train_plda(vectors(stage, "train", trained_on, trained_on))
        made = [(words.word_trials(score), words.speaker_trials(enrolled, score)) for score in (cosines, plda)]
        return words, [each for pair in made for each in pair]

    known, of_known = trials(train("everybody", speakers), speakers, speakers)
    of_unknown = []
    for start in range(0, len(speakers), settings.left_out):
        away = speakers[start : start + settings.left_out]
        others = [each for each in speakers if each not in away]
        if len(away) < 2 or len(others) < 2:
            continue  # no trials, or nothing to learn
        of_unknown.append(trials(train(f"without-{'-'.join(away)}", others), away, others)[1])
    conditions = [Condition("speakers to train on", *of_known)]
    if of_unknown:
        conditions.append(Condition("speakers left out", *map(Trials.joined, zip(*of_unknown, strict=True))))
    return write_report(len(recordings), known, conditions, out)
