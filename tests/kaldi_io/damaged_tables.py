"""Tables read on behind damage."""

from __future__ import annotations

from typing import Any

import numpy as np

from nnet3.errors import TableError
from nnet3.kaldi_io import TableReader

MATRICES = {key: np.full((2, 2), number, np.float32) for number, key in enumerate(("a", "b", "c"))}


def keys_of(table: TableReader[Any]) -> list[str]:
    """The keys that come, with `!` for an error."""
    keys = []
    while True:
        try:
            entry = next(table, None)
        except TableError:
            keys.append("!")
            continue
        if entry is None:
            return keys
        keys.append(entry[0])
