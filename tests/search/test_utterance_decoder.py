"""Utterances decoded as Kaldi's programs do: what each option makes of the lattice, ends, and want of memory."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from nnet3.base.kaldi_io.lattice import Lattice, read_lattice
from nnet3.base.kaldi_io.lattice_file import write_lattice
from nnet3.errors import ExecutionError
from nnet3.kaldi_io import Fst, Reader, Writer
from nnet3.options import LatticeOptions, SearchOptions
from nnet3.speech.search.search_graph import SearchGraph
from nnet3.speech.search.utterance_decoder import DecodedUtterance, UtteranceDecoder
from tests.asr.slow_search import best_of_words, best_paths, paths_of, random_graph
from tests.asr.toy_phones import PHONES, chain_model
from tests.seeds import RANDOM

BEAM = 4.0
COLUMNS = np.append(-1, chain_model().pdf(np.arange(1, 2 * PHONES + 1)))


def _graph() -> Fst:
    return random_graph(RANDOM, labels=2 * PHONES)


def _scores(rows: int = 5) -> np.ndarray:
    return RANDOM.normal(size=(rows, int(COLUMNS.max()) + 1)).astype(np.float32)


def _decode(
    fst: Fst, scores: np.ndarray, scale: float = 1.0, allow_partial: bool = False, max_mem: int = 0, **lattices: bool
) -> DecodedUtterance:
    search = SearchOptions(beam=1000, lattice_beam=BEAM, max_mem=max_mem)
    decoder = UtteranceDecoder(chain_model(), search, LatticeOptions(**lattices), scale, allow_partial)
    return decoder.decode(SearchGraph(fst, COLUMNS), scores)


def test_acoustic_costs_are_not_scaled_in_the_lattice() -> None:
    fst, scores = _graph(), _scores()
    plain, scaled = (_decode(fst, scores, scale, allow_partial=True) for scale in (1.0, 0.25))
    assert isinstance(plain.lattice, Lattice)
    assert isinstance(scaled.lattice, Lattice)
    assert scaled.cost == plain.cost
    expected, found = best_paths(plain.lattice, 1.0, BEAM), best_paths(scaled.lattice, 0.25, BEAM)
    for words, (total, graph, acoustic) in expected.items():
        assert found[words] == pytest.approx((total, graph, 4 * acoustic), abs=1e-4)
    nothing = _decode(fst, 0 * scores, scale=0, allow_partial=True)
    assert isinstance(nothing.lattice, Lattice)
    assert (nothing.lattice.acoustic_cost == 0).all()


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"minimize": True},
        {"phone_determinize": False},
        {"word_determinize": False},
        {"word_determinize": False, "phone_determinize": False},
        {"determinize_lattice": False},
    ],
    ids=str,
)
@pytest.mark.parametrize("binary", [True, False])
def test_every_kind_of_lattice_has_the_same_best_path_of_each_sequence_of_words(
    options: dict[str, bool], binary: bool
) -> None:
    for _ in range(3):
        fst, scores = _graph(), _scores(3)
        columns = scores[:, COLUMNS[1:]]  # as many as labels
        expected = best_of_words(fst, columns)
        found = _decode(
            fst, scores, scale=0.5, allow_partial=True, **options
        )  # some graphs end after other numbers of rows
        lattice = found.lattice
        if lattice.is_plain:
            assert not options["determinize_lattice"]
            writer = Writer(binary)
            write_lattice(writer, lattice)
            lattice = read_lattice(Reader(writer.getvalue(), binary=binary))
        best = min(expected.values())
        assert found.cost == pytest.approx(best[0], abs=1e-5)
        assert tuple(found.transition_ids.tolist()) == best[1]
        assert expected[tuple(found.words.tolist())] == best
        costs = {words: cost[0] for words, cost in best_paths(lattice, 0.5, BEAM).items()}
        inside = {words for words, (cost, _) in expected.items() if cost <= best[0] + BEAM - 0.01}
        assert inside <= set(costs)
        assert all(costs[words] == pytest.approx(expected[words][0], abs=1e-3) for words in inside)
        paths = [ids for each in paths_of(lattice, 0.5).values() for _, ids in each]
        assert all(len(ids) == len(scores) for ids in paths)
        if options.get("word_determinize", True) and options.get("determinize_lattice", True):
            assert all(len(each) == 1 for each in paths_of(lattice, 0.5).values())


def test_each_sequence_of_phones_once() -> None:
    """In a graph whose words follow from the phones, and whose first arcs have ids, whose phones do not count."""
    model, several = chain_model(), 0
    for _ in range(5):
        fst = _graph()
        ilabel = np.where((fst.src == fst.start) & (fst.ilabel == 0), 2, fst.ilabel)
        olabel = np.where((fst.src != fst.start) & (ilabel % 4 == 0), ilabel // 4, 0)
        fst = replace(fst, ilabel=ilabel.astype(np.int32), olabel=olabel.astype(np.int32))
        found = _decode(fst, _scores(4), word_determinize=False)
        assert isinstance(found.lattice, Lattice)
        for paths in paths_of(found.lattice).values():
            phones = []
            for _, ids in paths:
                of_path = np.array(ids[1:])
                begins = (model.hmm_state(of_path) == 0) & ~model.is_self_loop(of_path)
                phones.append(tuple(model.phone(of_path[begins]).tolist()))
            assert len(set(phones)) == len(paths)
            several += len(paths) > 1
    assert several


def test_what_does_not_come_to_an_end() -> None:
    fst = Fst.from_arcs(0, [np.inf, np.inf, 1.0], [0, 1], [1, 2], [2, 2], [0.5, 0.0], [7, 8])
    with pytest.raises(ExecutionError, match=r"no path reached a final state of the graph: give a larger --beam, or"):
        _decode(fst, _scores(1))
    partial = _decode(fst, _scores(1), allow_partial=True)
    assert not partial.has_ended
    assert partial.words.tolist() == [7]
    assert isinstance(partial.lattice, Lattice)
    assert list(paths_of(partial.lattice)) == [(7,)]
    assert _decode(fst, _scores(2)).has_ended
    with pytest.raises(ExecutionError, match="no path through the graph fits it"):
        _decode(fst, _scores(3), allow_partial=True)


def test_a_lattice_that_needs_too_much_memory_is_narrower() -> None:
    fst, scores = _graph(), _scores(7)
    found = _decode(fst, scores, max_mem=250)
    [notice] = found.notices
    assert notice.startswith("the lattice needs too much memory: its beam is ")
    assert notice.endswith(" instead of 4 (max-mem)")
    whole = _decode(fst, scores)
    assert whole.notices == []
    assert isinstance(found.lattice, Lattice)
    assert isinstance(whole.lattice, Lattice)
    assert found.lattice.fst.num_arcs < whole.lattice.fst.num_arcs
    assert min(best_paths(found.lattice, 1.0, 1.0).values())[0] == pytest.approx(found.cost, abs=1e-4)
