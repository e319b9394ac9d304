"""Sequence training by `nnet3 train-model`: data and objective of kind `chain`."""

from __future__ import annotations

from pathlib import Path

import pytest

import nnet3
from nnet3.errors import Nnet3Error
from nnet3.train.chain import ChainObjective
from nnet3.train.run.chain import ChainExamplesKind, ChainExamplesSection, ChainKind, ChainSection
from nnet3.train.run.plugs import Share
from shared_data import GOLDEN, needs_shared
from train.run.task import Task

MONO = GOLDEN / "chain" / "mono"


@needs_shared
def test_minibatches_are_shifted_by_epoch() -> None:
    section = ChainExamplesSection(train=(f"ark:{MONO}/egs.ark",), minibatch_size="8", frame_shifts=3)
    source = ChainExamplesKind().open(section, nnet3.load(MONO / "start.raw"), Share(), 0)
    beginnings = []
    for epoch in range(4):
        minibatch = next(iter(source.training(epoch, None))).minibatch
        assert minibatch.num_sequences == 8
        beginnings.append((int(minibatch.inputs[0].indexes[0, 1]), int(minibatch.targets[0].indexes[0, 1])))
    assert beginnings == [(-6, 0), (-5, 0), (-4, 3), (-6, 0)]


@needs_shared
def test_objective() -> None:
    nnet = nnet3.load(MONO / "start.raw")
    section = ChainSection(den_fst=f"{MONO}/den.fst", xent_regularize=0.2, apply_deriv_weights=True)
    objective = ChainKind().make(section, nnet)
    assert isinstance(objective, ChainObjective)
    assert objective.options.xent_regularize == 0.2
    assert objective.apply_deriv_weights
    with pytest.raises(Nnet3Error, match="den-fst: expected the file"):
        ChainKind().make(ChainSection(), nnet)
    with pytest.raises(Nnet3Error, match=r"biphone/den.fst: the denominator graph has a pdf"):
        ChainKind().make(ChainSection(den_fst=f"{GOLDEN}/chain/biphone/den.fst"), nnet)


@needs_shared
def test_a_run(task: Task) -> None:
    (task.folder / "plain.toml").unlink(missing_ok=True)
    task.settings.write_text(
        f"""
        [model]
        file = "{MONO}/start.raw"
        [data]
        kind = "chain"
        train = "ark:{MONO}/egs.ark"
        valid = "ark:{MONO}/egs.ark"
        minibatch-size = "1:8"
        [objective]
        kind = "chain"
        den-fst = "{MONO}/den.fst"
        xent-regularize = 0
        [training]
        epochs = 2
        initial-learning-rate = 0.01
        final-learning-rate = 0.001
        [output]
        folder = "{task.exp}"
        """.replace("\n        ", "\n")
    )
    assert task.run() == 0
    before, *_, after = (event["objective"] for event in task.events("valid"))
    assert after > before
    assert Path(task.exp / "final.raw").exists()
