"""Tables of pairs of integers."""

from __future__ import annotations

from pathlib import Path

import pytest

from nnet3.errors import TableError
from nnet3.kaldi_io import open_pair_table, pair_writer
from tests.shared_data import GOLDEN, needs_shared


@needs_shared
def test_golden_table_is_written_as_it_was(tmp_path: Path) -> None:
    source = GOLDEN / "chain/mono/lengths.ark"
    with pair_writer(f"ark:{tmp_path}/again") as table, pair_writer(f"ark,t:{tmp_path}/text") as text:
        for key, pairs in open_pair_table(f"ark:{source}"):
            table.write(key, pairs)
            text.write(key, pairs)
    assert (tmp_path / "again").read_bytes() == source.read_bytes()
    first, again = list(open_pair_table(f"ark:{source}")), list(open_pair_table(f"ark:{tmp_path}/text"))
    assert [(key, pairs.tolist()) for key, pairs in first] == [(key, pairs.tolist()) for key, pairs in again]


def test_pairs_are_read_from_text(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("a 1 2 ; 3 4\nb\nc 5 6\n")
    read = {key: pairs.tolist() for key, pairs in open_pair_table(f"ark:{tmp_path}/x")}
    assert read == {"a": [[1, 2], [3, 4]], "b": [], "c": [[5, 6]]}


@pytest.mark.parametrize("line", ["1 2 3", "1 2 ;", "1 x", "1 2 ; 3"])
def test_damaged_text_is_refused(line: str, tmp_path: Path) -> None:
    (tmp_path / "x").write_text(f"a {line}\n")
    with pytest.raises(TableError, match=r"expected pairs of integers such as|is not a 32-bit integer"):
        list(open_pair_table(f"ark:{tmp_path}/x"))
