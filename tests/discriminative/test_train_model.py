"""`nnet3 train-model` with data and objective of kind `discriminative`: runs, resumption, mistakes."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import nnet3
from nnet3.cli.run import run
from nnet3.errors import Nnet3Error
from nnet3.training.runs import training_run
from nnet3.training.runs.archives import DiscriminativeExamplesKind
from nnet3.training.runs.data_kinds import DiscriminativeExamplesSection, DiscriminativeSection
from nnet3.training.runs.interfaces import Share
from nnet3.training.runs.objectives import DiscriminativeKind
from tests.discriminative.golden_discriminative import GOLDEN, needs_golden

pytestmark = needs_golden
CHAIN = GOLDEN / "smbr_silence"
SETTINGS = """
[model]
file = "{case}/start.mdl"
[data]
kind = "discriminative"
train = "ark:{case}/egs.ark"
valid = "ark:{case}/egs.ark"
minibatch-size = "1:4"
[objective]
kind = "discriminative"
model = "{case}/start.mdl"
{objective}
[training]
epochs = {epochs}
initial-learning-rate = 0.002
final-learning-rate = 0.001
[checkpoints]
every = {every}
[output]
folder = "{folder}"
"""


def _run(
    folder: Path,
    *arguments: str,
    epochs: int = 2,
    every: int = 1000,
    case: Path = GOLDEN / "mmi",
    objective: str = 'criterion = "mmi"',
) -> int:
    text = SETTINGS.format(case=case, epochs=epochs, folder=folder, every=every, objective=objective)
    folder.with_suffix(".toml").write_text(text)
    return run(["train-model", *arguments, str(folder.with_suffix(".toml"))], "nnet3")


def test_a_run_learns_adjusts_priors_and_resumes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert _run(tmp_path / "whole") == 0
    final = nnet3.load(tmp_path / "whole/final.mdl")
    start = nnet3.load(GOLDEN / "mmi/start.mdl")
    assert isinstance(final, nnet3.AcousticModel)
    assert isinstance(start, nnet3.AcousticModel)
    assert float(final.priors.sum()) == pytest.approx(1)
    assert not torch.allclose(final.priors, start.priors)
    for model, name in ((start, "start"), (final, "final")):
        nnet3.AcousticModel(start.transition_model, model.nnet, start.priors).save(tmp_path / f"{name}.mdl")
    capsys.readouterr()
    found = []
    for name in ("start", "final"):
        arguments = ["--criterion=mmi", f"{tmp_path}/{name}.mdl", f"ark:{GOLDEN}/mmi/merged.ark"]
        assert run(["discriminative-compute-objf", *arguments], "nnet3") == 0
        line = next(each for each in capsys.readouterr().err.splitlines() if "Overall" in each)
        found.append(float(line.partition(" is ")[2].split()[0]))
    assert found[1] > found[0] + 0.005

    class Stopped(BaseException):
        pass

    original = training_run.TrainingRun._step

    def step(run: training_run.TrainingRun, *arguments: object) -> None:
        if run.progress.step == 6:
            raise Stopped
        original(run, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(training_run.TrainingRun, "_step", step)
    with pytest.raises(Stopped):
        _run(tmp_path / "half", every=4)
    monkeypatch.setattr(training_run.TrainingRun, "_step", original)
    assert _run(tmp_path / "half", "--resume", every=4) == 0
    one, other = (nnet3.load_nnet(tmp_path / f"{name}/final.mdl").flat_parameters() for name in ("whole", "half"))
    assert all(torch.equal(*pair) for pair in zip(one, other, strict=True))


def test_a_chain_model_keeps_having_no_priors(tmp_path: Path) -> None:
    objective = 'criterion = "smbr"\nsilence-phones = [1]\none-silence-class = true\nacoustic-scale = 1.0\n'
    assert _run(tmp_path / "run", case=CHAIN, epochs=1, objective=f"{objective}xent-regularize = 0.1") == 0
    final = nnet3.load(tmp_path / "run/final.mdl")
    assert isinstance(final, nnet3.AcousticModel)
    assert len(final.priors) == 0


def test_minibatches_are_shifted_by_epoch() -> None:
    section = DiscriminativeExamplesSection(train=(f"ark:{CHAIN}/egs.ark",), minibatch_size="4", frame_shifts=3)
    nnet = nnet3.load_nnet(CHAIN / "start.mdl")
    source = DiscriminativeExamplesKind().open(section, nnet, Share(), 0)
    beginnings = []
    for epoch in range(3):
        minibatch = next(iter(source.training(epoch, None))).minibatch
        beginnings.append((int(minibatch.inputs[0].indexes[0, 1]), int(minibatch.targets[0].indexes[0, 1])))
    assert beginnings == [(-5, 0), (-4, 0), (-3, 3)]
    with pytest.raises(Nnet3Error, match="leave out"):
        DiscriminativeExamplesKind().labelled(section, nnet)


def test_sections_that_cannot_be_meant(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    nnet = nnet3.load_nnet(GOLDEN / "mmi/start.mdl")
    with pytest.raises(Nnet3Error, match="model: expected an acoustic model"):
        DiscriminativeKind().make(DiscriminativeSection(), nnet)
    section = DiscriminativeSection(model=f"{GOLDEN}/mmi/start.mdl", xent_regularize=0.1)
    with pytest.raises(Nnet3Error, match="no output 'output-xent'"):
        DiscriminativeKind().make(section, nnet)
    assert _run(tmp_path / "run", objective='criterion = "mce"') == 1
    assert "expected" in capsys.readouterr().err
    section = DiscriminativeSection(model=f"{GOLDEN}/mmi/start.mdl")
    made = DiscriminativeKind().make(section, nnet)
    assert made.gives_posteriors
    assert DiscriminativeKind().identity(section).keys() == {"objective.model.contents"}
