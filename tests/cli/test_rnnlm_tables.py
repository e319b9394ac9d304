"""Programs of RNNLMs: each command line of the golden data gives what Kaldi's gave; wrong words are refused."""

from __future__ import annotations

import shlex
import shutil
from itertools import islice
from pathlib import Path

import numpy as np
import pytest

from nnet3 import Nnet
from nnet3.cli.verb import find_program
from nnet3.kaldi_io import Reader, load_matrix
from nnet3.model.nnet import load_nnet
from nnet3.training.rnnlm.example import RNNLM_EXAMPLES
from nnet3.training.rnnlm.sampling_lm import SamplingLm
from tests.cli.run_command import Cli, Outcome
from tests.rescoring_data import RNNLM_CASES, needs_rescoring
from tests.rnnlm.golden_training import change

MOST = 2e-5  # of printed log-probabilities


class _Folder:
    """A copy of a golden case, in which command lines run; what they write begins with `new.`."""

    def __init__(self, case: Path, folder: Path, cli: Cli) -> None:
        self.case, self.path, self.cli = case, folder, cli
        for file in case.iterdir():
            shutil.copy(file, folder / file.name)

    def run(self, line: str) -> tuple[list[str], Outcome]:
        """Runs a line of a *.cmd file; returns its words and the outcome."""
        words = shlex.split(line)
        if ">" in words:
            words = words[: words.index(">")]
        verb = find_program(words[0])
        assert verb is not None, words[0]
        return words, self.cli(verb.name or "", *words[1:])

    def lines(self, name: str, program: str) -> list[str]:
        return [line for line in (self.path / name).read_text().splitlines() if line.startswith(program)]

    def cut_examples(self, count: int) -> None:
        """Writes the first examples of egs.ark as egs_COUNT.ark."""
        source, cut = self.path / "egs.ark", self.path / f"egs_{count}.ark"
        with RNNLM_EXAMPLES.open(f"ark:{source}") as table, RNNLM_EXAMPLES.writer(f"ark:{cut}") as writer:
            for key, example in islice(table, count):
                writer.write(key, example)


