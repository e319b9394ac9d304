"""Plain lattices as compact ones and back: Kaldi's numbers of states and order of arcs, and the same paths."""

from __future__ import annotations

import numpy as np

from nnet3.base.kaldi_io.lattice import Lattice, read_lattice
from nnet3.base.kaldi_io.lattice_factoring import factored
from nnet3.base.kaldi_io.lattice_file import write_lattice
from nnet3.kaldi_io import Reader, Writer
from tests.asr.slow_search import paths_of

# Kaldi's `lattice-copy` made FACTORED of PLAIN, and its `--write-compact=false` EXPANDED of COMPACT.
PLAIN = """
0	1	3	7	1.5,2
0	4	2	0	0.25,1
1	2	4	0	0.5,0.25
2	5	0	0	0.125,0
2	3	6	0	1,1
3	5	5	8	2,4
4	5	9	6	3,0.5
5	6	9	0	0.5,0.5
6	1,2

"""
FACTORED = """
0	2	7	2,2.25,3_4
0	1	0	0.25,1,2
1	4	6	3,0.5,9
2	4	0	0.125,0,
2	3	0	1,1,6
3	4	8	2,4,5
4	5	0	0.5,0.5,9
5	1,2,

"""
COMPACT = """
0	1	7	1.5,2,3_4
0	2	0	0.5,1,
1	2	8	2,4,5_6_7
1	0.75,0.5,9_9
2	0.25,1,8

"""
EXPANDED = """
0	3	3	7	1.5,2
0	2	0	0	0.5,1
1	4	9	0	0.75,0.5
1	6	5	8	2,4
2	8	8	0	0.25,1
3	1	4	0
4	5	9	0
5
6	7	6	0
7	2	7	0
8

"""


def read(text: str) -> Lattice:
    return read_lattice(Reader(text.encode(), binary=False))


def written(lattice: Lattice, binary: bool = False) -> bytes:
    writer = Writer(binary)
    write_lattice(writer, lattice)
    return writer.getvalue()


def test_chains_become_arcs_as_in_kaldi() -> None:
    assert written(factored(read(PLAIN))).decode() == FACTORED


def test_strings_become_arcs_as_in_kaldi() -> None:
    assert written(read(COMPACT).plain()).decode() == EXPANDED


def test_plain_lattices_stay_as_they_are() -> None:
    """Costs of ends too, in both kinds of files."""
    plain = read(PLAIN)
    assert plain.plain() is plain
    assert written(plain).decode() == PLAIN
    again = read_lattice(Reader(written(plain, binary=True), binary=True))
    assert again.is_plain
    assert written(again).decode() == PLAIN


def test_there_and_back_no_path_changes() -> None:
    compact = read(COMPACT)
    assert paths_of(factored(compact.plain()), 0.5) == paths_of(compact, 0.5)
    assert not factored(compact.plain()).is_plain


def test_states_on_no_path_are_kept() -> None:
    """Two that lead to each other and nowhere else, and one that nothing leads to."""
    lattice = factored(read("\n0 1 3 7 1,2\n1 4 5 0 1,2\n2 3 3 0 1,2\n3 2 4 0 1,2\n4\n5 4 6 0 1,1\n\n"))
    assert paths_of(lattice, 1.0) == {(7,): [(6.0, (3, 5))]}


def test_what_is_empty_stays_empty() -> None:
    empty = read("\n\n")
    assert factored(empty).fst.num_states == 0
    assert empty.plain().fst.num_states == 0


def test_long_chains_add_costs_from_left_to_right() -> None:
    """As float32 does it, one after the other."""
    costs = np.random.default_rng(0).normal(size=50).astype(np.float32)
    lines = [f"{k} {k + 1} {k + 1} {9 * (k == 0)} {cost:.9g},0\n" for k, cost in enumerate(costs)]
    lattice = factored(read("\n" + "".join(lines) + f"{len(costs)}\n\n"))
    total = np.float32(0)
    for cost in costs:
        total += cost
    assert lattice.fst.cost.tolist() == [total]
    assert lattice.transition_ids.values.tolist() == list(range(1, 51))
