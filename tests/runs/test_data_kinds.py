"""Kinds of data and objectives: outputs with denominators of their own, and what does not go together."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import nnet3
from nnet3.errors import ArgumentError, Nnet3Error
from nnet3.model.nnet import Nnet
from nnet3.training.chain.objective import ChainObjectives
from nnet3.training.runs.archives import ChainExamplesKind
from nnet3.training.runs.data_kinds import ArchivesSection, ChainExamplesSection, ChainSection
from nnet3.training.runs.interfaces import Share
from nnet3.training.runs.objectives import ChainKind
from nnet3.training.train.evaluation import evaluate
from nnet3.training.train.trainer import Trainer
from tests.shared_data import GOLDEN, needs_shared

MONO = GOLDEN / "chain" / "mono"


def _network() -> Nnet:
    """The network of the case, with the same outputs once more for another language."""
    nnet = nnet3.load(MONO / "start.raw")
    assert isinstance(nnet, Nnet)
    config = (MONO / "net.config").read_text().splitlines()
    inputs = [line.partition("input=")[2].split()[0] for line in config if line.startswith("output-node")]
    names = ("output-b", "output-b-xent")
    nnet.apply_config("".join(f"output-node name={name} input={of}\n" for name, of in zip(names, inputs, strict=True)))
    return nnet


@needs_shared
@pytest.mark.filterwarnings("ignore:a batch-norm component in test mode has no statistics")
def test_languages_with_denominators_of_their_own(tmp_path: Path) -> None:
    """Each output has the objective that it would have alone, and both train."""
    nnet, den = _network(), tmp_path / "b.den.fst"
    shutil.copyfile(MONO / "den.fst", den)
    section = ChainSection(den_fsts=(f"output={MONO}/den.fst", f"output-b={den}"))
    objectives = ChainKind().make(section, nnet)
    assert isinstance(objectives.train, ChainObjectives)
    assert len(ChainKind().identity(section)) == 2
    data = ChainExamplesSection(
        train=(f"ark:{MONO}/egs.ark",) * 2, train_outputs=("output", "output-b"), minibatch_size="8"
    )
    minibatches = [each.minibatch for each in ChainExamplesKind().open(data, nnet, Share(), 0).training(0, None)]
    by_output = {name: [m for m in minibatches if m.targets[0].name == name] for name in ("output", "output-b")}
    alone = ChainKind().make(ChainSection(den_fst=f"{MONO}/den.fst"), nnet)
    together = evaluate(nnet, minibatches, objectives.compare)
    for name, own in by_output.items():
        assert own
        expected = evaluate(nnet, own, alone.compare)[name]
        assert together[name].average == pytest.approx(expected.average, rel=1e-5)
    assert {*evaluate(nnet, minibatches, objectives.statistics)} == {
        f"{name}{suffix}" for name in by_output for suffix in ("", "-xent")
    }
    result = Trainer(nnet, objective=objectives.train).train_minibatch(by_output["output-b"][0], 1e-4)
    assert {*result.stats} == {"output-b", "output-b-xent"}


@needs_shared
@pytest.mark.filterwarnings("ignore:a batch-norm component in test mode has no statistics")
def test_denominators_that_do_not_fit() -> None:
    nnet = _network()
    for given, message in (
        ((f"{MONO}/den.fst",), "expected OUTPUT=FILE, each output once"),
        ((f"output={MONO}/den.fst",) * 2, "expected OUTPUT=FILE, each output once"),
        ((f"nosuch={MONO}/den.fst",), "sequence training needs a node 'nosuch'"),
    ):
        with pytest.raises(Nnet3Error, match=message):
            ChainKind().make(ChainSection(den_fsts=given), nnet)
    with pytest.raises(Nnet3Error, match="or den-fsts, one for each output"):
        ChainKind().make(ChainSection(den_fst="den.fst", den_fsts=("output=den.fst",)), nnet)
    one = ChainKind().make(ChainSection(den_fsts=(f"output={MONO}/den.fst",)), nnet)
    data = ChainExamplesSection(train=(f"ark:{MONO}/egs.ark",), train_outputs=("output-b",), minibatch_size="8")
    first = next(iter(ChainExamplesKind().open(data, nnet, Share(), 0).training(0, None))).minibatch
    with pytest.raises(Nnet3Error, match="there is no denominator for output 'output-b', but for output"):
        evaluate(nnet, [first], one.compare)


def test_one_for_each_table() -> None:
    with pytest.raises(ArgumentError, match="expected one for each of 1 tables, got 2"):
        ArchivesSection(train=("ark:a",), train_weights=(1.0, 2.0))
