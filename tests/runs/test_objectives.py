"""Sequence training by `nnet3 train-model`: data and objective of kind `chain`."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

import nnet3
from nnet3.chain import ChainObjective, ChainOptions
from nnet3.errors import Nnet3Error
from nnet3.training.runs import training_run
from nnet3.training.runs.archives import ChainExamplesKind
from nnet3.training.runs.data_kinds import ChainExamplesSection, ChainSection
from nnet3.training.runs.interfaces import Share
from nnet3.training.runs.objectives import ChainKind
from nnet3.training.train.evaluation import evaluate
from nnet3.training.train.objectives import total_stats
from tests.runs.task import Task
from tests.runs.thread_group import run_in_threads
from tests.shared_data import GOLDEN, needs_shared

MONO = GOLDEN / "chain" / "mono"


@pytest.fixture
def chain(task: Task) -> Task:
    task.use("chain")
    return task


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
def test_the_section_reaches_the_objective() -> None:
    nnet = nnet3.load(MONO / "start.raw")
    section = ChainSection(den_fst=f"{MONO}/den.fst", xent_regularize=0.2, apply_deriv_weights=True)
    objective = ChainKind().make(section, nnet).train
    assert isinstance(objective, ChainObjective)
    assert objective.options.xent_regularize == 0.2
    assert objective.apply_deriv_weights
    with pytest.raises(Nnet3Error, match="den-fst: expected the file"):
        ChainKind().make(ChainSection(), nnet)
    with pytest.raises(Nnet3Error, match=r"biphone/den.fst: the denominator graph has a pdf"):
        ChainKind().make(ChainSection(den_fst=f"{GOLDEN}/chain/biphone/den.fst"), nnet)


@needs_shared
def test_a_run_trains_on_chain_examples(task: Task) -> None:
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


def test_chunks_are_shifted_by_epoch(chain: Task) -> None:
    nnet = nnet3.Nnet.from_config_file(chain.folder / "chain.config")
    tables = (f"ark:{chain.folder}/train.cegs",)
    for shifts, expected in ((3, [-2, -1, 0, -2]), (1, [-2] * 4)):
        section = ChainExamplesSection(train=tables, minibatch_size="8", frame_shifts=shifts)
        source = ChainExamplesKind().open(section, nnet, Share(), 0)
        minibatches = [next(iter(source.training(epoch, None))).minibatch for epoch in range(4)]
        assert [int(minibatch.inputs[0].indexes[0, 1]) for minibatch in minibatches] == expected
        assert all(minibatch.num_sequences == 8 for minibatch in minibatches)


@pytest.mark.filterwarnings("ignore:a batch-norm component in test mode has no statistics")
def test_what_is_maximised_compared_and_looked_at(chain: Task) -> None:
    """Networks are compared by LF-MMI alone; statistics are those of both outputs."""
    nnet = nnet3.Nnet.from_config_file(chain.folder / "chain.config")
    section = ChainSection(
        den_fst=f"{chain.folder}/den.fst",
        leaky_hmm_coefficient=0.25,
        xent_regularize=0.2,
        l2_regularize=0.003,
        out_of_range_regularize=0.04,
        apply_deriv_weights=True,
    )
    made = ChainKind().make(section, nnet)
    train, compare, statistics = made.train, made.compare, made.statistics
    assert isinstance(train, ChainObjective)
    assert isinstance(compare, ChainObjective)
    assert isinstance(statistics, ChainObjective)
    assert train.options == ChainOptions(l2_regularize=0.003, out_of_range_regularize=0.04, xent_regularize=0.2)
    assert compare.options == ChainOptions(l2_regularize=0.003, out_of_range_regularize=0.04, xent_regularize=0.0)
    assert statistics.options.xent_regularize == 1.0
    assert (train.apply_deriv_weights, compare.apply_deriv_weights) == (True, True)
    assert train.denominator is compare.denominator is statistics.denominator
    (batch,) = (
        ChainExamplesKind()
        .open(ChainExamplesSection(train=(f"ark:{chain.folder}/valid.cegs",), minibatch_size="20"), nnet, Share(), 0)
        .training(0, None)
    )
    weak = ChainKind().make(
        ChainSection(den_fst=f"{chain.folder}/den.fst", leaky_hmm_coefficient=1e-5, xent_regularize=0.0), nnet
    )
    values = [
        total_stats(evaluate(nnet, [batch.minibatch], each).values()).average
        for each in (compare, weak.compare, weak.train)
    ]
    assert values[0] != values[1] == values[2]  # the leak matters
    with pytest.raises(Nnet3Error, match="den-fst: expected the file of a denominator graph, or den-fsts"):
        ChainKind().make(ChainSection(), nnet)


def test_identity_is_the_contents_of_the_graph(chain: Task, tmp_path: Path) -> None:
    path = chain.folder / "den.fst"
    (tmp_path / "copy.fst").write_bytes(path.read_bytes())
    identity = ChainKind().identity(ChainSection(den_fst=str(path)))
    assert identity.keys() == {"denominator.contents"}
    assert identity == ChainKind().identity(ChainSection(den_fst=f"{tmp_path}/copy.fst"))
    (tmp_path / "copy.fst").write_bytes(path.read_bytes()[:-1])
    assert identity != ChainKind().identity(ChainSection(den_fst=f"{tmp_path}/copy.fst"))


def test_a_run_learns_and_both_outputs_are_trained(chain: Task) -> None:
    chain.change(validation__every=4)
    assert chain.run() == 0
    objectives = [event["objective"] for event in chain.events("valid")]
    assert objectives[-1] > objectives[0] + 0.1
    assert [event["frames"] for event in chain.events("train")] == [4 * 8 * 6] * 6
    start = nnet3.Nnet.from_config_file(chain.folder / "chain.config")
    final = nnet3.load_nnet(chain.exp / "final.raw")
    for name in ("affine2", "affine-xent"):
        before, after = (nnet.components[name].parameters()["linear_params"] for nnet in (start, final))
        assert float((before - after).norm()) > 0.05, name
    assert final.components["norm-xent"].info().count("count=0") == 0
    assert "Using the model averaged over last" in chain.events("combine")[-1]["message"]


def test_a_run_that_was_stopped_goes_on_to_the_same_bits(chain: Task, monkeypatch: pytest.MonkeyPatch) -> None:
    chain.change(checkpoints__every=3)
    chain.run()
    expected = chain.final
    shutil.rmtree(chain.exp)

    class Stopped(BaseException):
        pass

    original = training_run.TrainingRun._step

    def step(run: training_run.TrainingRun, *arguments: object) -> None:
        if run.progress.step == 13:
            raise Stopped
        original(run, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(training_run.TrainingRun, "_step", step)
    with pytest.raises(Stopped):
        chain.run()
    monkeypatch.setattr(training_run.TrainingRun, "_step", original)
    chain.run(resume=True)
    assert [event["step"] for event in chain.events("resume")] == [12]
    assert chain.final == expected


def test_two_processes_train_as_one_on_the_joined_minibatch(chain: Task) -> None:
    config = (chain.folder / "chain.config").read_text().replace("dropout-proportion=0.1", "dropout-proportion=0")
    (chain.folder / "chain.config").write_text(config.replace("self-repair-scale=0.05", "self-repair-scale=0"))
    chain.change(data__minibatch_size=10, objective__out_of_range_regularize=0, training__max_param_change=0.3)
    chain.change(training__epochs=1)
    chain.run()
    (alone,) = nnet3.load_nnet(chain.exp / "final.raw").flat_parameters()
    steps = [event["step"] for event in chain.events("train")]
    chain.change(data__minibatch_size=5)
    chain.use_folder("two")
    assert run_in_threads(chain) == [0, 0]
    (together,) = nnet3.load_nnet(chain.exp / "final.raw").flat_parameters()
    assert float((alone - together).norm() / alone.norm()) < 1e-5
    assert [event["step"] for event in chain.events("train")] == steps


def test_another_denominator_graph_is_another_run(chain: Task) -> None:
    chain.change(training__epochs=1)
    chain.run()
    path = chain.folder / "den.fst"
    contents = path.read_bytes()
    path.write_bytes(contents[:-8] + np.float32(1.5).tobytes() + contents[-4:])  # the cost of the last arc
    with pytest.raises(Nnet3Error, match=r"denominator\.contents: was"):
        chain.run(resume=True)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"objective__den_fst": '""'}, r"chain.toml:\d+:1: \[objective\] den-fst: expected the file"),
        ({"objective__den_fst": '"none.fst"'}, "none.fst"),
        ({"objective__leaky_hmm_coefficient": "0.0"}, "leaky-hmm-coefficient: expected a number > 0"),
        ({"objective__kind": '"by-node"', "objective__den_fst": '""'}, "there is no such key"),
        ({"data__kind": '"frames"'}, "frame-shifts: there is no such key"),
    ],
)
def test_mistakes_are_named(chain: Task, values: dict[str, str], message: str) -> None:
    chain.change(**values)
    with pytest.raises(Nnet3Error, match=message):
        chain.run()