@pytest.fixture(params=RNNLM_CASES, ids=lambda case: case.name)
def folder(request: pytest.FixtureRequest, tmp_path: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> _Folder:
    monkeypatch.chdir(tmp_path)
    return _Folder(request.param, tmp_path, cli)


@needs_rescoring
def test_probabilities_are_printed_as_kaldi_prints_them(folder: _Folder) -> None:
    lines = folder.lines("probs.cmd", "rnnlm-sentence-probs")
    assert len(lines) >= 2
    for line in lines:
        _, outcome = folder.run(line)
        assert outcome.status == 0
        wanted = (folder.path / line.split("> ")[1]).read_text().splitlines()
        for ours, theirs in zip(outcome.out.splitlines(), wanted, strict=True):
            (key, *values), (other, *numbers) = ours.split(" "), theirs.split(" ")
            assert key == other
            np.testing.assert_allclose(np.array(values, float), np.array(numbers, float), atol=MOST, rtol=MOST)
    (line,) = folder.lines("probs.cmd", "rnnlm-compute-prob")
    _, outcome = folder.run(line)
    assert float(outcome.out) == pytest.approx(float((folder.path / "compute_prob.txt").read_text()), rel=1e-5)
    for said in (folder.path / "compute_prob.log").read_text().splitlines():
        if "bjf" in said:
            assert said.partition(") ")[2].partition(") ")[2] in outcome.err or said.split(") ", 1)[1] in outcome.err


@needs_rescoring
def test_features_and_embeddings_are_kaldis(folder: _Folder) -> None:
    if (folder.path / "unigram_probs.txt").exists():
        printed = folder.cli("get-unigram-probs", "words.txt", "train.txt").out.split()
        wanted_probs = (folder.path / "unigram_probs.txt").read_text().split()
        assert [float(each) for each in printed] == pytest.approx([float(each) for each in wanted_probs])
    for program in ("choose_features.py", "get_word_features.py"):
        for line in folder.lines("train.cmd", program):
            _, outcome = folder.run(line)
            wanted = (folder.path / line.split("> ")[1]).read_text().splitlines()
            ours = outcome.out.splitlines()
            assert [each for each in ours if "unigram" not in each] == [w for w in wanted if "unigram" not in w]
            assert len(ours) == len(wanted)
    for line in folder.lines("train.cmd", "rnnlm-get-word-embedding"):
        _, outcome = folder.run(line.replace("word_embedding.final.mat", "new.mat"))
        assert outcome.status == 0
        np.testing.assert_allclose(
            load_matrix("new.mat"), load_matrix(folder.case / "word_embedding.final.mat"), atol=1e-6
        )


@needs_rescoring
def test_sampling_lms_are_kaldis(folder: _Folder) -> None:
    for line in folder.lines("train.cmd", "rnnlm-get-sampling-lm"):
        words, outcome = folder.run(line)
        assert outcome.status == 0
        name = words[-1]
        if name.endswith(".arpa"):
            texts = ((each / name).read_text().replace("-0.000", "0.000") for each in (folder.path, folder.case))
            ours, theirs = texts
            assert sorted(ours.splitlines()) == sorted(theirs.splitlines())
            continue
        ours_, theirs_ = (Reader.open(each / name).whole(SamplingLm.read) for each in (folder.path, folder.case))
        np.testing.assert_allclose(ours_.unigrams, theirs_.unigrams, atol=1e-6)
        assert Reader.open(folder.path / name).binary == Reader.open(folder.case / name).binary


@needs_rescoring
def test_examples_have_the_words_of_kaldis(folder: _Folder) -> None:
    for file in ("train.cmd", "probs.cmd"):
        for line in folder.lines(file, "rnnlm-get-egs"):
            words, outcome = folder.run(line)
            assert outcome.status == 0
            with RNNLM_EXAMPLES.open(words[-1]) as table:
                ours = [example for _, example in table]
            name = words[-1].removeprefix("ark:").replace("all.ark", "egs.ark")
            with RNNLM_EXAMPLES.open(f"ark:{folder.case / name}") as table:
                theirs = [example for _, example in table]
            sizes = [(e.vocab_size, e.num_chunks, e.chunk_length, e.sample_group_size, e.num_samples) for e in theirs]
            assert {sizes[0]} == {
                (e.vocab_size, e.num_chunks, e.chunk_length, e.sample_group_size, e.num_samples) for e in ours
            }
            if name == "dev_egs.ark":
                assert sum(e.output_weights.sum() for e in ours) == sum(e.output_weights.sum() for e in theirs)


@needs_rescoring
def test_training_goes_where_kaldis_goes(folder: _Folder) -> None:
    lines = [line for line in folder.lines("train.cmd", "rnnlm-train") if "--write-rnnlm=2.raw" in line]
    for line in lines:
        folder.cut_examples(2)
        target = folder.path / "2.raw"
        if not target.exists():
            continue  # batchnorm: dropout is random
        _, outcome = folder.run(line)
        assert outcome.status == 0, outcome.err
        start = load_nnet("0.raw")
        for name, component in start.components.items():
            if component.parameters():
                ours, theirs = (change(load_nnet(each / "2.raw"), start, name) for each in (folder.path, folder.case))
                assert np.linalg.norm(ours - theirs) <= 2e-2 * np.linalg.norm(theirs), name
        assert "Trained on 2 minibatches." in outcome.err


# ---- mistakes ----


@pytest.fixture
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "text").write_text("1 4 5 6\n0.5 5 5\n")
    (tmp_path / "words.txt").write_text(
        "".join(f"{w} {k}\n" for k, w in enumerate(["<eps>", "<s>", "</s>", "<brk>", "a"]))
    )
    (tmp_path / "far.txt").write_text("<s> 1\n</s> 2\na 2000000000\n")
    (tmp_path / "probs").write_text("0 0\n1 0\n2 0.5\n3 0\n4 0.5\n")
    return tmp_path


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("rnnlm-get-egs text ark:egs.ark", "--vocab-size is needed without a sampling LM"),
        (
            "rnnlm-get-egs --vocab-size=6 text ark:egs.ark",
            "text: line 1: words are numbers from 1 to 5 but 1 and 3, got 6",
        ),
        ("rnnlm-get-egs --vocab-size=9 --chunk-length=8 text ark:egs.ark", "more than four times --min-split-context"),
        ("rnnlm-get-egs --vocab-size=9 words.txt ark:egs.ark", "words.txt: line 1: expected a weight and the numbers"),
        ("rnnlm-get-sampling-lm text lm", "--vocab-size must be the largest number"),
        ("rnnlm-get-sampling-lm --vocab-size=2000000000 text lm", "from 3 to 16777216, got 2000000000"),
        ("rnnlm-get-sampling-lm text far.txt lm", "far.txt: expected numbers of words below 16777216, got 2000000000"),
        ("rnnlm-get-egs far.txt arpa text ark:egs.ark", "far.txt: expected numbers of words below 16777216, got 2"),
        ("rnnlm-get-egs --vocab-size=2000000000 text ark:egs.ark", "2000000000 is not in the range -1<=x<=16777216"),
        ("rnnlm-get-sampling-lm --vocab-size=9 --bos-symbol=9 text lm", "must be two words below 9"),
        ("rnnlm-get-sampling-lm text words.txt lm", "text: line 1: words are numbers from 1 to 4, got 5"),
        ("choose-features words.txt", "--unigram-probs=FILE is needed"),
        ("choose-features --unigram-probs=text words.txt", "text: line 1: expected the number of a word and its prob"),
        ("get-word-features words.txt text", "text: line 1: expected 0, a kind of feature"),
        ("rnnlm-train --read-rnnlm=0.raw ark:egs.ark", "Missing option"),
    ],
)
def test_mistakes_are_said_in_one_line(line: str, message: str, small: Path, cli: Cli) -> None:
    outcome = cli(*shlex.split(line))
    assert outcome.status in (1, 2)
    assert message in outcome.err
    assert not (small / "lm").exists()
    assert not (small / "egs.ark").exists()


