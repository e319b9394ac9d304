"""Graphs of types `const` and `olabel_lookahead`: OpenFst reads and writes the same, and damage is told."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest

from nnet3.base.kaldi_io import fst_const
from nnet3.base.kaldi_io.fst_const import LabelReach
from nnet3.base.kaldi_io.graph_file import GraphFile, load_graph
from nnet3.errors import ModelFormatError
from nnet3.kaldi_io import Fst
from tests.kaldi_io.graph_bytes import const_bytes, header, lookahead_bytes
from tests.kaldi_io.random_fsts import random_fst, same
from tests.seeds import RANDOM

SMALL = Fst.from_arcs(0, [np.inf, 0.5], [0, 0], [1, 1], [1, 2], [0.25, 1], [3, 0])


@pytest.fixture(autouse=True, params=["in C", "with NumPy"])
def _by(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "with NumPy":
        monkeypatch.setattr(fst_const, "little_endian_library", lambda: None)


def _loaded(folder: Path, contents: bytes) -> GraphFile:
    (folder / "graph.fst").write_bytes(contents)
    return load_graph(folder / "graph.fst")


def test_openfst_reads_what_is_written_and_writes_what_is_read(tmp_path: Path) -> None:
    kaldifst = pytest.importorskip("kaldifst")
    for _ in range(30):
        fst = random_fst(RANDOM, 20)
        assert same(_loaded(tmp_path, const_bytes(fst)).fst, fst)
        theirs = kaldifst.StdConstFst.read(str(tmp_path / "graph.fst"))
        assert theirs.write(str(tmp_path / "theirs.fst"))
        assert same(load_graph(tmp_path / "theirs.fst").fst, fst)
        assert kaldifst.StdVectorFst(theirs).write(str(tmp_path / "vector.fst"))
        assert same(load_graph(tmp_path / "vector.fst").fst, fst)


def test_the_aligned_form_is_read(tmp_path: Path) -> None:
    whole = const_bytes(SMALL)
    head, states, arcs = whole[:-72], whole[-72:-32], whole[-32:]
    assert head == header("const", 2, 0, 2, 2)
    first = header("const", 1, 0, 2, 2)
    padded = first + bytes(-len(first) % 16) + states
    aligned = padded + bytes(-len(padded) % 16) + arcs
    assert same(_loaded(tmp_path, aligned).fst, SMALL)


def test_tables_are_read_in_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was read is given back to the system; it makes no difference where blocks end."""
    fst = random_fst(RANDOM, 50)
    for block in (1, 7, fst.num_arcs, 1 << 20):
        monkeypatch.setattr(fst_const, "_BLOCK", block)
        assert same(_loaded(tmp_path, const_bytes(fst)).fst, fst)


@pytest.mark.parametrize("keep", [False, True])
def test_intervals_of_any_number_of_states(tmp_path: Path, keep: bool) -> None:
    """Also beyond the stride in which records are found."""
    for states in (1, 2, 63, 64, 65, 700):
        fst = Fst.from_arcs(0, np.zeros(states), [], [], [], [], [])
        counts = RANDOM.integers(0, 4, states)
        intervals = [
            [(int(b), int(b + n)) for b, n in zip(RANDOM.integers(0, 2000, c), RANDOM.integers(0, 50, c), strict=True)]
            for c in counts
        ]
        reach = _loaded(tmp_path, lookahead_bytes(fst, intervals, 2100, keep)).reach
        assert isinstance(reach, LabelReach)
        assert reach.final_label == 2100
        assert np.array_equal(reach.offsets, np.append(0, np.cumsum(counts)))
        flat = [interval for each in intervals for interval in each]
        assert list(zip(reach.begin.tolist(), reach.end.tolist(), strict=True)) == flat


WHOLE = lookahead_bytes(SMALL, [[(3, 4)], [(5, 6)]], 5)


@pytest.mark.parametrize(
    ("contents", "message"),
    [
        (const_bytes(SMALL)[:-1], "the tables of an FST takes 72 bytes, but only 71 are left"),
        (const_bytes(SMALL) + b"x", "the FST should end here, but 1 bytes follow"),
        (header("const", 2, 0, 2**30, 2), "the tables of an FST takes"),
        (header("const", 2, 0, 2, -1) + bytes(80), "an FST cannot have -1 arcs"),
        (header("const", 2, 0, 2, 3) + const_bytes(SMALL)[-72:] + bytes(16), "do not share its 3 arcs in order"),
        (header("const", 3, 0, 2, 2), "expected version 2 of an FST of type const, got 3"),
        (header("const8", 2), "or olabel_lookahead, got 'const8'"),
        (const_bytes(SMALL)[:-4] + struct.pack("<i", 9), "arc 1 leads to state 9, but there are 2 states"),
        (WHOLE.replace(struct.pack("<i", 446681434), bytes(4)), "expected the look-ahead data of an FST"),
        (WHOLE[:-1], "the labels that 2 states reach are not there"),
        (WHOLE[:-4], "the labels that 2 states reach are not there"),
        (WHOLE[:-4] + struct.pack("<i", 2), "are not intervals of labels"),
        (WHOLE[:-20] + struct.pack("<q", -1) + WHOLE[-12:], "are not there"),
        (WHOLE[:-20] + struct.pack("<q", 1 << 40) + WHOLE[-12:], "are not there"),
        (WHOLE[:-12] + struct.pack("<iii", 6, 5, -1), "are not intervals of labels"),
        (lookahead_bytes(SMALL, [[]], 5), "is about 1 states, but there are 2"),
        (
            WHOLE.replace(struct.pack("<bbbbb", 1, 0, 1, 0, 0), struct.pack("<bbbbb", 1, 1, 1, 0, 0)),
            "output labels alone",
        ),
    ],
)
def test_damaged_files(tmp_path: Path, contents: bytes, message: str) -> None:
    with pytest.raises(ModelFormatError, match=message):
        _loaded(tmp_path, contents)


def test_any_damage_is_an_error_or_another_graph(tmp_path: Path) -> None:
    """The same one in C and with NumPy."""
    for _ in range(300):
        changed = bytearray(WHOLE)
        changed[RANDOM.integers(len(WHOLE))] = RANDOM.integers(256)
        contents = bytes(changed[: RANDOM.integers(len(WHOLE) // 2, 2 * len(WHOLE))])
        found = _read_or_refused(tmp_path, contents)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(fst_const, "little_endian_library", lambda: None)
            assert _read_or_refused(tmp_path, contents) == found


def _read_or_refused(folder: Path, contents: bytes) -> str | list[list[float]]:
    """Returns the numbers of a graph and of its reach, or what is said of damage."""
    try:
        graph = _loaded(folder, contents)
    except ModelFormatError as error:
        assert "graph.fst" in str(error)  # noqa: PT017
        return str(error)
    columns: list[np.ndarray] = [graph.fst.final, graph.fst.offsets]
    columns += [] if graph.reach is None else [graph.reach.offsets, graph.reach.begin, graph.reach.end]
    return [column.tolist() for column in columns]
