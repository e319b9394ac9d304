"""Numerator graphs of utterances without alignments, against Kaldi's file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from nnet3.base.kaldi_io.fst import Fst
from nnet3.kaldi_io import open_fst_table
from tests.road_case import run_good
from tests.small_programs import FOLDER, needs_small_programs, run_case

pytestmark = needs_small_programs


@pytest.fixture(autouse=True)
def in_own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_graphs_are_kaldis() -> None:
    case = run_case("num_fst", "num.cmd", "0.trans_mdl", "normalization.fst", "graphs.ark")
    with open_fst_table("ark:num.ark") as ours, open_fst_table(f"ark:{case.golden('num.ark')}") as theirs:
        for (key, mine), (their_key, fst) in zip(ours, theirs, strict=True):
            assert key == their_key
            assert _parts(mine) == _parts(fst)
    case.check_all_compared()


def _parts(fst: Fst) -> list[Any]:
    arrays = (fst.offsets, fst.ilabel, fst.olabel, fst.dst, fst.cost, fst.final)
    return [fst.start, *(array.tolist() for array in arrays)]


def test_what_cannot_be_a_numerator_becomes_empty() -> None:
    graphs = ("a \n0 1 0 5 0.5\n1 1 1 0\n1", "b \n0 1 9999 0\n1", "c \n0 1 0 0 0.5\n1 1 1 0\n1 0.25", "d ")
    Path("graphs").write_text("".join(f"{each}\n\n" for each in graphs))
    files = FOLDER / "num_fst"
    err = run_good(f"chain-make-num-fst-e2e {files}/0.trans_mdl {files}/normalization.fst ark:graphs ark:num").err
    assert "the graph of 'a' becomes empty: it has words on arcs without a transition-id" in err
    assert "the graph of 'b' becomes empty: it has transition-id 9999, but the model has" in err
    with open_fst_table("ark:num") as table:
        assert {key: fst.num_states > 0 for key, fst in table} == {"a": False, "b": False, "c": True, "d": False}
