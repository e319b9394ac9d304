"""Features of words in files."""

from __future__ import annotations

from pathlib import Path

import pytest

from nnet3.errors import ModelFormatError
from nnet3.training.rnnlm.word_features import read_word_features


@pytest.mark.parametrize("line", ["2 0 0.5", "1 0", "1 x 0.5", "1 0 x", "1 3 0.5", "1 1 0.5 0 0.5", "1 0 inf"])
def test_damaged_lines_are_named(line: str, tmp_path: Path) -> None:
    (tmp_path / "word_feats.txt").write_text(f"0 1 0.5\n{line}\n")
    with pytest.raises(ModelFormatError, match=r"line 2: expected 1, then pairs of a feature below 3"):
        read_word_features(tmp_path / "word_feats.txt", 3)
