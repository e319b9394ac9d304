"""Lattices: Kaldi's own, the same as text, plain ones, and damage."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest

from nnet3.base.kaldi_io.lattice import Lattice, open_lattice_table, read_lattice
from nnet3.errors import ModelFormatError
from nnet3.kaldi_io import Reader
from tests.shared_data import GOLDEN, needs_shared

TABLE = GOLDEN / "chain/lattice/phone_lat.ark"
TEXT = b"\n0\t1\t7\t1.5,2.25,3_3_4\n0\t2\t8\n1\t3\t9\t0,1,\n2\t3\t9\t-1,0.5,5\n3\t0.5,0.25,6\n\n"


def _header(arc_type: str, states: int) -> bytes:
    names = b"".join(struct.pack("<i", len(name)) + name.encode() for name in ("vector", arc_type))
    return b"\xd6\xfd\xb2\x7e" + names + struct.pack("<iiQqqq", 2, 0, 3, 0, states, 0)


def _end(graph: float, acoustic: float) -> bytes:
    return struct.pack("<2f", graph, acoustic)


NONE = _end(np.inf, np.inf)
PLAIN = _header("lattice4", 3) + b"".join(
    [
        *(NONE, struct.pack("<q", 2), struct.pack("<2i2fi", 3, 7, 1, 2, 1), struct.pack("<2i2fi", 0, 8, 0.5, 0, 2)),
        *(NONE, struct.pack("<q", 1), struct.pack("<2i2fi", 4, 0, 0, 3, 2)),
        *(_end(0.5, 0.25), struct.pack("<q", 0)),
    ]
)
COMPACT = _header("compactlattice44", 2) + b"".join(
    [
        *(NONE, struct.pack("<i", 0), struct.pack("<q", 1)),
        *(struct.pack("<2i2f", 7, 7, 1.5, 2.25), struct.pack("<4i", 3, 3, 3, 4), struct.pack("<i", 1)),
        *(_end(0.5, 0.25), struct.pack("<2i", 1, 6), struct.pack("<q", 0)),
    ]
)


def _strings(lattice: Lattice) -> list[list[int]]:
    strings = lattice.transition_ids
    return [part.tolist() for part in np.split(strings.values, strings.offsets[1:-1])]


def _as_text(lattice: Lattice) -> bytes:
    fst, strings = lattice.fst, _strings(lattice)
    lines = [
        f"{s}\t{d}\t{p}\t{c:.9g},{a:.9g},{'_'.join(map(str, ids))}"
        for s, d, p, c, a, ids in zip(
            fst.src, fst.dst, fst.ilabel, fst.cost, lattice.acoustic_cost, strings, strict=True
        )
    ]
    finals = [
        f"{s}\t{fst.final[s]:.9g},{lattice.final_acoustic_cost[s]:.9g}," for s in np.flatnonzero(fst.final < np.inf)
    ]
    return ("\n" + "\n".join([*lines, *finals]) + "\n\n").encode()


def _arrays(lattice: Lattice) -> list[list]:
    fst = lattice.fst
    arrays = (fst.final, fst.offsets, fst.ilabel, fst.cost, fst.dst, lattice.acoustic_cost, lattice.final_acoustic_cost)
    return [array.tolist() for array in arrays] + [_strings(lattice)]


@needs_shared
def test_golden_lattices_as_text() -> None:
    count = 0
    for _, lattice in open_lattice_table(f"ark:{TABLE}"):
        again = read_lattice(Reader(_as_text(lattice), binary=False))
        assert _arrays(again) == _arrays(lattice)
        assert lattice.fst.start == again.fst.start
        assert lattice.transition_ids.lengths.min() > 0
        count += 1
    assert count > 10


def test_a_lattice_is_read_from_text() -> None:
    lattice = read_lattice(Reader(TEXT, binary=False))
    assert lattice.fst.ilabel.tolist() == [7, 8, 9, 9]
    assert lattice.fst.cost.tolist() == [1.5, 0, 0, -1]
    assert lattice.acoustic_cost.tolist() == [2.25, 0, 1, 0.5]
    assert _strings(lattice) == [[3, 3, 4], [], [], [5]]
    assert lattice.fst.final.tolist() == [np.inf, np.inf, np.inf, 0.5]
    assert lattice.final_transition_ids.values.tolist() == [6]
    assert lattice.final_transition_ids.lengths.tolist() == [0, 0, 0, 1]


def test_plain_text_and_binary() -> None:
    text = b"\n0 1 3 7 1,2\n0 2 0 8 0.5,0\n1 2 4 0 0,3\n2 0.5,0.25\n\n"
    lattices = [read_lattice(Reader(text, binary=False)), read_lattice(Reader(PLAIN, binary=True))]
    for lattice in lattices:
        assert lattice.fst.ilabel.tolist() == [7, 8, 0]
        assert lattice.fst.dst.tolist() == [1, 2, 2]
        assert lattice.acoustic_cost.tolist() == [2, 0, 3]
        assert lattice.final_acoustic_cost[2] == 0.25
        assert _strings(lattice) == [[3], [], [4]]


def test_a_compact_lattice_is_read_from_bytes() -> None:
    lattice = read_lattice(Reader(COMPACT, binary=True))
    assert _arrays(lattice) == _arrays(read_lattice(Reader(b"\n0 1 7 1.5,2.25,3_3_4\n1 0.5,0.25,6\n\n", binary=False)))
    assert lattice.final_transition_ids.values.tolist() == [6]


def test_sizes_of_what_is_walked_over() -> None:
    """Final strings too; numbers in them whose bytes are not all zero would show a step of another size."""
    final = struct.pack("<2i", 1, 0x07060504)
    lattice = COMPACT.replace(struct.pack("<2i", 1, 6), final)
    reader = Reader(lattice + b"x", binary=True)
    assert read_lattice(reader).final_transition_ids.values.tolist() == [0x07060504]
    assert reader.raw_byte_peek() == ord("x")
    first = COMPACT.index(NONE) + len(NONE) + 4
    count = (len(COMPACT) - COMPACT.index(NONE)) // 24 + 1
    with pytest.raises(ModelFormatError, match=f"{count} arcs of a lattice takes {24 * count} bytes, but only"):
        read_lattice(Reader(COMPACT[:first] + struct.pack("<q", count) + COMPACT[first + 8 :], binary=True))


def test_an_empty_lattice_has_no_states() -> None:
    lattice = read_lattice(Reader(b"\n\n", binary=False))
    assert lattice.fst.num_states == 0
    assert [len(lattice.acoustic_cost), len(lattice.final_acoustic_cost)] == [0, 0]
    for strings in (lattice.transition_ids, lattice.final_transition_ids):
        assert (strings.offsets.tolist(), strings.values.tolist()) == ([0], [])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("\n0 1 7 x\n\n", "must be a whole number, got .x."),
        ("\n0 1 7 1,2,3_x\n\n", "transition-ids of a lattice must be integers"),
        ("\n0 1 7 1,2,3,4\n\n", "such as 3.5,20.25,7_7_8, got '1,2,3,4'"),
        (f"\n0 1 7 1,2,3,{'4' * 50}\n\n", f"got '1,2,3,{'4' * 34}'"),
        ("\n0 1 7 1,nan,3\n\n", "an acoustic cost of a lattice is not a finite number"),
        ("\n0 1 7 1,2,0\n\n", "a transition-id of a lattice is below 1"),
        ("\n0 1 7 1,2,3\n1 0,0\n1 0,0\n\n", "is said twice"),
    ],
)
def test_damaged_text_is_refused(text: str, message: str) -> None:
    with pytest.raises(ModelFormatError, match=message):
        read_lattice(Reader(text.encode(), binary=False))


@pytest.mark.parametrize("whole", [PLAIN, COMPACT], ids=["plain", "compact"])
def test_mutations_are_read_or_refused(whole: bytes) -> None:
    random = np.random.default_rng(3)
    refused = 0
    for _ in range(2000):
        mutated = bytearray(whole)
        for at in random.integers(0, len(whole), random.integers(1, 4)):
            mutated[at] = random.choice([0, 1, 2, 10, 32, 127, 128, 255])
        cut = mutated[: random.integers(0, len(whole) + 1)] if random.random() < 0.2 else mutated
        try:
            read_lattice(Reader(cut, binary=True))
        except ModelFormatError:
            refused += 1
    assert 500 < refused < 2000


def test_sizes_are_checked_before_memory_is_taken(tmp_path: Path) -> None:
    with pytest.raises(ModelFormatError, match="1073741824 states of a lattice takes"):
        read_lattice(Reader(_header("compactlattice44", 1 << 30) + bytes(100), binary=True))