def test_small_texts_go_all_the_way(small: Path, cli: Cli) -> None:
    assert cli("rnnlm-get-sampling-lm", "--vocab-size=9", "text", "lm").status == 0
    options = ["--num-samples=6", "--num-chunks-per-minibatch=2", "--chunk-length=16"]
    assert cli("rnnlm-get-egs", *options, "--srand=-1", "lm", "text", "ark:egs.ark").status == 0
    assert cli("rnnlm-get-egs", *options, "lm", "text", "ark:egs.ark").status == 0
    (small / "net.config").write_text(
        "input-node name=input dim=3\ncomponent name=a type=AffineComponent input-dim=3 output-dim=3\n"
        "component-node name=a component=a input=input\noutput-node name=output input=a\n"
    )
    (small / "e").write_text(" [\n" + "\n".join(f"{k} 0.1 0.{k}" for k in range(9)) + " ]\n")
    assert cli("init", "net.config", "0.raw").status == 0
    reads = "--read-rnnlm=0.raw", "--read-embedding=e"
    outcome = cli("rnnlm-train", *reads, "--write-rnnlm=1.raw", "--write-embedding=f", "--binary=false", "ark:egs.ark")
    assert outcome.status == 0, outcome.err
    assert "Overall objf is" in outcome.err
    assert load_matrix("f").shape == (9, 3)
    (small / "sentences").write_text("u1 4 5\nu2\n\n")
    symbols = "--bos-symbol=1", "--eos-symbol=2"
    outcome = cli("rnnlm-sentence-probs", *symbols, "1.raw", "f", "sentences")
    assert [len(line.split()) for line in outcome.out.splitlines()] == [4, 2]
    outcome = cli("rnnlm-sentence-probs", "1.raw", "f", "sentences")
    assert outcome.status == 1
    assert "bos_symbol must be the number of a word, 1 to 8, got -1" in outcome.err
    (small / "sentences").write_text("u1 4 99\n")
    outcome = cli("rnnlm-sentence-probs", *symbols, "1.raw", "f", "sentences")
    assert "sentences: line 1: expected a key and numbers of words from 1 to 8" in outcome.err
    assert cli("rnnlm-train", *reads, "--write-rnnlm=2.raw", "ark:/dev/null").status == 1
    assert not (small / "2.raw").exists()
    for name, message in (
        ("2.raw", "2.raw: two outputs are to be written here: give each a name of its own"),
        ("/dev/full", "/dev/full: cannot write this file: No space left on device"),
        ("1.raw", "1.raw: this is a model, as Kaldi writes them; a matrix or vector"),
    ):
        outcome = cli("rnnlm-train", *reads, "--write-rnnlm=2.raw", f"--write-embedding={name}", "ark:egs.ark")
        assert outcome.status == 1
        assert message in outcome.err
        assert not (small / "2.raw").exists()
        assert not [*small.glob(".*")]


def test_word_features_are_printed_all_or_not(cli: Cli) -> None:
    Path("words.txt").write_text("<eps> 0\n<s> 1\n</s> 2\nan 3\n")
    Path("features.txt").write_text("0\tspecial\t<s>\t1.0\n1\tunigram\t0.05\t0.03\n")
    outcome = cli("get-word-features", "words.txt", "features.txt")
    assert outcome.status == 1
    assert "needs a unigram probability" in outcome.err
    assert outcome.out == ""


def test_a_line_without_a_probability_is_told(cli: Cli) -> None:
    Path("words.txt").write_text("<eps> 0\n<s> 1\n</s> 2\nan 3\n")
    Path("probs").write_text("0 0\n1 many\n")
    outcome = cli("choose-features", "--unigram-probs=probs", "words.txt")
    assert outcome.status == 1
    assert "probs: line 2: expected the number of a word and its probability, got '1 many'" in outcome.err


def test_sentences_are_read_before_anything_is_printed(cli: Cli) -> None:
    config = "input-node name=input dim=2\noutput-node name=output input=input\n"
    Nnet.from_config(config).save("lm.raw")
    Path("words.mat").write_text(" [\n0 0\n1 0\n0 1\n1 1 ]\n")
    for text, message in (
        ("a 3\n\nb 9\n", "text: line 3: expected a key and numbers of words from 1 to 3"),
        ("", "no"),
    ):
        Path("text").write_text(text)
        outcome = cli("rnnlm-sentence-probs", "--bos-symbol=1", "--eos-symbol=2", "lm.raw", "words.mat", "text")
        assert outcome.status == 1
        assert message in outcome.err
        assert outcome.out == ""
