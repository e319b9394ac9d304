"""Scores of trials and pairs, clusters, error rates, turns: numbers, formats, and lines that are left out."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from nnet3.kaldi_io import Writer, matrix_writer, open_matrix_table, vector_writer
from nnet3.options import ClusteringOptions, PldaScoringOptions
from nnet3.speaker import Plda, clusters_of, scores_of_pairs
from tests.cli.run_command import Cli
from tests.seeds import RANDOM
from tests.speaker.made_voices import RATE, make_model, voice, wav_bytes

MODEL = Plda.of_covariances(
    np.array([0.5, -1.0]), np.array([[1.0, 0.3], [0.3, 0.5]]), np.array([[2.0, 0.1], [0.1, 3.0]])
)
ENROLLED = {"anna": np.array([1.0, 2.0], np.float32), "eva": np.array([-1.0, 0.5], np.float32)}
TESTS = {f"t{n}": row.astype(np.float32) for n, row in enumerate(RANDOM.normal(size=(4, 2)))}


@pytest.fixture
def tables(cli: Cli) -> Cli:
    for name, vectors in (("enrolled", ENROLLED), ("tests", TESTS)):
        with vector_writer(f"ark:{name}.ark") as writer:
            for key, vector in vectors.items():
                writer.write(key, vector)
    writer = Writer.of_file(binary=True)
    MODEL.write_to(writer)
    writer.write_to("plda")
    Path("trials").write_text("anna t0\neva t1\nanna t3\nnobody t1\neva t9\n")
    return cli


@pytest.mark.parametrize("options", [(), ("--normalize-length=false",), ("--simple-length-normalization=true",)])
@pytest.mark.parametrize("counts", [None, (3, 5)])
def test_trials_are_scored_by_plda(tables: Cli, options: tuple[str, ...], counts: tuple[int, int] | None) -> None:
    Path("num_utts").write_text("anna 3\neva 5\n")
    given = [*options, *(["--num-utts=ark,t:num_utts"] if counts else [])]
    outcome = tables.good(
        "ivector-plda-scoring", *given, "plda", "ark:enrolled.ark", "ark:tests.ark", "trials", "scores"
    )
    assert "trial 'nobody t1' left out: there is no vector for 'nobody'" in outcome.err
    assert "Processed 3 trials, 2 had errors" in outcome.err
    how = PldaScoringOptions("--normalize-length=false" not in options, "--simple-length-normalization=true" in options)
    number_of = dict(zip(ENROLLED, counts or (1, 1), strict=True))
    lines = []
    for one, other in (("anna", "t0"), ("eva", "t1"), ("anna", "t3")):
        own, _ = MODEL.in_own_space(ENROLLED[one][np.newaxis], [number_of[one]], how)
        test, _ = MODEL.in_own_space(TESTS[other][np.newaxis], options=how)
        lines.append(f"{one} {other} {np.float32(MODEL.ratios(own, [number_of[one]], test)[0, 0]):.7g}")
    found = Path("scores").read_text().splitlines()
    assert [line.split()[:2] for line in found] == [line.split()[:2] for line in lines]
    for line, expected in zip(found, lines, strict=True):
        assert float(line.split()[2]) == pytest.approx(float(expected.split()[2]), rel=1e-5)


def test_speakers_without_a_number_are_left_out(tables: Cli) -> None:
    arguments = ["plda", "ark:enrolled.ark", "ark:tests.ark", "trials", "scores"]
    Path("num_utts").write_text("anna 3\n")
    outcome = tables.good("ivector-plda-scoring", "--num-utts=ark:num_utts", *arguments)
    assert "speaker 'eva' left out: ark:num_utts has no number of utterances for it" in outcome.err
    assert "Processed 2 trials, 3 had errors" in outcome.err
    Path("num_utts").write_text("anna 3\neva 0\n")
    assert (
        "eva: expected 1 utterance or more, got 0"
        in tables("ivector-plda-scoring", "--num-utts=ark:num_utts", *arguments).err
    )
    assert tables("ivector-plda-scoring", *arguments[:3], "echo x y |", "none").status == 1
    outcome = tables("ivector-plda-scoring", *arguments[:3], "echo anna t0 target |", "-")
    assert "line 1: expected two keys, got 'anna t0 target'" in outcome.err
    twice = "ark:cat enrolled.ark enrolled.ark |"
    assert "'anna' has two vectors" in tables("ivector-plda-scoring", "plda", twice, *arguments[2:]).err
    wide = "ark:echo 'a [ 1 2 3 ]' |"
    assert "of vectors of 2 numbers" in tables("ivector-plda-scoring", "plda", wide, *arguments[2:]).err


def test_dot_products(tables: Cli) -> None:
    outcome = tables.good("ivector-compute-dot-products", "trials", "ark:enrolled.ark", "ark:tests.ark", "-")
    words = [line.split() for line in outcome.out.splitlines()]
    assert [word[:2] for word in words] == [["anna", "t0"], ["eva", "t1"], ["anna", "t3"]]
    for one, other, score in words:
        assert float(score) == pytest.approx(float(ENROLLED[one] @ TESTS[other]), rel=1e-5)
    wide = "ark:echo 'a [ 1 2 3 ]' |"
    outcome = tables("ivector-compute-dot-products", "trials", wide, "ark:tests.ark", "-")
    assert "there is no vector for 'anna'" in outcome.err
    wide = "ark:echo 'anna [ 1 2 3 ]' |"
    outcome = tables("ivector-compute-dot-products", "trials", wide, "ark:tests.ark", "-")
    assert "has vectors of 3 numbers, ark:tests.ark of 2" in outcome.err
    both = "ark:cat tests.ark; echo 't0 [ 1 2 3 ]' |"
    outcome = tables("ivector-compute-dot-products", "echo t0 t1 |", "ark:echo 't0 [ 1 2 ]' |", both, "-")
    assert outcome.status == 0, outcome.err
    Path("v.scp").write_text("t0 echo '[ 1 2 ]' |\nt1 nofile:3\nt2 echo '[ 1 ]' |\n")
    outcome = tables.good("ivector-compute-dot-products", "echo t0 t0 |", "scp:v.scp", "scp:v.scp", "-")
    assert outcome.out == "t0 t0 5\n"  # entries that no trial names are not read
    outcome = tables("ivector-compute-dot-products", "printf 't0 t0\nt2 t2\n' |", "scp:v.scp", "scp:v.scp", "-")
    assert "the vectors of the trials have several dimensions" in outcome.err
    nothing = "ark:echo 't0 [ ]' |"
    assert tables.good("ivector-compute-dot-products", "echo t0 t0 |", nothing, nothing, "-").out == "t0 t0 0\n"
    assert tables("ivector-compute-dot-products", "echo -n |", "scp:v.scp", "scp:v.scp", "-").status == 1


@pytest.mark.parametrize("energy", [0.1, 1.0])
def test_pairs_of_segments_are_scored_and_clustered(tables: Cli, energy: float) -> None:
    Path("reco2utt").write_text("r t0 t1 t2 t3\nq t1\n")
    tables.good(
        "ivector-plda-scoring-dense", f"--target-energy={energy}", "plda", "ark:reco2utt", "ark:tests.ark", "ark:s.ark"
    )
    scores = dict(open_matrix_table("ark:s.ark"))
    np.testing.assert_allclose(
        scores["r"], scores_of_pairs(MODEL, np.stack(list(TESTS.values())), energy), rtol=1e-4, atol=1e-5
    )
    assert scores["q"].shape == (1, 1)
    tables.good("agglomerative-cluster", "--threshold=0.2", "ark:s.ark", "ark,t:reco2utt", "ark,t:labels")
    expected = clusters_of(-scores["r"], ClusteringOptions(threshold=-0.2)).tolist()
    assert Path("labels").read_text() == "".join(f"t{n} {label} \n" for n, label in enumerate(expected)) + "t1 1 \n"
    Path("number").write_text("r 3\nq 1\n")
    options = ["--reco2num-spk-rspecifier=ark,t:number", "--read-costs=false", "--max-spk-fraction=1.0"]
    tables.good("agglomerative-cluster", *options, "ark:s.ark", "ark:reco2utt", "ark,t:labels")
    assert len({line.split()[1] for line in Path("labels").read_text().splitlines()[:4]}) == 3
    missing = tables("ivector-plda-scoring-dense", "plda", "ark:echo r t0 t8 |", "ark:tests.ark", "ark:x.ark")
    assert (missing.status, Path("x.ark").exists()) == (1, False)
    assert "there is no entry 't8'" in missing.err
    short = tables("agglomerative-cluster", "ark:s.ark", "ark:echo r t0 |", "ark,t:x")
    assert "r: ark:echo r t0 | has 1 segments of it, the matrix is (4, 4)" in short.err


def test_costs_may_be_given(cli: Cli) -> None:
    costs = np.array([[0, 1, 9], [1, 0, 9], [9, 9, 0]], np.float32)
    with matrix_writer("ark:costs.ark") as writer:
        writer.write("r", costs)
    for options, expected in (
        (["--read-costs=true", "--threshold=2"], [2, 2, 1]),
        (["--threshold=6"], [2, 1, 2]),
        (["--read-costs=true", "--threshold=0"], [1, 2, 3]),
    ):
        cli.good("agglomerative-cluster", *options, "ark:costs.ark", "ark:echo r a b c |", "ark,t:labels")
        found = [int(line.split()[1]) for line in Path("labels").read_text().splitlines()]
        assert found == expected


def test_error_rates_are_printed(cli: Cli) -> None:
    targets, others = [1.5, 2.0, 2.5, 0.25, 3.0], [-1.0, 0.5, -2.0, 0.125, -3.0]
    trials = [*((f"a{n}", score, "target") for n, score in enumerate(targets)),
              *((f"b{n}", score, "nontarget") for n, score in enumerate(others))]  # fmt: skip
    Path("eer").write_text("".join(f"{score} {kind}\n" for _, score, kind in trials))
    Path("scores").write_text("".join(f"s {key} {score}\n" for key, score, _ in trials))
    Path("trials").write_text("".join(f"s {key} {kind}\n" for key, _, kind in trials))
    outcome = cli.good("compute-eer", "cat eer |")
    assert outcome.out == "20"
    assert "Equal error rate is 20%, at threshold 1.5" in outcome.err
    outcome = cli.good("compute-min-dcf", "--p-target=0.01", "scores", "trials")
    assert outcome.out == "0.2000\n"
    assert "minDCF is 0.2000 at threshold 0.5000 (p-target=0.01, c-miss=1, c-fa=1)" in outcome.err
    for command, why in (
        (("compute-eer", "echo 1.0 target |"), "no other trials"),
        (("compute-eer", "echo one target |"), "expected a number, got 'one'"),
        (("compute-eer", "echo 1.0 both |"), "expected target or nontarget, got 'both'"),
        (("compute-eer", "echo 1.0 |"), "expected a score, and target or nontarget, got '1.0'"),
        (("compute-min-dcf", "echo s c0 1 |", "trials"), "there is no trial 's c0'"),
    ):
        outcome = cli(*command)
        assert (outcome.status, outcome.out) == (1, "")
        assert why in outcome.err
    assert cli("compute-min-dcf", "--p-target=1", "scores", "trials").status == 2


def test_turns_of_labelled_segments(cli: Cli) -> None:
    Path("segments").write_text("a1 a 0.0 1.5\na2 a 0.75 2.25\na3 a 1.5 3.0\nb1 b 4 5\na4 a 5.0 6.0\n")
    Path("labels").write_text("a1 1\na2 1\na3 2\na4 2\nb1 1\n")
    cli.good("make-rttm", "--rttm-channel=1", "segments", "labels", "rttm")
    assert Path("rttm").read_text().splitlines() == [
        "SPEAKER a 1   0.000   1.875 <NA> <NA> 1 <NA> <NA>",
        "SPEAKER a 1   1.875   1.125 <NA> <NA> 2 <NA> <NA>",
        "SPEAKER a 1   5.000   1.000 <NA> <NA> 2 <NA> <NA>",
        "SPEAKER b 1   4.000   1.000 <NA> <NA> 1 <NA> <NA>",
    ]
    Path("labels").write_text("a1 1\n")
    assert "there is no label for the segment 'a2'" in cli("make-rttm", "segments", "labels", "-").err


def test_recordings_are_verified_and_diarized(cli: Cli) -> None:
    make_model(Path("model"))
    for name, samples in (
        ("anna.1", voice(0, 50)), ("anna.2", voice(0, 51)), ("test", voice(0, 52)), ("other", voice(3, 50)),
        ("call", np.concatenate([voice(0, 60, 3.0), voice(3, 61, 3.0)])),
    ):  # fmt: skip
        Path(f"{name}.wav").write_bytes(wav_bytes(samples.astype(np.float32), RATE))
    own = float(cli.good("verify", "model", "test.wav", "anna.1.wav", "anna.2.wav").out)
    assert own > float(cli.good("verify", "model", "other.wav", "anna.1.wav", "anna.2.wav").out)
    assert cli("verify", "model", "test.wav").status == 2
    outcome = cli.good("diarize", "--num-speakers=2", "model", "call.wav")
    lines = [line.split() for line in outcome.out.splitlines()]
    assert [(line[1], line[7]) for line in lines] == [("call", "1"), ("call", "2")]
    outcome = cli("diarize", "--output=rttm", "model", "nowhere.wav", "call.wav")
    assert outcome.status == 1
    assert "nowhere.wav left out" in outcome.err
    assert Path("rttm").read_text().startswith("SPEAKER call 0 ")
    next(Path("model").rglob("plda")).unlink()
    outcome = cli("diarize", "--output=other", "model", "test.wav", "call.wav")
    assert outcome.status == 1
    assert outcome.err.count("the file plda is missing") == 1
    assert not Path("other").exists()


@pytest.mark.parametrize(
    ("name", "text", "command", "message"),
    [
        ("s", "1 target\n2 traget\n", "compute-eer s", "s: line 2: expected target or nontarget, got 'traget'"),
        ("s", "1 target\nx nontarget\n", "compute-eer s", "s: line 2: expected a number, got 'x'"),
        ("s", "1 target\nnan nontarget\n", "compute-eer s", "s: line 2: expected a number, got 'nan'"),
        ("s", "1 target\n", "compute-eer s", "s: there are no other trials: both kinds are needed"),
        ("t", "a t0 target\na t1 yes\n", "compute-min-dcf s t", "t: line 2: expected target or nontarget, got 'yes'"),
        ("s", "a t0 1\na t1 x\n", "compute-min-dcf s t", "s: line 2: expected a number, got 'x'"),
        ("s", "a t0 1\n", "compute-min-dcf s t", "s: there are no other trials: both kinds are needed"),
        ("s", "s r 2 1\n", "make-rttm s l out", "s: line 1: expected seconds, 0 <= start < end, got 2 1"),
        ("s", "s r 0 inf\n", "make-rttm s l out", "s: line 1: expected seconds, 0 <= start < end, got 0 inf"),
        ("s", "r 0\n", "agglomerative-cluster --reco2num-spk-rspecifier=ark:s ark:m ark:r2u ark:out", "s: r: the num"),
        ("s", "anna 0\neva 2\n", "ivector-plda-scoring --num-utts=ark:s plda ark:enrolled.ark ark:tests.ark trials out",
         "ark:s: anna: expected 1 utterance or more, got 0"),
        ("s", "a [ 1 2 3 ]\n", "ivector-plda-scoring plda ark:enrolled.ark ark:s trials out", "ark:s: the PLDA model"),
        ("s", "a [ 1 2 3 ]\n", "ivector-adapt-plda plda ark:s out", "nnet3: ark:s: the PLDA model is of vectors of 2"),
        ("s", "a t0 t1\n", "ivector-compute-plda ark:s ark:wide out", "nnet3: ark:wide: "),
        ("s", " [\n1 0 0 0\n0 1 0 0 ]\n", "transform-vec s ark:tests.ark ark:out", "nnet3: s: a transform of 4"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_told_with_its_file(tables: Cli, name: str, text: str, command: str, message: str) -> None:
    Path("t").write_text("a t0 target\na t1 nontarget\n")
    Path("l").write_text("s 1\n")
    Path("r2u").write_text("r a b\n")
    Path("m").write_text("r [\n0 1\n1 0 ]\n")
    Path("wide").write_text("t0 [ 1 2 3 ]\nt1 [ 3 1 2 ]\n")
    Path(name).write_text(text)
    outcome = tables(*command.split())
    assert outcome.status == 1
    assert message in outcome.err
    assert not Path("out").exists()
