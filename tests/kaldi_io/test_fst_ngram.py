"""N-gram models of OpenFst's compact type: the states and arcs that they stand for, and damage."""

from __future__ import annotations

import itertools
import struct
from pathlib import Path

import numpy as np
import pytest

from nnet3.base.kaldi_io.graph_file import load_graph
from nnet3.errors import ModelFormatError
from nnet3.kaldi_io import Fst
from tests.kaldi_io.graph_bytes import Ngrams, header, ngram_bytes
from tests.kaldi_io.random_fsts import same
from tests.seeds import RANDOM

A, B = 1, 2
#: Histories (), <s>, a, b and a b. Word b leads from a to a b, and from a b to b.
EXAMPLE: Ngrams = {
    (): {A: 1.0, B: 1.5},
    (0,): {A: 0.5},
    (A,): {B: 0.25},
    (B,): {A: 0.75},
    (A, B): {B: 0.125},
}
FINALS = {(): 2.0, (A, B): 0.0625}
BACK_OFFS = {(0,): 0.1, (A,): 0.2, (B,): 0.3, (A, B): 0.4}
WHOLE = ngram_bytes(EXAMPLE, FINALS, BACK_OFFS)


def _loaded(folder: Path, contents: bytes) -> Fst:
    (folder / "G.fst").write_bytes(contents)
    return load_graph(folder / "G.fst").fst


def test_the_example(tmp_path: Path) -> None:
    src, label, dst, cost = zip(
        *[(0, A, 2, 1.0), (0, B, 3, 1.5), (1, 0, 0, 0.1), (1, A, 2, 0.5), (2, 0, 0, 0.2), (2, B, 4, 0.25)],
        *[(3, 0, 0, 0.3), (3, A, 2, 0.75), (4, 0, 3, 0.4), (4, B, 3, 0.125)],
        strict=True,
    )
    final = [2, np.inf, np.inf, np.inf, 0.0625]
    assert same(_loaded(tmp_path, WHOLE), Fst.from_arcs(1, final, src, dst, label, cost))


def test_a_model_of_single_words(tmp_path: Path) -> None:
    fst = _loaded(tmp_path, ngram_bytes({(): {3: 0.5}}, {(): 1.0}, {}))
    assert same(fst, Fst.from_arcs(0, [1.0], [0], [0], [3], [0.5]))


def test_random_models_lead_to_the_longest_history(tmp_path: Path) -> None:
    for _ in range(20):
        words = range(1, int(RANDOM.integers(2, 5)))
        order = int(RANDOM.integers(1, 4))
        histories: set[tuple[int, ...]] = {()}
        for length in range(1, order + 1):
            longer = (h for h in itertools.product((0, *words), repeat=length) if h[1:] in histories)
            histories |= {h for h in longer if 0 not in h[1:] and RANDOM.random() < 0.6}
        ngrams = {h: {w: float(RANDOM.random()) for w in words if RANDOM.random() < 0.7} for h in histories}
        finals = {h: float(RANDOM.random()) for h in histories if RANDOM.random() < 0.5}
        fst = _loaded(tmp_path, ngram_bytes(ngrams, finals, dict.fromkeys(histories, 0.5)))
        history_of = [()]
        for history in history_of:
            history_of += sorted(h for h in histories if h and h[1:] == history)
        expected = {
            (history, word, next(h for n in range(9) if (h := (*history, word)[n:]) in histories), np.float32(cost))
            for history, of_word in ngrams.items()
            for word, cost in of_word.items()
        } | {(h, 0, h[1:], np.float32(0.5)) for h in histories if h}
        arcs = zip(fst.src.tolist(), fst.ilabel.tolist(), fst.dst.tolist(), fst.cost, strict=True)
        assert {(history_of[s], w, history_of[d], c) for s, w, d, c in arcs} == expected
        assert {history_of[s] for s in np.flatnonzero(fst.final < np.inf)} == set(finals)


def _with(offset: int, contents: bytes) -> bytes:
    """The example with other bytes behind its header."""
    at = len(header("ngram", 4)) + offset
    return WHOLE[:at] + contents + WHOLE[at + len(contents) :]


@pytest.mark.parametrize(
    ("contents", "message"),
    [
        (WHOLE[:-1], "an n-gram model takes 28 bytes, but only 27 are left"),
        (WHOLE + b"x", "the FST should end here"),
        (_with(0, struct.pack("<Q", 6)), "cannot have 6 states, 6 arcs and 2 ends"),
        (_with(8, struct.pack("<Q", 1 << 62)), "cannot have 5 states"),
        (_with(8, struct.pack("<Q", 1 << 30)), "takes 134217736 bytes, but only"),
        (_with(16, struct.pack("<Q", 3)), "other numbers of states, arcs or ends"),
        (_with(24, b"\x03"), "the bits that say which histories a state of an n-gram model has are damaged"),
        (_with(32, b"\xff"), "the bits that say which arcs a state of an n-gram model has are damaged"),
        (_with(52, struct.pack("<i", 7)), "the histories of an n-gram model are not sorted"),
        (_with(72, struct.pack("<i", 0)), "has words below 1"),
        (_with(72, struct.pack("<i", 2)), "the words behind a history of an n-gram model are not sorted"),
        (_with(136, struct.pack("<f", np.nan)), "a damaged FST: arc 3 has the cost nan"),
        (WHOLE.replace(struct.pack("<qq", 1, 5), struct.pack("<qq", 9, 5)), "the start state is 9, but there are 5"),
    ],
)
def test_damaged_files(tmp_path: Path, contents: bytes, message: str) -> None:
    with pytest.raises(ModelFormatError, match=message):
        _loaded(tmp_path, contents)


def test_any_damage_is_an_error_or_another_model(tmp_path: Path) -> None:
    for _ in range(300):
        changed = bytearray(WHOLE)
        changed[RANDOM.integers(len(WHOLE))] = RANDOM.integers(256)
        try:
            _loaded(tmp_path, bytes(changed))
        except ModelFormatError as error:
            assert "G.fst" in str(error)  # noqa: PT017
