"""Lattices written: Kaldi's own text byte for byte, and binary that reads back the same."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from nnet3.base.kaldi_io.lattice import Lattice, Strings, open_lattice_table, read_lattice
from nnet3.base.kaldi_io.lattice_file import lattice_writer, write_lattice
from nnet3.kaldi_io import Fst, Reader, Writer
from tests.seeds import RANDOM
from tests.shared_data import SHARED

TEXTS = sorted((SHARED / "road").glob("decode_*/*.lat.txt"))


def _strings(count: int, some: np.ndarray) -> Strings:
    lengths = RANDOM.integers(0, 4, count) * some
    return Strings(np.append(0, np.cumsum(lengths)), RANDOM.integers(1, 99, lengths.sum()).astype(np.int32))


def random_lattice(states: int) -> Lattice:
    src, dst = RANDOM.integers(0, states, (2, 2 * states))
    final = np.where(RANDOM.random(states) < 0.4, RANDOM.integers(0, 3, states), np.inf)
    fst = Fst.from_arcs(
        int(RANDOM.integers(states)), final, src, dst, RANDOM.integers(0, 9, len(src)), RANDOM.integers(-2, 3, len(src))
    )
    acoustic = RANDOM.integers(-2, 3, len(src)).astype(np.float32)
    is_final = final < np.inf
    ends = np.where(is_final, RANDOM.normal(size=states), np.inf).astype(np.float32)
    return Lattice(fst, acoustic, ends, _strings(len(src), np.array(1)), _strings(states, is_final))


def assert_same(first: Lattice, second: Lattice, rounded: bool = False) -> None:
    for name in ("final", "offsets", "ilabel", "cost", "dst"):
        assert np.allclose(getattr(first.fst, name), getattr(second.fst, name), rtol=1e-5 * rounded, atol=0)
    assert first.fst.start == second.fst.start
    assert np.allclose(first.acoustic_cost, second.acoustic_cost, rtol=1e-5 * rounded, atol=0)
    is_final = first.fst.final < np.inf
    ends = first.final_acoustic_cost[is_final], second.final_acoustic_cost[is_final]
    assert np.allclose(*ends, rtol=1e-5 * rounded, atol=0)
    for name in ("transition_ids", "final_transition_ids"):
        for part in ("offsets", "values"):
            assert np.array_equal(getattr(getattr(first, name), part), getattr(getattr(second, name), part))


@pytest.mark.parametrize("binary", [True, False])
def test_what_is_written_reads_back(binary: bool) -> None:
    for states in (1, 2, 5, 20):
        lattice = random_lattice(states)
        writer = Writer(binary)
        write_lattice(writer, lattice)
        reader = Reader(writer.getvalue(), binary=binary)
        assert_same(read_lattice(reader), lattice, rounded=not binary)
        assert reader.left == 0


@pytest.mark.skipif(not TEXTS, reason=f"no lattices of Kaldi's at {SHARED / 'road'}")
@pytest.mark.parametrize("text", TEXTS, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_kaldis_texts_byte_for_byte(tmp_path: Path, text: Path) -> None:
    with lattice_writer(f"ark,t:{tmp_path}/again.txt") as table, lattice_writer(f"ark:{tmp_path}/binary.lat") as binary:
        for key, lattice in open_lattice_table(f"ark,t:{text}"):
            table.write(key, lattice)
            binary.write(key, lattice)
    assert (tmp_path / "again.txt").read_bytes() == text.read_bytes()
    with lattice_writer(f"ark,t:{tmp_path}/from_binary.txt") as table:
        for key, lattice in open_lattice_table(f"ark:{tmp_path}/binary.lat"):
            table.write(key, lattice)
    assert (tmp_path / "from_binary.txt").read_bytes() == text.read_bytes()
