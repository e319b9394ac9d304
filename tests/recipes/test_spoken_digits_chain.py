"""Sequence training on a few made-up recordings, and its parts: alignments, HMMs, the decoding graph."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import nnet3
from recipes.spoken_digits import words
from recipes.spoken_digits.ctc import CtcTraining, digit_error_rate
from recipes.spoken_digits_chain import recipe, training
from recipes.spoken_digits_chain.__main__ import main
from recipes.spoken_digits_chain.decoding import best_path, write_decoding_graph
from recipes.spoken_digits_chain.phones import NUM_PDFS, make_hmms, phones_of
from recipes.spoken_digits_chain.recipe import Settings, run_recipe
from recipes.spoken_digits_chain.speech import uniform_alignment
from recipes.spoken_digits_chain.training import ChainTraining
from tests.effort import EFFORT
from tests.recipes.shallow import shallow
from tests.recipes.synthetic_recordings import write_recordings

pytest.importorskip("kaldi_native_fbank", reason="features of speech need kaldi-native-fbank")
pytest.importorskip("matplotlib", reason="the report needs matplotlib")
kaldifst = pytest.importorskip("kaldifst", reason="graphs need kaldifst")
pytest.importorskip("kaldi_decoder", reason="decoding needs kaldi-decoder")

pytestmark = pytest.mark.usefixtures("prepared_python")
SMALL = Settings(
    ChainTraining(epochs=8 if EFFORT > 1 else 2, minibatch=8, models=2, print_every=2),
    CtcTraining(train_strings=40 if EFFORT > 1 else 16, test_strings=8, epochs=1, minibatch=4),
    valid_strings=6,
)


@pytest.fixture(scope="module", autouse=True)
def _shallow_by_day(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        if EFFORT == 1:
            patch.setattr(words, "NETWORK", shallow(words.NETWORK, tmp_path_factory.mktemp("words")))
            path = shallow(training.NETWORK, tmp_path_factory.mktemp("network"))
            patch.setattr(training, "NETWORK", path)
            patch.setattr(recipe, "NETWORK", path)
        yield


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_recordings(tmp_path_factory.mktemp("recordings") / "recordings.zip", ["ann", "bob"], 9)


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory, archive: Path, prepared_python: None) -> Path:
    folder = tmp_path_factory.mktemp("digits") / "out"
    run_recipe(archive, folder, SMALL)
    return folder


def test_strings_are_learnt_and_decoded(out: Path):
    heard = json.loads((out / "chain" / "heard.json").read_text())
    assert len(heard) == 8
    assert digit_error_rate(heard) < 0.7 or EFFORT == 1  # by two epochs little is learnt


def test_a_ctc_network_that_is_there_is_compared(out: Path, archive: Path, tmp_path: Path):
    shutil.copytree(out / "ctc", tmp_path / "digits" / "ctc")
    copy = shutil.copytree(out, tmp_path / "out")
    shutil.rmtree(copy / "ctc")
    text = run_recipe(archive, copy, SMALL, tmp_path / "digits").read_text()
    assert "CTC with its network of single words" in text
    assert not (copy / "ctc").exists()
    assert "CTC with random parameters" in run_recipe(archive, out, SMALL, tmp_path / "nothing").read_text()


def test_the_report_has_what_was_measured(out: Path):
    text = (out / "report.md").read_text()
    for line in ("| LF-MMI |", "| CTC |", "60 pdfs", "Errors of LF-MMI: "):
        assert line in text
    assert (out / "digits.png").read_bytes().startswith(b"\x89PNG")


def test_the_model_is_one_of_kaldi(out: Path):
    model = nnet3.load(out / "chain" / "final.mdl")
    assert isinstance(model, nnet3.AcousticModel)
    assert model.transition_model.num_pdfs == model.nnet.node_dim("output") == NUM_PDFS
    assert len(model.priors) == 0


def test_what_is_done_is_not_done_again(out: Path, archive: Path, capsys: pytest.CaptureFixture[str]):
    run_recipe(archive, out, SMALL)
    names = ("speech", "graphs", "examples", "chain", "ctc")
    assert capsys.readouterr().out.splitlines() == [f"{name}: done before" for name in names]


def test_phones_share_a_digit_equally():
    alignment = uniform_alignment([4, 0], np.array([31.4, 50.0]))
    assert alignment.tolist() == [[13, 10], [14, 11], [15, 10], [1, 7], [2, 6], [3, 6]]


def test_hmms_are_those_of_chain_models():
    model = make_hmms().model
    assert (model.num_pdfs, model.num_phones, model.num_transition_ids) == (60, 30, 60)
    assert [int(model.pdf(number)) for number in (1, 2, 59, 60)] == [1, 0, 59, 58]
    assert [bool(model.is_self_loop(number)) for number in (1, 2)] == [True, False]


@pytest.mark.parametrize("digits", [[7], [3, 3], [0, 9, 1, 1, 5]])
def test_the_graph_finds_what_the_scores_say(tmp_path: Path, digits: list[int]):
    write_decoding_graph(tmp_path / "HCLG.fst")
    graph = kaldifst.StdVectorFst.read(str(tmp_path / "HCLG.fst"))
    rng = np.random.default_rng(len(digits))
    frames = [pdf for phone in phones_of(digits) for pdf in [2 * phone - 2] + [2 * phone - 1] * int(rng.integers(0, 4))]
    scores = rng.standard_normal((len(frames), NUM_PDFS)).astype(np.float32)
    scores[np.arange(len(frames)), frames] += 10
    assert best_path(graph, scores) == digits
    assert best_path(graph, scores[:2]) is None


def test_no_recordings_are_one_clear_error(tmp_path: Path):
    result = CliRunner().invoke(main, ["--recordings", str(tmp_path / "none.zip"), "--out", str(tmp_path / "out")])
    assert result.exit_code == 1
    assert "no such file; give the ZIP" in result.output
