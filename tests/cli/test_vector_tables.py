"""Vectors, matrices and columns of features: copied, scaled, summed, chosen."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from nnet3.kaldi_io import Writer, load_matrix, load_vector, matrix_writer, open_matrix_table, vector_writer
from tests.cli.run_command import Cli

A = np.array([[1, 2, 3], [4, 5, 6]], np.float32)
B = np.array([[0.5, 0, 1]], np.float32)


@pytest.fixture
def tables(cli: Cli) -> Cli:
    with matrix_writer("ark:m.ark") as matrices, vector_writer("ark:v.ark") as vectors:
        matrices.write("a", A)
        matrices.write("b", B)
        vectors.write("a", A[0])
    Path("a.mat").write_text(" [\n 1 2 3\n 4 5 6 ]\n")
    Path("a.vec").write_text(" [ 1 2 3 ]\n")
    return cli


def _read(name: str) -> dict[str, np.ndarray]:
    with open_matrix_table(f"ark:{name}") as table:
        return dict(table)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ([], A),
        (["--scale=2"], 2 * A),
        (["--apply-log=true"], np.log(A)),
        (["--scale=-1", "--apply-exp=true"], np.exp(-A)),
        (["--apply-softmax-per-row=true"], np.exp(A) / np.exp(A).sum(1, keepdims=True)),
        (["--apply-power=2"], A**2),
        (["--apply-power=-1"], 1 / A),
    ],
)
def test_matrices_are_copied_with_changes(tables: Cli, options: list[str], expected: np.ndarray) -> None:
    tables.good("copy-matrix", *options, "ark:m.ark", "ark:out.ark")
    assert np.allclose(_read("out.ark")["a"], expected, rtol=1e-6)
    tables.good("copy-matrix", *options, "a.mat", "out.mat")
    tables.good("copy-matrix", "--binary=false", "out.mat", "out.txt")
    numbers = Path("out.txt").read_text().replace("[", "").replace("]", "").split()
    assert np.allclose(np.array(numbers, float).reshape(2, 3), expected, rtol=1e-5)


def test_vectors_are_copied_and_scaled(tables: Cli) -> None:
    assert tables.good("copy-vector", "ark:v.ark", "ark,t:-").out == "a  [ 1 2 3 ]\n"
    assert tables.good("copy-vector", "--change-dim=2", "--scale=2", "ark:v.ark", "ark,t:-").out == "a  [ 2 4 ]\n"
    assert tables.good("copy-vector", "--change-dim=4", "--binary=false", "a.vec", "-").out == " [ 1 2 3 0 ]\n"
    tables.good("vector-scale", "--scale=-1", "a.vec", "out.vec")
    assert load_vector("out.vec").tolist() == [-1, -2, -3]


def test_sums_of_matrices(tables: Cli) -> None:
    tables.good("matrix-sum", "--scale1=2", "--scale2=0.5", "ark:m.ark", "ark:m.ark", "ark:m.ark", "ark:out.ark")
    assert np.allclose(_read("out.ark")["a"], 3.5 * A)
    tables.good("matrix-sum", "--average=true", "ark:m.ark", "ark:m.ark", "ark:out.ark")
    assert np.allclose(_read("out.ark")["b"], B)
    Path("b.ark").write_text("b [ 1 2 3 ]\n")
    tables.good("matrix-sum", "--average=true", "--scale1=5", "ark:m.ark", "ark:m.ark", "ark:out.ark")
    assert np.allclose(_read("out.ark")["b"], B)  # scales are not for means
    Path("b.ark").write_text("b [ 1 2 3 ]\na [ 1 2 ]\n")
    outcome = tables.good("matrix-sum", "ark:m.ark", "ark:b.ark", "ark:out.ark")
    assert "ark:b.ark: a: left out: expected 2 x 3 numbers, got 1 x 2" in outcome.err
    assert np.array_equal(_read("out.ark")["a"], A)  # what a table lacks is not in the sum
    outcome = tables("matrix-sum", "ark:m.ark", "ark:/dev/null", "ark:out.ark")
    assert "ark:/dev/null has no 'a': the others are summed" in outcome.err
    assert outcome.status == 1  # as with Kaldi: not more sums than matrices that are missing
    assert list(_read("out.ark")) == ["a", "b"]
    tables.good("matrix-sum", "a.mat", "a.mat", "a.mat", "out.mat")
    assert tables.good("copy-matrix", "--binary=false", "out.mat", "-").out.split() == [
        "[",
        "3",
        "6",
        "9",
        "12",
        "15",
        "18",
        "]",
    ]
    ones = "[\n 1 1 1\n 1 1 1 ]\n"
    Path("o.ark").write_text(f"e [ ]\na {ones}b [ 1 2 3 ]\nc {ones}d {ones}")
    outcome = tables.good("matrix-sum", "--binary=false", "ark:o.ark", "out.txt")
    assert "ark:o.ark: e: left out: it is empty" in outcome.err
    assert "ark:o.ark: b: left out: expected 2 x 3 numbers, got 1 x 3" in outcome.err
    assert tables("matrix-sum", "ark:m.ark", "out.mat").status == 1  # as many left out as summed
    assert tables.good("matrix-dim", "out.txt").out == "2\t3\n"
    assert tables.good("matrix-dim", "ark:m.ark").out == "a\t2\t3\nb\t1\t3\n"


def test_columns_and_transforms(tables: Cli) -> None:
    for columns, chosen in (("2,0-1", [2, 0, 1]), ("2-0,1-1", [2, 1, 0, 1])):
        tables.good("select-feats", columns, "ark:m.ark", "ark:out.ark")
        assert np.array_equal(_read("out.ark")["a"], A[:, chosen])
    Path("linear.mat").write_text(" [\n 1 0 -1\n 0 2 0 ]\n")
    tables.good("transform-feats", "linear.mat", "ark:m.ark", "ark:out.ark")
    assert np.array_equal(_read("out.ark")["a"], A @ np.array([[1, 0, -1], [0, 2, 0]]).T)
    Path("affine.ark").write_text("s  [\n 1 1 1 0.5 ]\n")
    Path("utt2spk").write_text("a s\nb s\n")
    tables.good("transform-feats", "--utt2spk=ark:utt2spk", "ark:affine.ark", "ark:m.ark", "ark:out.ark")
    assert np.array_equal(_read("out.ark")["a"], A.sum(1, keepdims=True) + 0.5)
    outcome = tables.good("append-vector-to-feats", "ark:m.ark", "ark:v.ark", "ark:out.ark")
    assert "utterance 'b' left out: ark:v.ark has no vector for it" in outcome.err
    assert np.array_equal(_read("out.ark")["a"], np.hstack([A, [A[0], A[0]]]))
    tables.good("append-vector-to-feats", "a.mat", "a.vec", "out.mat")
    assert tables.good("matrix-dim", "out.mat").out == "2\t6\n"


def test_some_features(tables: Cli) -> None:
    Path("keys").write_text("b rest\n\n")
    Path("none").touch()
    for options, expected in (
        (["--n=1"], ["a"]), ([], ["a", "b"]), (["--include=keys"], ["b"]), (["--exclude=keys"], ["a"]),
        (["--n=-1", "--exclude=none"], ["a", "b"]),
    ):  # fmt: skip
        tables.good("subset-feats", *options, "ark:m.ark", "ark:out.ark")
        assert list(_read("out.ark")) == expected
    assert tables("subset-feats", "--n=0", "ark:m.ark", "ark:out.ark").status == 1
    tables.good("copy-feats", "--compress=true", "ark:m.ark", "ark:small.ark")
    tables.good("copy-feats", "ark:small.ark", "ark:full.ark")
    tables.good("subset-feats", "ark:small.ark", "ark:out.ark")
    assert Path("out.ark").read_bytes() == Path("full.ark").read_bytes()  # written in full, as by Kaldi


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (("copy-matrix", "--apply-log", "--apply-exp", "a", "b"), 2, "give one of --apply-log"),
        (("copy-matrix", "ark:m.ark", "b"), 1, "give two tables or two files"),
        (("select-feats", "x", "ark:m.ark", "ark:o"), 1, "expected columns such as 0-12,15"),
        (("select-feats", "3", "ark:m.ark", "ark:o"), 1, "so there is no column 3"),
        (("transform-feats", "a.mat", "ark:v2.ark", "ark:o"), 1, "v2.ark"),
        (("subset-feats", "--include=a", "--exclude=b", "ark:a", "ark:b"), 2, "not both"),
        (("subset-feats", "--include=a", "--n=0", "ark:a", "ark:b"), 2, "--n is for a table without"),
        (("matrix-sum", "a.mat"), 2, "at least one table"),
        (("matrix-sum", "a.mat", "b.mat", "out.mat"), 1, "the matrices are (2, 3), (1, 2)"),
    ],
)
def test_mistakes(tables: Cli, arguments: tuple[str, ...], status: int, message: str) -> None:
    Path("b.mat").write_text(" [ 1 2 ]\n")
    outcome = tables(*arguments)
    assert (outcome.status, message in outcome.err) == (status, True), outcome.err


def test_products_of_transforms(cli: Cli) -> None:
    rng = np.random.default_rng(0)
    affine, linear = rng.normal(size=(2, 4)).astype(np.float32), rng.normal(size=(3, 3)).astype(np.float32)
    for key, matrix in {"affine": affine, "linear": linear}.items():
        with matrix_writer(f"ark:{key}.ark") as writer:
            for utterance in ("u1", "u2"):
                writer.write(utterance, matrix)
        file = Writer.of_file(binary=True)
        file.matrix(matrix)
        file.write_to(f"{key}.mat")
    wide = np.eye(4, dtype=np.float32)
    wide[:3, :3] = linear
    cli.good("compose-transforms", "affine.mat", "linear.mat", "out.mat")
    np.testing.assert_allclose(load_matrix("out.mat"), affine @ wide, rtol=1e-5)
    offset = np.vstack([linear, [0, 0, 1]])
    cli.good("compose-transforms", "--b-is-affine=true", "affine.mat", "ark:linear.ark", "ark:out.ark")
    for matrix in _read("out.ark").values():
        np.testing.assert_allclose(matrix, affine @ offset, rtol=1e-5)
    cli.good("compose-transforms", "ark:linear.ark", "linear.mat", "ark:out.ark")
    np.testing.assert_allclose(_read("out.ark")["u2"], linear @ linear, rtol=1e-5)
    Path("speakers").write_text("u1 u2\n")
    outcome = cli.good(
        "compose-transforms", "--utt2spk=ark:speakers", "ark:affine.ark", "ark:linear.ark", "ark:out.ark"
    )
    assert set(_read("out.ark")) == {"u1"}
    assert "'u2' left out: there is no transform for it" in outcome.err
    outcome = cli("compose-transforms", "affine.mat", "affine.mat", "out.mat")
    assert outcome.status == 1
    assert "a matrix of 4 columns does not fit one of 2 rows" in outcome.err
    assert cli("compose-transforms", "linear.mat", "affine.mat", "ark:out.ark").status == 1
    assert cli("compose-transforms", "--utt2spk=ark:speakers", "linear.mat", "ark:linear.ark", "ark:o").status == 1
