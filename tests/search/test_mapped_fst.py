"""Decoding graphs that stay in their files: columns, searches and FSTs are those of graphs in memory."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from nnet3.errors import ModelFormatError
from nnet3.kaldi_io import Fst, Reader, save_fst
from nnet3.options import SearchOptions
from nnet3.speech.search import beam_search, mapped_fst
from nnet3.speech.search.array_steps import ArraySteps
from nnet3.speech.search.beam_search import BeamSearch
from nnet3.speech.search.composition import LookaheadGraph, LookaheadSearch
from nnet3.speech.search.mapped_fst import in_memory, map_graph
from nnet3.speech.search.search_graph import SearchGraph
from tests.asr.slow_search import random_graph
from tests.asr.toy_lookahead import DISAMBIGUATION, bigram, lookahead_graph, random_scores
from tests.kaldi_io.graph_bytes import const_bytes, header, lookahead_bytes
from tests.kaldi_io.random_fsts import random_fst, same
from tests.native.native_code import needs_native_code
from tests.seeds import RANDOM

pytestmark = needs_native_code

LABELS = 4
COLUMNS = np.arange(-1, LABELS)


def _vector_bytes(folder: Path, fst: Fst) -> bytes:
    save_fst(fst, str(folder / "vector.fst"))
    return (folder / "vector.fst").read_bytes()


def _both(folder: Path, fst: Fst) -> list[bytes]:
    return [_vector_bytes(folder, fst), const_bytes(fst)]


@pytest.mark.parametrize("block", [1, 3, 1 << 17])
def test_an_fst_in_its_file_is_the_one_in_memory(tmp_path: Path, block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mapped_fst, "_BLOCK", block)
    for example in range(20):
        fst = random_fst(RANDOM, 1 + example)
        for contents in _both(tmp_path, fst):
            found = map_graph(Reader(contents, binary=True))
            if fst.num_states == 0:
                assert found is None
                continue
            assert found is not None
            assert same(in_memory(found.fst), fst)
            assert found.fst.largest_input == int(fst.ilabel.max(initial=0))


def test_a_mapped_file_at_an_odd_address(tmp_path: Path) -> None:
    """The header of neither type ends at a multiple of four bytes."""
    fst = random_graph(RANDOM, 50)
    for number, contents in enumerate(_both(tmp_path, fst)):
        path = tmp_path / f"{number}.fst"
        path.write_bytes(contents)
        with pytest.raises(ModelFormatError, match=rf"{number}\.fst: the decoding graph has input label"):
            SearchGraph.read(Reader.open(path), COLUMNS[:1])
        graph = SearchGraph.read(Reader.open(path), COLUMNS)
        assert not graph.ilabel.flags.aligned
        assert not graph.ilabel.flags.owndata
        assert same(graph.fst, fst)


def _changed(path: Path, contents: bytes) -> None:
    """Writes into a file, at a later time by its clock."""
    before = path.stat()
    with open(path, "r+b") as file:
        file.truncate(len(contents))
        file.write(contents)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns + 1000))


def test_a_file_that_was_written_to_is_refused(tmp_path: Path) -> None:
    fst = random_graph(RANDOM, 50)
    for number, contents in enumerate(_both(tmp_path, fst)):
        for changed in (contents[:-1] + b"x", contents[:-4], contents + b"more"):
            path = tmp_path / f"{number}.fst"
            path.write_bytes(contents)
            graph = SearchGraph.read(Reader.open(path), COLUMNS)
            assert graph.begin() is graph
            path.rename(tmp_path / "old")
            path.write_bytes(b"another file of this name")
            assert graph.begin() is graph
            _changed(tmp_path / "old", changed)
            with pytest.raises(ModelFormatError, match=rf"{number}\.fst: this file was written to while it was in use"):
                graph.begin()


@pytest.mark.parametrize("in_c", [True, False])
def test_searches_find_the_same(tmp_path: Path, in_c: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not in_c:
        monkeypatch.setattr(beam_search, "token_steps", ArraySteps)
    for states in (1, 7, 60):
        fst = random_graph(RANDOM, states, labels=LABELS)
        graphs = [SearchGraph(fst, COLUMNS)]
        graphs += [SearchGraph.read(Reader(each, binary=True), COLUMNS) for each in _both(tmp_path, fst)]
        scores = (2 * RANDOM.normal(size=(20, LABELS))).astype(np.float32)
        options = SearchOptions(beam=9, max_active=30, min_active=2)
        searches = [BeamSearch(graph, options) for graph in graphs]
        for search in searches:
            search.advance(scores)
        lattices = [search.lattice() for search in searches]
        assert lattices[0] is not None
        for other in lattices[1:]:
            assert other is not None
            for name in ("src", "dst", "word", "transition_id", "graph_cost", "acoustic_cost", "graph_state"):
                assert np.array_equal(getattr(other, name), getattr(lattices[0], name)), name


def test_damage_is_told_as_for_graphs_in_memory(tmp_path: Path) -> None:
    """Cut anywhere, with any byte changed, or with something behind the end."""
    fst = random_graph(RANDOM, 5)
    for contents in _both(tmp_path, fst):
        damaged = [contents[:end] for end in range(0, len(contents), 7)] + [contents + b"x"]
        for _ in range(300):
            changed = bytearray(contents)
            changed[RANDOM.integers(60, len(contents))] = RANDOM.integers(256)
            damaged.append(bytes(changed))
        for each in damaged:
            found = []
            for is_mapped in (True, False):
                with pytest.MonkeyPatch.context() as patch:
                    if not is_mapped:
                        patch.setattr(mapped_fst, "little_endian_library", lambda: None)
                    try:
                        graph = SearchGraph.read(Reader(each, binary=True), np.arange(1 << 20))
                        found.append((graph.fst.cost.tobytes(), graph.fst.dst.tolist(), graph.final.tobytes()))
                    except ModelFormatError as error:
                        found.append(str(error))
            assert found[0] == found[1]


def test_arcs_that_nobody_can_follow(tmp_path: Path) -> None:
    for column, wrong in (("dst", 5), ("dst", -1), ("ilabel", -1), ("olabel", -3), ("cost", np.inf), ("cost", np.nan)):
        fst = random_graph(RANDOM, 5)
        getattr(fst, column)[fst.num_arcs - 2] = wrong  # behind the checks of Fst
        for contents in _both(tmp_path, fst):
            assert map_graph(Reader(contents, binary=True)) is None
            with pytest.raises(ModelFormatError):
                SearchGraph.read(Reader(contents, binary=True), COLUMNS)


def test_a_table_of_arcs_beyond_the_end() -> None:
    """Padding of an aligned file counts, too."""
    fst = random_graph(RANDOM, 5)
    whole = const_bytes(fst)
    head = header("const", 2, 0, fst.num_states, fst.num_arcs)
    assert whole.startswith(head)
    first = header("const", 1, 0, fst.num_states, fst.num_arcs)
    aligned = first + bytes(-len(first) % 16) + whole[len(head) :]  # without padding before the arcs
    assert map_graph(Reader(aligned, binary=True)) is None


def test_a_look_ahead_graph_in_its_file_is_searched_as_the_one_in_memory(tmp_path: Path) -> None:
    for _ in range(5):
        whole, model = lookahead_graph(), bigram()
        fst, reach = in_memory(whole.fst), whole.reach
        pairs = list(zip(reach.begin.tolist(), reach.end.tolist(), strict=True))
        intervals = [pairs[low:high] for low, high in zip(reach.offsets, reach.offsets[1:], strict=False)]
        contents = lookahead_bytes(fst, intervals, reach.final_label)
        (tmp_path / "HCLr.fst").write_bytes(contents)
        parts = map_graph(Reader.open(tmp_path / "HCLr.fst"))
        assert parts is not None
        assert parts.reach is not None
        mapped = LookaheadGraph(parts.fst, parts.reach, whole.disambiguation)
        graphs = [LookaheadSearch(each, model, np.arange(-1, LABELS)) for each in (whole, mapped)]
        searches = [BeamSearch(graph.begin(), SearchOptions(beam=20, max_active=500)) for graph in graphs]
        scores = random_scores(10)
        for search in searches:
            search.advance(scores)
        lattices = [search.lattice() for search in searches]
        assert lattices[0] is not None
        assert lattices[1] is not None
        for name in ("src", "dst", "word", "transition_id", "graph_cost", "acoustic_cost", "graph_state"):
            assert np.array_equal(getattr(lattices[0], name), getattr(lattices[1], name)), name
        assert same(graphs[1].fst, graphs[0].fst)
        assert (graphs[1].fst.ilabel != DISAMBIGUATION).all()
        _changed(tmp_path / "HCLr.fst", contents)
        with pytest.raises(ModelFormatError, match=r"HCLr\.fst: this file was written to"):
            graphs[1].begin()
