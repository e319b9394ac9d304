"""Rnnlm: what Kaldi's program prints for all kinds of networks; folders; networks and embeddings that do not fit."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nnet3.asr import Rnnlm, RnnlmOptions
from nnet3.errors import ArgumentError, ConfigError, ModelFormatError
from nnet3.kaldi_io import open_matrix_table
from tests.asr.small_rnnlm import KINDS, OPTIONS, embedding, network, scores_of_whole, small_rnnlm
from tests.rescoring_data import RNNLM_CASES, VOSK_CASES, needs_rescoring

MOST = 2e-5  # of probs*.txt, six digits
MOST_OF_MATRICES = 1e-5


def _sentences(case: Path) -> list[list[int]]:
    return [[int(word) for word in line.split()[1:]] for line in (case / "sentences.txt").read_text().splitlines()]


def _golden(case: Path, *, normalize_probs: bool = False, batchnorm_test_mode: bool = True) -> Rnnlm:
    return Rnnlm.load(
        case / "final.raw",
        case / "word_embedding.final.mat",
        options=RnnlmOptions(1, 2, 3, normalize_probs),
        batchnorm_test_mode=batchnorm_test_mode,
        dropout_test_mode=True,
    )


@needs_rescoring
@pytest.mark.parametrize("case", RNNLM_CASES, ids=lambda case: case.name)
def test_words_have_the_log_probs_that_kaldi_prints(case: Path) -> None:
    modes = {"probs": {}, "probs_normalized": {"normalize_probs": True}}
    if (case / "probs_train_mode.txt").exists():
        modes["probs_train_mode"] = {"batchnorm_test_mode": False}
    for name, settings in modes.items():
        found = _golden(case, **settings).sentence_log_probs(_sentences(case))
        lines = (case / f"{name}.txt").read_text().splitlines()
        assert len(found) == len(lines) > 0
        for values, line in zip(found, lines, strict=True):
            np.testing.assert_allclose(values, np.array(line.split()[1:], float), atol=MOST, rtol=MOST)


@needs_rescoring
@pytest.mark.parametrize("case", RNNLM_CASES, ids=lambda case: case.name)
def test_all_words_have_kaldis_log_probs_at_each_place(case: Path) -> None:
    rnnlm, sentences = _golden(case), _sentences(case)
    with open_matrix_table(f"ark:{case / 'logprobs.ark'}") as table:
        matrices = [matrix for _, matrix in table]
    beginnings = [sentence[:end] for sentence in sentences for end in range(len(sentence) + 1)]
    found = rnnlm.log_probs(beginnings).numpy()
    assert (found[:, 0] == -np.inf).all()
    np.testing.assert_allclose(found[:, 1:], np.concatenate(matrices)[:, 1:], atol=MOST_OF_MATRICES, rtol=0)


@needs_rescoring
def test_word_features_times_their_embedding_are_the_embedding_of_words() -> None:
    case = next(case for case in RNNLM_CASES if case.name == "lstm")
    made = Rnnlm.load(case / "final.raw", case / "feat_embedding.final.mat", case / "word_feats.txt", OPTIONS)
    np.testing.assert_allclose(made.embedding, _golden(case).embedding, atol=1e-6, rtol=1e-6)


@needs_rescoring
def test_folders_of_vosk_models_are_read() -> None:
    for case in VOSK_CASES:
        folder = case / "model/rnnlm"
        if folder.is_dir():
            rnnlm = Rnnlm.load(folder)
            assert (rnnlm.options.bos_symbol, rnnlm.options.eos_symbol) == (1, 2)
            assert rnnlm.options.normalize_probs == (case.name == "rnnlm_norm")


@pytest.mark.parametrize("kind", KINDS)
def test_sentences_have_what_the_network_says_of_the_whole(kind: str) -> None:
    rnnlm = small_rnnlm(kind, batchnorm_test_mode=True)
    sentence = [4, 4, 8, 5, 7, 2, 6]
    (values,) = rnnlm.sentence_log_probs([sentence])
    for place, word in enumerate([*sentence, 2]):
        whole = scores_of_whole(kind, sentence[:place])
        assert values[place] == pytest.approx(whole[word], abs=1e-5)
        np.testing.assert_allclose(rnnlm.log_probs([sentence[:place]])[0, 1:], whole[1:], atol=1e-5)


def test_sentences_may_be_many_and_empty() -> None:
    rnnlm = small_rnnlm("tdnn")
    assert rnnlm.sentence_log_probs([]) == []
    assert rnnlm.log_probs([]).shape == (0, 9)
    sentences = [[4 + k % 3] * (k % 4) for k in range(600)]
    found = rnnlm.sentence_log_probs(sentences)
    assert [len(values) for values in found] == [len(sentence) + 1 for sentence in sentences]
    np.testing.assert_allclose(found[599], rnnlm.sentence_log_probs(sentences[599:])[0], atol=1e-5)


def test_batchnorm_in_training_mode_sees_one_history_at_a_time() -> None:
    rnnlm = small_rnnlm("batchnorm")
    together = rnnlm.log_probs([[], [4], [5, 6], [8]])
    for row, history in zip(together, ([], [4], [5, 6], [8]), strict=True):
        np.testing.assert_allclose(row, rnnlm.log_probs([history])[0], atol=1e-6)
    np.testing.assert_allclose(together[1], together[2], atol=1e-6)  # a row less its own mean is 0


# ---- what does not fit ----


def test_network_and_embedding_must_agree() -> None:
    with pytest.raises(ModelFormatError, match="from dimension 6 to 6, and the word embedding is 9 x 5"):
        Rnnlm(network("tdnn"), embedding()[:, :5], OPTIONS)
    with pytest.raises(ArgumentError, match="bos_symbol must be the number of a word, 1 to 8, got -1"):
        Rnnlm(network("tdnn"), embedding())
    with pytest.raises(ArgumentError, match="eos_symbol must be the number of a word, 1 to 8, got 9"):
        Rnnlm(network("tdnn"), embedding(), RnnlmOptions(1, 9))


def test_networks_with_context_are_refused() -> None:
    from_context = "relu-layer name=a dim=6 input=Append(-1, 0)"
    nnet = type(network("tdnn")).from_xconfig(
        f"input dim=6 name=input\n{from_context}\noutput-layer name=output include-log-softmax=false dim=6"
    )
    with pytest.raises(ModelFormatError, match="this network 1 frames to the left"):
        Rnnlm(nnet, embedding(), OPTIONS)


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda folder: (folder / "final.raw").unlink(), "lacks final.raw"),
        (lambda folder: (folder / "word_feats.txt").write_text("0\n2\n"), "word_feats.txt: line 2: expected 1"),
        (lambda folder: (folder / "special_symbol_opts.conf").write_text("--bos=1\n"), "no option '--bos'"),
        (lambda folder: (folder / "special_symbol_opts.conf").write_text("--bos-symbol=1\n"), "eos_symbol must be"),
        (lambda folder: (folder / "feat_embedding.final.mat").write_bytes(b" [ 1 2"), "never closed"),
    ],
)
def test_damaged_folders_are_refused_in_one_line(tmp_path: Path, spoil: Callable[[Path], object], message: str) -> None:
    network("tdnn").save(tmp_path / "final.raw")
    (tmp_path / "word_feats.txt").write_text("".join(f"{k} {k} 1\n" for k in range(9)))
    rows = "\n".join(" ".join(map(str, row)) for row in embedding())
    (tmp_path / "feat_embedding.final.mat").write_text(f" [\n{rows} ]\n")
    (tmp_path / "special_symbol_opts.conf").write_text("--bos-symbol=1\n--eos-symbol=2\n--optimization.optimize=true\n")
    assert Rnnlm.load(tmp_path).num_words == 9
    spoil(tmp_path)
    with pytest.raises((ModelFormatError, ConfigError, ArgumentError), match=message):
        Rnnlm.load(tmp_path)


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    with pytest.raises(ModelFormatError, match="a folder with an RNNLM is expected"):
        Rnnlm.load(tmp_path / "none")


@pytest.mark.parametrize("wrong", ["ab", 1, [1.5], [[1, 2]], None])
def test_histories_are_numbers_of_words(wrong: Any) -> None:
    rnnlm = small_rnnlm("tdnn")
    for ask in (rnnlm.log_probs, rnnlm.sentence_log_probs):
        with pytest.raises(ArgumentError, match="a sentence or history must be a list of numbers of words"):
            ask([[1], wrong])


@pytest.mark.parametrize("wrong", [None, 3, "final.raw", [], object()])
def test_arguments_of_other_kinds_are_refused(wrong: Any) -> None:
    with pytest.raises(ArgumentError, match="the network of an RNNLM must be a network, got "):
        Rnnlm(wrong, embedding(), OPTIONS)
    if wrong is not None:
        with pytest.raises(ArgumentError, match="the options of an RNNLM must be RnnlmOptions, got "):
            Rnnlm(network("tdnn"), embedding(), wrong)
    if not isinstance(wrong, str):
        with pytest.raises(ArgumentError, match="the path of an RNNLM is needed, got "):
            Rnnlm.load(wrong)


@pytest.mark.parametrize("wrong", [None, 3, {}, iter([[1]])])
def test_sentences_have_an_order(wrong: Any) -> None:
    rnnlm = small_rnnlm("tdnn")
    for ask in (rnnlm.log_probs, rnnlm.sentence_log_probs):
        with pytest.raises(ArgumentError, match="sentences or histories must be a list of lists of word numbers"):
            ask(wrong)


def test_an_embedding_must_be_finite() -> None:
    matrix = embedding()
    matrix[3, 1] = np.nan
    with pytest.raises(ModelFormatError, match="the word embedding has a NaN or an infinity"):
        Rnnlm(network("tdnn"), matrix, OPTIONS)
