"""Tuner: the run's settings, batch-norm that stays as it is, signals, and networks that cannot learn."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

import nnet3
from nnet3.asr import Model
from nnet3.base.kaldi_io.fst_file import save_fst
from nnet3.errors import TrainingError
from nnet3.kaldi_io import Fst
from nnet3.model.hmm.topology import HmmTopology, TopologyEntry, TopologyState
from nnet3.model.hmm.transition_model import TransitionModel
from nnet3.options import TuningOptions
from nnet3.speech.tuning import tune
from nnet3.speech.tuning.speech_aligner import Spoken
from nnet3.speech.tuning.spoken_graphs import SpokenGraphs
from nnet3.speech.tuning.tune import StoppedError, Tuner
from nnet3.training.runs.settings_text import read_settings_text
from tests.asr.small_recognizer import RATE, write_recognizer
from tests.asr.spoken_tones import random_words, spoken

pytest.importorskip("kaldifst")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "work").mkdir()
    return write_recognizer(tmp_path / "model")


def network_in(folder: Path) -> nnet3.AcousticModel:
    model = nnet3.load(folder / "am/final.mdl")
    assert isinstance(model, nnet3.AcousticModel)
    return model


def tuner_of(folder: Path, **options: float) -> Tuner:
    model = Model(folder)
    graphs = SpokenGraphs(model.graph, ["high", "low"])
    return Tuner(model, graphs, TuningOptions(**options), folder.parent / "work", lambda _: None)


def utterances() -> Iterator[Spoken]:
    for number in range(3):
        words = random_words(3)
        yield Spoken(f"u{number}", spoken(words).astype(np.float32), RATE, tuple(words))


def nothing() -> Iterator[Spoken]:
    return iter(())


def test_batch_norm_keeps_the_statistics_of_the_original_training(folder: Path) -> None:
    model = network_in(folder)
    model.nnet.apply_config(
        "component name=norm type=BatchNormComponent dim=8\ncomponent-node name=norm component=norm input=relu\n"
        "component-node name=last component=last input=Append(Offset(norm, -3), Offset(norm, 3))\n"
    )
    norm = model.nnet.components["norm"]
    rows = 3 * torch.randn(200, 8) + 2
    norm.store_stats(rows, *norm.propagate(rows))
    model.save(folder / "am/final.mdl")
    before = str(norm)
    tuned = tuner_of(folder, epochs=1).tune(utterances, utterances)
    assert str(tuned.model.nnet.components["norm"]) == before
    assert not tuned.model.nnet.components["norm"].test_mode
    started, trained = (
        nnet3.load(folder.parent / "work" / name).nnet.components["norm"] for name in ("start.mdl", "run/final.mdl")
    )
    assert started.test_mode
    x = torch.randn(5, 8)
    assert torch.equal(started.propagate(x)[0], trained.propagate(x)[0])
    weights = (each.nnet.components["last"].parameters().values() for each in (model, tuned.model))
    assert not any(map(torch.equal, *weights))
    assert len(tuned.training.alignments) == len(tuned.held_out.alignments) == 3
    assert tuned.before is not None


def test_phones_of_two_states(folder: Path) -> None:
    """The pdfs of a phone are those of its states; the model has no priors and learns by LF-MMI."""
    old = network_in(folder)
    first, second = TopologyState(0, 0, ((0, 0.5), (1, 0.5))), TopologyState(1, 1, ((1, 0.5), (2, 0.5)))
    topology = HmmTopology((TopologyEntry((first, second, TopologyState())),), np.array([-1, 0, 0, 0], np.int32))
    states = [(phone, state, pdf, pdf) for pdf, (phone, state) in enumerate(itertools.product((1, 2, 3), (0, 1)))]
    transitions = TransitionModel(topology, states, np.log(np.append(1.0, np.full(12, 0.5))))
    for parameter in old.nnet.components["last"].parameters().values():
        parameter.mul_(0.1)
    nnet3.AcousticModel(transitions, old.nnet).save(folder / "am/final.mdl")

    def one() -> Iterator[Spoken]:
        return itertools.islice(utterances(), 1)

    arcs = []
    for word, phone in enumerate((1, 2, 3)):
        here, there, last_id = 2 * word + 1, 2 * word + 2, 4 * phone
        arcs += [(0, here, last_id - 2, word, 0.5), (here, here, last_id - 3, 0, 0.1), (here, there, last_id, 0, 0.1)]
        arcs += [(there, there, last_id - 1, 0, 0.1), (there, 0, 0, 0, 0.1)]
    src, dst, ids, words, costs = zip(*arcs, strict=True)
    save_fst(Fst.from_arcs(0, [0.0] + 6 * [np.inf], src, dst, ids, costs, words), str(folder / "graph/HCLG.fst"))
    tuned = tuner_of(folder, epochs=1, initial_learning_rate=1e-5).tune(utterances, one)
    assert tuned.before is not None
    assert tuned.after is not None
    assert tuned.before.objective < tuned.after.objective < 0
    assert tuned.after.errors.errors < tuned.before.errors.errors
    for ids_of_rows in tuned.training.alignments.values():
        phones = transitions.phone(ids_of_rows)
        assert set(transitions.hmm_state(ids_of_rows)[phones > 1]) == {0, 1}


def test_settings_are_those_of_the_options(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tune, "train_model", lambda *_: 143)
    options = {"epochs": 7, "initial_learning_rate": 0.02, "minibatch_size": 5, "seed": 3, "extra_left_context": 4}
    with pytest.raises(StoppedError, match="no model is written") as error:
        tuner_of(folder, **options).tune(utterances, nothing)
    assert error.value.status == 143
    settings = read_settings_text(str(folder.parent / "work/run.toml")).sections
    training = settings["training"]
    assert (training["epochs"], training["seed"]) == (7, 3)
    assert training["final-learning-rate"] == pytest.approx(0.002)
    assert settings["data"]["minibatch-size"] == "1:5"
    assert "valid" not in settings["data"]


def test_a_network_without_parameters(folder: Path) -> None:
    model = network_in(folder)
    for name in ("affine", "last"):
        component = model.nnet.components[name]
        matrix = torch.zeros(component.output_dim, component.input_dim + 1)
        rows = "\n".join(" ".join(map(str, row)) for row in matrix.tolist())
        (folder / f"{name}.mat").write_text(f"[ {rows} ]")
        model.nnet.apply_config(f"component name={name} type=FixedAffineComponent matrix={folder / f'{name}.mat'}")
    model.save(folder / "am/final.mdl")
    with pytest.raises(TrainingError, match="this network has no parameter that training could change"):
        tuner_of(folder).tune(utterances, nothing)


def test_what_is_too_short_for_a_chunk(folder: Path) -> None:
    def short() -> Iterator[Spoken]:
        for each in utterances():
            yield Spoken(each.key, each.samples[: RATE // 6], RATE, ())

    with pytest.raises(TrainingError, match="no utterance gave a chunk of 21 frames"):
        tuner_of(folder, beam=500, retry_beam=1000).tune(short, nothing)
