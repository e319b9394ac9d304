"""Tables of vectors of speakers: what Kaldi's programs compute, in their precision, and what is left out or refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from nnet3.kaldi_io import Reader, load_matrix, open_vector_table, vector_writer
from nnet3.options import PldaAdaptationOptions, SpeakerLdaOptions
from nnet3.speaker import Plda, SpeakerStats, adapted_plda, discriminant_transform, estimate_plda
from tests.cli.run_command import Cli
from tests.seeds import RANDOM

DIM, SPEAKERS, EACH = 3, 6, 4
POINTS = RANDOM.normal(1, 3, (SPEAKERS, 1, DIM)) + RANDOM.normal(size=(SPEAKERS, EACH, DIM))
VECTORS = POINTS.reshape(-1, DIM).astype(np.float32)
KEYS = [f"u{speaker}{n}" for speaker in range(SPEAKERS) for n in range(EACH)]


@pytest.fixture(autouse=True)
def tables(cli: Cli) -> None:
    write("vectors.ark", dict(zip(KEYS, VECTORS, strict=True)))
    lines = [f"s{s} " + " ".join(KEYS[s * EACH : (s + 1) * EACH]) for s in range(SPEAKERS)]
    Path("spk2utt").write_text("\n".join(lines) + "\n")
    Path("utt2spk").write_text("".join(f"{key} s{key[1]}\n" for key in KEYS))


def write(path: str, vectors: dict[str, np.ndarray]) -> None:
    with vector_writer(f"ark:{path}") as writer:
        for key, vector in vectors.items():
            writer.write(key, vector)


def read(path: str) -> np.ndarray:
    return np.stack([vector for _, vector in open_vector_table(f"ark:{path}")])


def plda(path: str) -> Plda:
    return Reader.open(path).whole(Plda.read)


def test_means_of_speakers_and_of_all(cli: Cli) -> None:
    cli.good("ivector-mean", "ark:spk2utt", "ark:vectors.ark", "ark:means.ark", "ark,t:num_utts.ark")
    grouped = VECTORS.reshape(SPEAKERS, EACH, DIM)
    expected = (grouped[:, 0] + grouped[:, 1] + grouped[:, 2] + grouped[:, 3]) * np.float32(0.25)
    np.testing.assert_array_equal(read("means.ark"), expected)
    assert Path("num_utts.ark").read_text() == "".join(f"s{n} {EACH} \n" for n in range(SPEAKERS))
    Path("some").write_text("s0 u00 nobody u01\ns1 nobody\n")
    outcome = cli.good("ivector-mean", "ark:some", "ark:vectors.ark", "ark:means.ark")
    assert "utterance 'nobody' left out" in outcome.err
    assert "speaker 's1' left out: no utterance has a vector" in outcome.err
    np.testing.assert_array_equal(read("means.ark")[0], (VECTORS[0] + VECTORS[1]) * np.float32(0.5))
    assert cli("ivector-mean", "ark:echo s nobody |", "ark:vectors.ark", "ark:means.ark").status == 1
    cli.good("ivector-mean", "ark:vectors.ark", "mean.vec")
    assert Path("mean.vec").read_text().startswith(" [ ")
    cli.good("ivector-mean", "--binary=true", "ark:vectors.ark", "mean.bin")
    for name in ("mean.vec", "mean.bin"):
        mean = Reader.open(name).whole(lambda reader: reader.vector(np.float64))
        np.testing.assert_allclose(mean, VECTORS.mean(axis=0, dtype=float), rtol=1e-12)
    assert Path("mean.bin").read_bytes()[:5] == b"\0BDV "
    assert cli("ivector-mean", "ark:vectors.ark").status == 2


def test_means_are_subtracted(cli: Cli) -> None:
    cli.good("ivector-subtract-global-mean", "ark:vectors.ark", "ark:centred.ark")
    np.testing.assert_allclose(read("centred.ark"), VECTORS - VECTORS.mean(axis=0, dtype=float), atol=1e-6)
    cli.good("ivector-subtract-global-mean", "--subtract-mean=false", "ark:vectors.ark", "ark:same.ark")
    np.testing.assert_array_equal(read("same.ark"), VECTORS)
    Path("mean.vec").write_text("[ 1 2 3 ]\n")
    cli.good("ivector-subtract-global-mean", "mean.vec", "ark:vectors.ark", "ark:centred.ark")
    np.testing.assert_array_equal(read("centred.ark"), VECTORS - np.array([1, 2, 3], np.float32))
    Path("mean.vec").write_text("[ 1 2 ]\n")
    outcome = cli("ivector-subtract-global-mean", "mean.vec", "ark:vectors.ark", "ark:wrong.ark")
    assert (outcome.status, Path("wrong.ark").exists()) == (1, False)
    assert "mean.vec: expected a vector of 3 numbers, as the table's, got 2" in outcome.err
    assert cli("ivector-subtract-global-mean", "ark:echo -n |", "ark:none.ark").status == 1


def test_lengths_and_transforms(cli: Cli) -> None:
    write("few.ark", {"a": np.array([3.0, 4.0, 0.0]), "b": np.zeros(3)})
    outcome = cli.good("ivector-normalize-length", "ark:few.ark", "ark:long.ark")
    assert "a vector of zeros stays as it is" in outcome.err
    np.testing.assert_allclose(read("long.ark"), [[0.6 * 3**0.5, 0.8 * 3**0.5, 0], [0, 0, 0]], rtol=1e-6)
    cli.good("ivector-normalize-length", "--scaleup=false", "ark:few.ark", "ark:long.ark")
    np.testing.assert_allclose(read("long.ark")[0], [0.6, 0.8, 0], rtol=1e-6)
    cli.good("ivector-normalize-length", "--normalize=false", "ark:few.ark", "ark:long.ark")
    np.testing.assert_array_equal(read("long.ark")[0], [3, 4, 0])
    Path("t.mat").write_text("[ 1 0 0 5\n 0 2 0 0 ]\n")
    for name in ("transform-vec", "ivector-transform"):
        cli.good(name, "t.mat", "ark:vectors.ark", f"ark:{name}.ark")
        np.testing.assert_allclose(read(f"{name}.ark"), VECTORS[:, :2] * [1, 2] + [5, 0], rtol=1e-6)
    several = "ark:echo 'a [ 3 4 ]'; echo 'b [ 2 ]'; echo 'c [ ]' |"
    cli.good("ivector-normalize-length", "--scaleup=false", several, "ark,t:each")
    assert Path("each").read_text().split() == ["a", "[", "0.6", "0.8", "]", "b", "[", "1", "]", "c", "[", "]"]
    Path("t.mat").write_text("[ 1 0 ]\n")
    assert "takes vectors of 2 or 1 numbers, got 3" in cli("transform-vec", "t.mat", "ark:vectors.ark", "ark:x").err


def test_lda_pca_and_plda(cli: Cli) -> None:
    cli.good("ivector-compute-lda", "--dim=2", "ark:vectors.ark", "ark:utt2spk", "lda.mat")
    affine, centre = load_matrix("lda.mat"), VECTORS.mean(axis=0, dtype=float).astype(np.float32)
    stats = SpeakerStats.of_speakers((VECTORS - centre).reshape(SPEAKERS, EACH, DIM))
    expected = discriminant_transform(stats, SpeakerLdaOptions(dim=2))
    np.testing.assert_allclose(affine[:, :DIM].T @ affine[:, :DIM], expected.T @ expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(affine[:, DIM], -affine[:, :DIM] @ centre, rtol=1e-4, atol=1e-5)
    outcome = cli.good("ivector-compute-lda", "--dim=1", "ark:vectors.ark", "ark:grep -v u00 utt2spk |", "lda.mat")
    assert "utterance 'u00' left out: ark:grep -v u00 utt2spk | has no speaker for it" in outcome.err
    assert "--dim=100 is more than the 3" in cli("ivector-compute-lda", "ark:vectors.ark", "ark:utt2spk", "x").err

    flags = ["--read-vectors=true", "--normalize-variance=true", "--normalize-mean=true", "--dim=2"]
    cli.good("est-pca", *flags, "--write-full-matrix=full.mat", "ark:vectors.ark", "pca.mat")
    full = load_matrix("full.mat")
    np.testing.assert_array_equal(load_matrix("pca.mat"), full[:2])
    whitened = VECTORS @ full[:, :DIM].T + full[:, DIM]
    np.testing.assert_allclose(np.cov(whitened.T, bias=True), np.eye(DIM), atol=1e-4)
    np.testing.assert_allclose(whitened.mean(axis=0), np.zeros(DIM), atol=1e-5)
    cli.good("est-pca", "ark:echo 'a [ 1 2\n 3 4\n 0 1 ]' |", "of_rows.mat")
    assert load_matrix("of_rows.mat").shape == (2, 2)
    outcome = cli.good("est-pca", "--dim=1", "ark:echo 'a [ 2 0\n -2 0\n 0 1\n 0 -1 ]' |", "x.mat")
    assert "Sum of PCA eigenvalues is 2.5, sum of kept eigenvalues is 2\n" in outcome.err
    some = "ark:echo 'z [ ]'; cat vectors.ark; echo 'y [ 1 2 ]' |"
    outcome = cli.good("est-pca", *flags, some, "some.mat")
    assert ("'z' left out: it is empty" in outcome.err, "'y' left out: it has 2 columns" in outcome.err) == (True, True)
    np.testing.assert_array_equal(load_matrix("some.mat"), load_matrix("pca.mat"))
    assert "--dim=4 is more than the 3" in cli("est-pca", "--read-vectors=true", "--dim=4", "ark:vectors.ark", "x").err

    outcome = cli.good("ivector-compute-plda", "ark:spk2utt", "ark,s,cs:vectors.ark", "plda")
    assert "Estimated PLDA of 24 vectors of 6 speakers" in outcome.err
    model = estimate_plda(SpeakerStats.of_speakers(VECTORS.reshape(SPEAKERS, EACH, DIM)))
    np.testing.assert_allclose(plda("plda").transform, model.transform)
    cli.good(
        "ivector-adapt-plda", "--within-covar-scale=0.75", "--between-covar-scale=0.25", "plda", "ark:vectors.ark", "p2"
    )
    adapted = adapted_plda(model, VECTORS, PldaAdaptationOptions(1.0, 0.75, 0.25))
    np.testing.assert_allclose(plda("p2").psi, adapted.psi, rtol=1e-9)
    cli.good("ivector-copy-plda", "--smoothing=0.0", "plda", "p3")
    assert Path("p3").read_bytes() == Path("plda").read_bytes()
    cli.good("ivector-copy-plda", "--smoothing=0.5", "--binary=false", "--normalize-length=false", "plda", "p4")
    np.testing.assert_allclose(plda("p4").psi, model.smoothed(0.5).psi)
    assert cli("ivector-compute-plda", "ark:echo s u00 u01 |", "ark:vectors.ark", "x").status == 1


@pytest.mark.parametrize(
    ("lines", "why"),
    [
        ("a [ 1 2 ]\nb [ 1 2 3 ]\n", "b: expected a vector of 2 numbers, as before it, got 3"),
        ("a [ ]\n", "a: expected a vector of numbers, got 0"),
        ("a [ 1 inf ]\n", "a: the vector has a NaN or an infinity"),
        ("", "there are no vectors"),
    ],
)
def test_wrong_vectors_are_named_and_nothing_is_written(cli: Cli, lines: str, why: str) -> None:
    Path("wrong").write_text(lines)
    commands = [["ivector-mean", "ark:wrong", "x"], ["ivector-normalize-length", "ark:wrong", "ark:x"]]
    for command in commands[: 2 if "inf" in lines else 1]:
        outcome = cli(*command)
        assert (outcome.status, Path("x").exists()) == (1, False)
        assert why in outcome.err


def test_a_speaker_has_vectors_of_one_dimension(cli: Cli) -> None:
    Path("wrong").write_text("a [ 1 2 ]\nb [ 1 2 3 ]\n")
    outcome = cli("ivector-mean", "ark:echo s a b |", "ark:wrong", "ark:x")
    assert (outcome.status, Path("x").exists()) == (1, False)
    assert "the vectors of speaker 's' have several dimensions" in outcome.err
