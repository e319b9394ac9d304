"""`nnet3 tune`: a model directory that hears better what it was tuned on, and mistakes that leave nothing behind."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import nnet3
from nnet3.asr import Model
from nnet3.cli import tuning
from tests.asr.small_model import write_kaldi_folder
from tests.asr.small_recognizer import write_recognizer
from tests.asr.spoken_tones import random_words, write_data
from tests.cli.run_command import Cli
from tests.effort import at_night
from tests.seeds import RANDOM

pytest.importorskip("kaldifst")
QUICK = ("--held-out-share=0.25",)
RATES = re.compile(r"word error rate: (\S+) % before, (\S+) % after \((\d+) and (\d+) errors in (\d+) words\)")
OBJECTIVES = re.compile(r"objective per frame: (\S+) before, (\S+) after")


@pytest.fixture
def folder(cli: Cli, tmp_path: Path) -> Path:
    """A folder with a model that hears tones as several words, and data."""
    spoil(write_recognizer(tmp_path / "model") / "am/final.mdl")
    write_data(Path("data"), {f"u{number}": random_words(3) for number in range(8)})
    return tmp_path


def spoil(path: Path) -> None:
    """Makes outputs small, as those of chain models are, and those of one word larger."""
    model = nnet3.load(path)
    assert isinstance(model, nnet3.AcousticModel)
    last, offset = model.nnet.components["last"].parameters().values()
    last.mul_(0.2)
    offset.mul_(0.2)[2:4] += 3
    model.save(path)


def parameters_of(path: Path) -> dict[str, np.ndarray]:
    model = nnet3.load(path)
    assert isinstance(model, nnet3.AcousticModel)
    components = model.nnet.components.items()
    return {f"{name}.{key}": t.numpy() for name, each in components for key, t in each.parameters().items()}


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("lookahead", [True, *at_night(False)])
def test_a_tuned_model_hears_better(cli: Cli, folder: Path, lookahead: bool) -> None:
    """The look-ahead graph makes words so unlikely that there is no error before; then there is none after it."""
    if lookahead:
        spoil(write_recognizer(folder / "ahead", lookahead=True) / "am/final.mdl")
    model = folder / ("ahead" if lookahead else "model")
    before = contents(model)
    outcome = cli.good("tune", *QUICK, "--work=work", model, "data", "tuned")
    rates = RATES.search(outcome.out)
    assert rates is not None, outcome.out
    assert int(rates[4]) <= max(0, int(rates[3]) - 4)
    assert int(rates[5]) == 6  # two utterances of three words
    assert "6 utterances to train on" in outcome.err
    assert "2 held out" in outcome.err
    assert OBJECTIVES.search(outcome.out) is not None
    after = contents(folder / "tuned")
    assert contents(model) == before
    assert after.keys() == before.keys()
    assert [name for name in before if before[name] != after[name]] == ["am/final.mdl"]
    assert len(before["am/final.mdl"]) == len(after["am/final.mdl"])
    Model("tuned")
    old, new = (parameters_of(each / "am/final.mdl") for each in (model, folder / "tuned"))
    assert all(np.abs(old[name] - new[name]).max() > 0 for name in old)
    assert {"run.toml", "den.fst", "start.mdl", "train.egs.ark", "valid.egs.ark", "run"} <= {
        each.name for each in (folder / "work").iterdir()
    }
    cli.good("train-model", "--resume", "work/run.toml")  # the run is over: it goes on from its end


def test_a_model_with_priors_learns_by_cross_entropy(cli: Cli, folder: Path) -> None:
    path = folder / "model/am/final.mdl"
    model = nnet3.load(path)
    assert isinstance(model, nnet3.AcousticModel)
    model.nnet.apply_config(
        "component name=log type=LogSoftmaxComponent dim=6\n"
        "component-node name=log component=log input=last\noutput-node name=output input=log objective=linear\n"
    )
    priors = np.array([0.4, 0.2, 0.1, 0.1, 0.1, 0.1], np.float32)
    nnet3.AcousticModel(model.transition_model, model.nnet, priors).save(path)
    outcome = cli.good("tune", *QUICK, "--initial-learning-rate=2e-5", "model", "data", "tuned")
    objectives = OBJECTIVES.search(outcome.out)
    assert objectives is not None, outcome.out
    assert float(objectives[1]) < float(objectives[2]) < 0
    tuned = nnet3.load("tuned/am/final.mdl")
    assert isinstance(tuned, nnet3.AcousticModel)
    np.testing.assert_array_equal(tuned.priors, priors)


def test_a_folder_of_kaldi_keeps_its_layout(cli: Cli, folder: Path) -> None:
    write_kaldi_folder(folder / "kaldi", RANDOM)
    (folder / "kaldi/final.mdl").write_bytes((folder / "model/am/final.mdl").read_bytes())
    cli.good("tune", *QUICK, "--graph=model/graph", "--epochs=1", "kaldi", "data", "tuned")
    before, after = contents(folder / "kaldi"), contents(folder / "tuned")
    assert after.keys() == before.keys()
    assert [name for name in before if before[name] != after[name]] == ["final.mdl"]


def test_unknown_words_are_listed_and_left_out(cli: Cli, folder: Path) -> None:
    with open("data/text", "a") as text:
        text.write("v0 high hi low\nv1 hi ho\n")
    write_data(Path("others"), {f"o{number}": random_words(3) for number in range(2)})
    outcome = cli.good("tune", "--epochs=1", "--held-out=others", "model", "data", "tuned")
    assert "the model lacks 'hi' (2 times), 'ho': utterances with them are left out" in outcome.err
    assert "8 utterances to train on" in outcome.err
    assert "2 held out" in outcome.err
    assert "errors in 6 words" in outcome.out


def test_utterances_without_a_recording_are_not_held_out(cli: Cli, folder: Path) -> None:
    with open("data/text", "a") as text:
        text.write("".join(f"v{number} high\n" for number in range(40)))
    outcome = cli.good("tune", *QUICK, "--epochs=1", "model", "data", "tuned")
    assert outcome.err.count("data/wav.scp has no recording of 40 utterances, such as 'v0'") == 1
    assert "6 utterances to train on" in outcome.err
    assert "2 held out" in outcome.err


def test_nothing_held_out(cli: Cli, folder: Path) -> None:
    outcome = cli.good("tune", "--epochs=1", "--held-out-share=0", "model", "data", "tuned")
    assert outcome.out == "nothing was held out: whether the model is better is not known\n"


MISTAKES = {
    "no model": (["nomodel", "data", "tuned"], "there is no such model directory"),
    "no data": (["model", "nodata", "tuned"], "nodata: there is no such folder: expected a folder with wav.scp"),
    "model as output": (["model", "data", "model"], "this is the model directory model, or inside it"),
    "inside the model": (["model", "data", "model/tuned"], "this is the model directory model, or inside it"),
    "data as output": (["model", "data", "data"], "this folder is replaced as a whole, but it has"),
    "work with files": (["--work=data", "model", "data", "tuned"], "data: this folder is not empty"),
    "work is the output": (["--work=tuned", "model", "data", "tuned"], "tuned: this is the folder tuned, or inside it"),
    "work in the output": (["--work=tuned/w", "model", "data", "tuned"], "this is the folder tuned, or inside it"),
    "work in the model": (["--work=model/w", "model", "data", "tuned"], "this is the folder model, or inside it"),
    "work is a file": (["--work=data/text", "model", "data", "tuned"], "data/text: cannot make this folder"),
    "no epochs": (["--epochs=0", "model", "data", "tuned"], "--epochs"),
    "rates": (["--final-learning-rate=1", "model", "data", "tuned"], "must be at most --initial-learning-rate"),
    "beams": (["--retry-beam=1", "model", "data", "tuned"], "--retry-beam must be 0 or more than --beam"),
    "device": (
        ["--device=nowhere", "model", "data", "tuned"],
        "--device=nowhere is not a device such as cpu",
    ),
}


@pytest.mark.parametrize(("arguments", "message"), MISTAKES.values(), ids=list(MISTAKES))
def test_mistakes(cli: Cli, folder: Path, arguments: list[str], message: str) -> None:
    before = contents(folder)
    outcome = cli("tune", *arguments)
    assert outcome.status in (1, 2)
    assert message in " ".join(outcome.err.split())
    assert contents(folder) == before
    assert not list(folder.glob(".*"))


def test_transcripts_that_cannot_be_used(cli: Cli, folder: Path) -> None:
    Path("data/text").write_text("u0 hi\nu1 ho ho\n")
    assert "data/text: each transcript has a word that the model does not know" in cli("tune", "model", "data", "t").err
    Path("data/text").write_text(f"u0 {'high ' * 90}\n")
    outcome = cli("tune", "model", "data", "tuned")
    assert outcome.status == 1
    assert outcome.err.count("u0 is left out: no path through what was said") == 1
    assert outcome.err.splitlines()[-1].startswith("nnet3: there is no utterance to train on: none could be read")
    assert not Path("tuned").exists()


def test_a_signal_leaves_no_model(cli: Cli, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Training says that a signal has come: the status says so too, and what was made goes."""

    def stopped(tuner: tuning.Tuner, *_: object) -> None:
        assert re.fullmatch(r"\.tuned\..*\.tmp", tuner.folder.name)  # a kill leaves it
        raise tuning.StoppedError(143)

    monkeypatch.setattr(tuning.Tuner, "tune", stopped)
    outcome = cli("tune", "model", "data", "tuned")
    assert (outcome.status, outcome.err) == (143, "nnet3: training was stopped: no model is written\n")
    assert not list(folder.glob("*tuned*"))
    assert not list(folder.glob(".*"))
