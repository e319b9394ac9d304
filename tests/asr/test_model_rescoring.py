"""Results rescored with the larger models of a directory: each stage of Vosk's, models that lack something."""

from __future__ import annotations

import logging
import shutil
from pathlib import Path

import numpy as np
import pytest

from nnet3.asr import Model, Recognizer
from nnet3.base.kaldi_io.fst import Fst
from nnet3.base.kaldi_io.fst_file import save_fst
from nnet3.base.kaldi_io.lattice import Lattice
from nnet3.base.kaldi_io.symbols import SymbolTable, load_symbols
from nnet3.base.options.rescoring import ComposeOptions
from nnet3.errors import ConfigError, ModelFormatError
from nnet3.speech.asr.model_rescoring import Rescoring, RescoringFiles
from nnet3.speech.language_models.const_arpa_acceptor import ConstArpaAcceptor
from nnet3.speech.language_models.const_arpa_file import load_const_arpa
from nnet3.speech.language_models.rnnlm import Rnnlm
from nnet3.speech.language_models.rnnlm_acceptor import RnnlmAcceptor
from nnet3.speech.lattices.rescoring import exchanged
from tests.asr.golden_rescoring import assert_same_arcs, assert_same_paths, lattices, paths
from tests.asr.golden_vosk import samples_of
from tests.rescoring_data import VOSK_CASES, needs_rescoring

RESCORED = [case for case in VOSK_CASES if (case / "model/rescore/G.carpa").exists()]
STAGES = [path for case in RESCORED for path in sorted(case.glob("*.clat"))]
_BY_NAME = {case.name: case for case in VOSK_CASES}


def _words(model: Path) -> SymbolTable:
    return load_symbols(next(model.rglob("words.txt")))


def _rescoring(model: Path) -> Rescoring:
    files = RescoringFiles.of(model)
    assert files is not None
    return Rescoring.load(files, _words(model))


def _one(path: Path) -> Lattice:
    (lattice,) = lattices(path).values()
    return lattice


