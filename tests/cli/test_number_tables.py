"""Small programs that copy tables and tell sizes."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest

from nnet3.base.kaldi_io.compressed import CompressedMatrix
from nnet3.kaldi_io import load_matrix, matrix_writer, open_general_matrix_table
from tests.cli.run_command import Cli
from tests.shared_data import GOLDEN, needs_shared


@pytest.fixture
def feats(cli: Cli) -> dict[str, np.ndarray]:
    matrices = {"a": np.arange(12.0, dtype=np.float32).reshape(6, 2), "b": np.ones((3, 2), np.float32)}
    with matrix_writer("ark:feats.ark") as writer:
        for key, matrix in matrices.items():
            writer.write(key, matrix)
    return matrices


def test_sizes(cli: Cli, feats: dict[str, np.ndarray]) -> None:
    assert cli.good("feat-to-dim", "ark:feats.ark").out == "2\n"
    assert cli.good("feat-to-dim", "ark:feats.ark", "ark,t:-").out == "a 2 \nb 2 \n"
    assert cli.good("feat-to-len", "ark:feats.ark", "ark,t:-").out == "a 6 \nb 3 \n"
    assert cli.good("feat-to-len", "ark:feats.ark").out == "9\n"
    assert "there are no features" in cli("feat-to-dim", "ark:/dev/null").err


@pytest.mark.parametrize("method", [None, 1, 2, 3])
def test_features_are_copied(cli: Cli, feats: dict[str, np.ndarray], method: int | None) -> None:
    options = [] if method is None else ["--compress=true", f"--compression-method={method}"]
    outcome = cli.good("copy-feats", *options, "--write-num-frames=ark,t:frames", "ark:feats.ark", "ark:out")
    assert "Copied 2 feature matrices." in outcome.err
    assert Path("frames").read_text() == "a 6 \nb 3 \n"
    with open_general_matrix_table("ark:out") as table:
        for key, matrix in table:
            assert isinstance(matrix, CompressedMatrix) == (method is not None)
            full = matrix.decode() if isinstance(matrix, CompressedMatrix) else np.asarray(matrix)
            np.testing.assert_allclose(full, feats[key], atol=0.1)
    cli.good("copy-feats", "ark:out", "ark:full")
    with open_general_matrix_table("ark:full") as table:
        assert all(isinstance(matrix, np.ndarray) for _, matrix in table)


def test_parts_of_archives_are_copied(cli: Cli, feats: dict[str, np.ndarray]) -> None:
    cli.good("copy-feats", "ark:feats.ark", "ark,scp:all,scp")
    place = Path("scp").read_text().split("\n")[0].split()[1]
    assert place == "all:2"
    for range_, part in {"": (), "[1:3]": slice(1, 4), "[:,1:1]": (slice(None), [1]), "[4:8]": slice(4, 6)}.items():
        cli.good("copy-feats", place + range_, "part")
        np.testing.assert_array_equal(load_matrix("part"), feats["a"][part])
    assert "the range [6:6] does not fit" in cli("copy-feats", place + "[6:6]", "part").err
    assert "'[1]' is not a range" in cli("copy-feats", place + "[1]", "part").err
    assert "ends before byte 999" in cli("copy-feats", "all:999", "part").err
    Path("all:2").write_text(" [ 7 ]\n")
    cli.good("copy-feats", "all:2", "part")
    assert load_matrix("part").tolist() == [[7]], "a file of this name comes first"


def test_files_are_copied(cli: Cli) -> None:
    Path("m").write_text(" [\n 1 2\n 3 4 ]\n")
    cli.good("copy-feats", "m", "copy")
    assert load_matrix("copy").tolist() == [[1, 2], [3, 4]]
    Path("v").write_text("[ 1 2 -3 ]\n")
    cli.good("copy-int-vector", "v", "binary")
    assert Path("binary").read_bytes() == b"\0B\4" + struct.pack("<4i", 3, 1, 2, -3)  # as Kaldi's program writes it
    cli.good("copy-int-vector", "--binary=false", "binary", "text")
    assert Path("text").read_text() == "[ 1 2 -3 ]\n"
    Path("t").write_text("a 1 2\nb 3\n")
    assert cli.good("copy-int-vector", "ark:t", "ark,t:-").out == "a 1 2 \nb 3 \n"
    assert "give two tables or two files" in cli("copy-int-vector", "ark:t", "v").err
    assert "there are no features" in cli("copy-feats", "ark:/dev/null", "ark:none").err


@needs_shared
def test_a_tree_is_described(cli: Cli) -> None:
    lines = cli.good("tree-info", GOLDEN / "chain" / "mono" / "tree").out.splitlines()
    assert [line.split()[0] for line in lines] == ["num-pdfs", "context-width", "central-position"]
    assert lines[1:] == ["context-width 1", "central-position 0"]


@pytest.mark.parametrize("kind", ["htk", "sphinx"])
def test_features_of_other_toolkits(cli: Cli, kind: str) -> None:
    rows = np.arange(26, dtype=np.float32).reshape(2, 13)
    header = struct.pack(">iihH", 2, 100000, 52, 6) if kind == "htk" else struct.pack(">i", 26)
    Path("a.feats").write_bytes(header + rows.astype(">f4").tobytes())
    Path("feats.scp").write_text("a a.feats\nb a.feats\n")
    Path("feats.ark").write_bytes(b"a " + Path("a.feats").read_bytes() + b"b " + Path("a.feats").read_bytes())
    for source in ("scp:feats.scp", "ark:feats.ark"):
        assert "Copied 2 " in cli.good("copy-feats", f"--{kind}-in=true", source, "ark:out.ark").err
        with open_general_matrix_table("ark:out.ark") as table:
            assert [(key, matrix.tolist()) for key, matrix in table] == [("a", rows.tolist()), ("b", rows.tolist())]
    cli.good("copy-feats", f"--{kind}-in", "a.feats", "a.mat")
    assert load_matrix("a.mat").tolist() == rows.tolist()
    assert cli("copy-feats", "--htk-in", "--sphinx-in", "a.feats", "a.mat").status == 2
