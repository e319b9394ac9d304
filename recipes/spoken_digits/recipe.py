"""The stages in their order, from recordings to a report."""

from __future__ import annotations

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path

import nnet3
from recipes.spoken_digits import ctc, report, strings, words
from recipes.spoken_digits.ctc import CtcTraining
from recipes.spoken_digits.examples import write_examples
from recipes.spoken_digits.features import write_features
from recipes.spoken_digits.optimizers import Curve, compare
from recipes.spoken_digits.recordings import Recording, read_recordings, speakers_of
from recipes.spoken_digits.settings import Settings
from recipes.spoken_digits.stages import Stage, key_of_file, run_stage
from recipes.spoken_digits.words import Decisions, WordTraining


def run_recipe(archive: Path, out: Path, settings: Settings, jobs: int = 1) -> Path:
    """All stages that are not done yet; returns the path of the report. `jobs` networks are trained at a time."""
    recordings = read_recordings(archive)
    speakers = speakers_of(recordings)
    nnet = nnet3.Nnet.from_xconfig(words.NETWORK.read_text(), source=str(words.NETWORK))
    network = key_of_file(words.NETWORK)

    def stage(name: str, depends_on: dict[str, object], make: Callable[[Path], None]) -> Stage:
        return run_stage(out, name, depends_on, make)

    features = stage(
        "features",
        {"recordings": key_of_file(archive), "mean": "speaker", "variants": settings.variants, "seed": settings.seed},
        lambda folder: write_features(recordings, settings.variants, settings.seed, folder),
    )
    context = [nnet.left_context, nnet.right_context]
    examples = stage(
        "examples",
        {"features": features.key, "context": context},
        lambda folder: write_examples(features.folder, nnet, folder),
    )

    def train(name: str, who: list[str], tests: list[Path], training: WordTraining) -> Stage:
        archives, valid = ([examples.folder / f"{each}-{part}.ark" for each in who] for part in ("train", "valid"))

        def make(folder: Path) -> None:
            words.train_words(archives, valid, training, folder)
            words.decide(nnet3.load_nnet(folder / "final.raw"), tests).save(folder / "decisions.json")

        return stage(name, {"examples": examples.key, "network": network, "speakers": who, **asdict(training)}, make)

    def leave_out(speaker: str) -> Stage:
        others = [each for each in speakers if each != speaker]
        return train(f"without-{speaker}", others, sorted(features.folder.glob(f"{speaker}-*.ark")), settings.left_out)

    tests = sorted(features.folder.glob("*-test.ark"))

    def optimizers() -> Stage:
        archives = [examples.folder / f"{speaker}-train.ark" for speaker in speakers]
        return stage(
            "optimizers",
            {"examples": examples.key, "network": network, **asdict(settings.comparison)},
            lambda folder: _write(
                folder / "curves.json", [asdict(curve) for curve in compare(archives, tests, settings.comparison)]
            ),
        )

    with ThreadPoolExecutor(jobs) as pool:
        all_speakers = pool.submit(train, "words", speakers, tests, settings.words)
        without = pool.map(leave_out, speakers)
        comparing = pool.submit(optimizers)
        trained, comparison = all_speakers.result(), comparing.result()
        left_out = dict(zip(speakers, without, strict=True))
    ctc_stage = stage(
        "ctc",
        {"words": trained.key, "recordings": key_of_file(archive), **asdict(settings.ctc)},
        lambda folder: _ctc(recordings, trained.folder / "final.raw", settings.ctc, folder),
    )
    results = report.Results(
        recordings=len(recordings),
        settings=settings,
        words=Decisions.load(trained.folder / "decisions.json"),
        left_out={speaker: Decisions.load(each.folder / "decisions.json") for speaker, each in left_out.items()},
        curves=[Curve(**curve) for curve in json.loads((comparison.folder / "curves.json").read_text())],
        strings=json.loads((ctc_stage.folder / "heard.json").read_text()),
        losses=json.loads((ctc_stage.folder / "losses.json").read_text()),
    )
    return report.write_report(results, out)


def _ctc(recordings: list[Recording], network: Path, training: CtcTraining, folder: Path) -> None:
    train = [recording for recording in recordings if recording.part == "train"]
    test = [recording for recording in recordings if recording.part == "test"]
    strings.write_strings(train, training.train_strings, True, training.seed, folder / "train.ark")
    strings.write_strings(test, training.test_strings, False, training.seed + 1, folder / "test.ark")
    module = ctc.ctc_module(network, training.seed)
    losses = ctc.train_ctc(module, folder / "train.ark", training)
    module.nnet.save(folder / "final.raw")
    _write(folder / "losses.json", losses)
    _write(folder / "heard.json", ctc.decode_strings(module, folder / "test.ark"))


def _write(path: Path, value: object) -> None:
    path.write_text(json.dumps(value))