@needs_rescoring
@pytest.mark.parametrize("path", STAGES, ids=[f"{path.parent.name}-{path.stem}" for path in STAGES])
def test_stages_are_those_of_vosk(path: Path) -> None:
    """S and T path by path; R from our T by its best paths, and from Vosk's T arc by arc."""
    model = path.parent / "model"
    rescoring = _rescoring(model)
    made = [rescoring.after(_one(path), stages) for stages in range(1, 4 if (model / "rnnlm").is_dir() else 3)]
    wanted = [path.with_suffix(f".{name}lat") for name in "str"][: len(made)]
    compared = 0
    for lattice, file in zip(made, wanted, strict=True):
        if file.exists():
            compared += 1
            if file.suffix != ".rlat":
                assert_same_paths(lattice, _one(file), bound=2e-5)
    assert compared >= 2
    if len(made) == 3:
        ours, theirs = paths(made[-1]), paths(_one(wanted[-1]))
        costs = [min((each[0][1] + each[0][2], words) for words, each in found.items()) for found in (ours, theirs)]
        assert costs[0] == (pytest.approx(costs[1][0], abs=1e-3), costs[1][1])
        if wanted[1].exists():
            old, new = ConstArpaAcceptor(load_const_arpa(model / "rescore/G.carpa")), Rnnlm.load(model / "rnnlm")
            found = exchanged(_one(wanted[1]), old, RnnlmAcceptor(new, 4), 0.5, ComposeOptions(3.0, 3000))
            assert_same_arcs(found, _one(wanted[2]), bound=2e-5)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A copy of a model with an RNNLM."""
    shutil.copytree(_BY_NAME["rnnlm"] / "model", tmp_path / "model")
    for path in (tmp_path / "model").rglob("*"):
        path.chmod(0o755)
    return tmp_path / "model"


@needs_rescoring
@pytest.mark.parametrize(
    ("file", "contents", "message"),
    [
        ("rescore/G.fst", None, r"rescore/G\.carpa needs rescore/G\.fst beside it"),
        ("rescore/G.fst", b"\xd6\xfd\xb2\x7e", r"G\.fst: .*byte"),
        ("rescore/G.carpa", b"\0B<ConstArpaLm> ", r"G\.carpa: .*no const-arpa model, or a damaged one"),
        ("rnnlm/word_feats.txt", None, "rnnlm: this folder of an RNNLM lacks word_feats.txt"),
        ("rnnlm/final.raw", b"\0B<Nnet3> ", r"rnnlm/final\.raw"),
        ("rnnlm/word_feats.txt", b"0\n1 0 1\n2 0 1\n", "words 1 to 2, but the search graph has word 15 'oh'"),
        ("rnnlm/special_symbol_opts.conf", b"--bos-symbol=5\n--eos-symbol=2\n", "<s> is word 5 in this language model"),
        ("rnnlm/special_symbol_opts.conf", b"--eos-symbol=2\n", "bos_symbol must be the number of a word"),
    ],
)
def test_models_that_lack_something(model: Path, file: str, contents: bytes | None, message: str) -> None:
    (model / file).unlink()
    if contents is not None:
        (model / file).write_bytes(contents)
    with pytest.raises(ModelFormatError, match=message) as error:
        Model(model)
    assert "\n" not in str(error.value)


@needs_rescoring
def test_a_folder_of_an_rnnlm_without_its_network(model: Path, caplog: pytest.LogCaptureFixture) -> None:
    (model / "rnnlm/final.raw").unlink()
    files = RescoringFiles.of(model)
    assert files is not None
    assert files.rnnlm is None
    assert f"{model}: rnnlm: not used without rnnlm/final.raw" in caplog.text


@needs_rescoring
def test_an_unknown_option(model: Path) -> None:
    (model / "rnnlm/special_symbol_opts.conf").write_text("--bos=1\n")
    with pytest.raises(ConfigError, match="there is no option '--bos' here"):
        Model(model)


@needs_rescoring
def test_models_of_other_words(model: Path) -> None:
    words = {label: name for label, name in _words(model).names.items() if label < 9}
    files = RescoringFiles.of(model)
    assert files is not None
    with pytest.raises(ModelFormatError, match=r"G\.fst: .*has word 15, but the last word of the search graph is 8"):
        Rescoring.load(files, SymbolTable(words))
    save_fst(Fst.from_arcs(0, [0], [0], [0], [5]), str(files.old))
    with pytest.raises(ModelFormatError, match=r"G\.carpa: .*has word 15, but the last word of the search graph is 8"):
        Rescoring.load(files, SymbolTable(words))
    names = dict(_words(model).names) | {1: "</s>", 2: "<s>"}
    with pytest.raises(ModelFormatError, match="<s> is word 1 in this language model, but word 2 in the list"):
        Rescoring.load(files, SymbolTable(names))
    save_fst(Fst.from_arcs(0, [0, 0], [0, 1], [1, 0], [0, 0]), str(files.old))
    with pytest.raises(ModelFormatError, match=r"G\.fst: the arcs without words of a grammar have a cycle"):
        Rescoring.load(files, _words(model))


@needs_rescoring
def test_without_a_new_model_nothing_is_rescored(model: Path, caplog: pytest.LogCaptureFixture) -> None:
    (model / "rescore/G.carpa").unlink()
    assert Model(model).rescoring is None
    (message,) = caplog.messages
    assert message.endswith("rescore/G.fst, rnnlm/final.raw: not used without rescore/G.carpa")


@needs_rescoring
def test_no_path_is_left(model: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Vosk crashes where all words are unknown to G.fst; here the result is empty."""
    save_fst(Fst.from_arcs(0, [np.inf, 0], [0], [1], [3]), str(model / "rescore/G.fst"))
    assert _heard(model) == [""]
    assert "no words are left: all that was heard has words that rescore/G.fst or" in caplog.text


@needs_rescoring
def test_damage_that_shows_late_leaves_the_first_words(model: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = model / "rescore/G.carpa"
    contents = bytearray(path.read_bytes())
    begin, end = contents.index(b"<LmStates>") + 20, contents.index(b"</LmStates>")
    begin += (end - begin) // 2 // 4 * 4  # behind the n-grams of <s>, which are read at once
    contents[begin:end] = b"\x7f" * (end - begin)
    path.write_bytes(contents)
    caplog.set_level(logging.WARNING)
    assert _heard(model)[0]
    assert "the words are those of the search graph alone" in caplog.text
    assert "a damaged const-arpa model" in caplog.text


def _heard(model: Path) -> list[str]:
    recognizer = Recognizer(Model(model), 8000)
    contents = samples_of(_BY_NAME["rnnlm"])
    found = [recognizer.result().text] if recognizer.accept(contents) else []
    last = recognizer.finish().text
    return [*found, last] if last or not found else found
