"""The whole recipe on a few made-up recordings: its stages, its report, what it says of a missing ZIP."""

from __future__ import annotations

import contextlib
import io
import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from nnet3.cli.run import run
from recipes.spoken_digits import optimizers, report, words
from recipes.spoken_digits.__main__ import main
from recipes.spoken_digits.ctc import CtcTraining
from recipes.spoken_digits.optimizers import Comparison, Curve
from recipes.spoken_digits.recipe import run_recipe
from recipes.spoken_digits.settings import Settings
from recipes.spoken_digits.words import Decisions, WordTraining
from tests.effort import EFFORT
from tests.recipes.shallow import shallow
from tests.recipes.synthetic_recordings import write_recordings

pytest.importorskip("kaldi_native_fbank", reason="features of speech need kaldi-native-fbank")
pytest.importorskip("matplotlib", reason="the report needs matplotlib")

DIGITS = range(10) if EFFORT > 1 else (0, 3, 6, 9)
SMALL = Settings(
    variants=1,
    words=WordTraining(epochs=4, minibatch=8, models=2),
    left_out=WordTraining(epochs=1, minibatch=8, models=2),
    comparison=Comparison(
        epochs=1, looks=2, minibatch=8, natural_gradient=(0.005,), sgd=(0.1, 0.3), adam=(0.002,), trial=2
    ),
    ctc=CtcTraining(train_strings=12, test_strings=6, epochs=1, minibatch=4),
)


def _train_here(text: str, folder: Path) -> None:
    (folder / "run.toml").write_text(text)
    with contextlib.redirect_stderr(io.StringIO()) as said:
        assert run(["train-model", "--resume", str(folder / "run.toml")], "nnet3") == 0, said.getvalue()


@pytest.fixture(scope="module", autouse=True)
def _small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Networks are trained in this process, and by day they have two of the five TDNN-F layers: shorter programs."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(words, "run_train_model", _train_here)  # the recipe with a chain starts processes
        if EFFORT == 1:
            path = shallow(words.NETWORK, tmp_path_factory.mktemp("network"))
            patch.setattr(words, "NETWORK", path)
            patch.setattr(optimizers, "NETWORK", path)
        yield


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_recordings(tmp_path_factory.mktemp("recordings") / "recordings.zip", ["ann", "bob"], 9, DIGITS)


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory, archive: Path) -> Path:
    folder = tmp_path_factory.mktemp("digits") / "out"
    run_recipe(archive, folder, SMALL)
    return folder


def test_the_report_has_what_was_measured(out: Path):
    text = (out / "report.md").read_text()
    assert f"{18 * len(DIGITS)} recordings of 2 speakers" in text
    for line in (
        f"words, test set of {10 * len(DIGITS)} utterances",
        "| ann |",
        "| bob |",
        "| natural gradient |",
        "| SGD |",
        "| Adam |",
    ):
        assert line in text
    for picture in ("speakers.png", "optimizers.png"):
        assert f"]({picture})" in text
        assert (out / picture).read_bytes().startswith(b"\x89PNG")


def test_words_are_learnt(out: Path):
    assert Decisions.load(out / "words" / "decisions.json").accuracy > (0.8 if EFFORT == 1 else 0.5)


def test_the_one_left_out_is_tested_on_all_recordings(out: Path):
    decisions = Decisions.load(out / "without-ann" / "decisions.json")
    assert len(decisions.keys) == 9 * len(DIGITS)
    assert {key.split("-")[0] for key in decisions.keys} == {"ann"}
    assert "ann" not in (out / "without-ann" / "run.toml").read_text().split("[training]")[0].replace("without-ann", "")


def test_curves_of_all_optimizers_end_with_the_last_epoch(out: Path):
    curves = [Curve(**each) for each in json.loads((out / "optimizers" / "curves.json").read_text())]
    assert [curve.name for curve in curves] == ["natural gradient", "SGD", "Adam"]
    for curve in curves:
        assert len(curve.epochs) == len(curve.accuracies) == 2
        assert curve.epochs[-1] == 1.0
        assert curve.log_probabilities[-1] > -3
    assert curves[1].rate in SMALL.comparison.sgd


def test_strings_are_of_three_to_seven_digits(out: Path):
    heard = json.loads((out / "ctc" / "heard.json").read_text())
    assert len(heard) == 6
    assert all(3 <= len(key.split("-")[1]) <= 7 for key in heard)


def test_what_is_done_is_not_done_again(
    out: Path, archive: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(report, "write_report", lambda *_: None)
    run_recipe(archive, out, SMALL)
    lines = capsys.readouterr().out.splitlines()
    assert lines == [
        f"{name}: done before"
        for name in ("features", "examples", "words", "without-ann", "without-bob", "optimizers", "ctc")
    ]


def test_a_stage_that_was_interrupted_is_done_again_and_no_other(
    out: Path, archive: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(report, "write_report", lambda *_: None)
    copy = shutil.copytree(out, tmp_path / "out")
    (copy / "ctc" / "done.json").unlink()
    run_recipe(archive, copy, SMALL)
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if not line.endswith(": done before")] == ["ctc ..."]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda path: None, "no such file; give the ZIP"),
        (lambda path: path.write_bytes(b"no zip"), "not a ZIP of WAV files"),
        (lambda path: write_recordings(path, ["ann", "bob"], 5), "has an index of the train set"),
        (lambda path: write_recordings(path, ["ann"], 8), "recordings of one speaker only"),
        (lambda path: write_recordings(path, [], 8), "no files named DIGIT_SPEAKER_INDEX.wav"),
    ],
)
def test_recordings_that_are_no_use_are_one_clear_error(make, message: str, tmp_path: Path):
    path = tmp_path / "recordings.zip"
    make(path)
    result = CliRunner().invoke(main, ["--recordings", str(path), "--out", str(tmp_path / "out")])
    assert result.exit_code == 1
    assert message in result.output
    assert str(path) in result.output
