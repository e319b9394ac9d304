"""IoSpecification: a named input or output of a request, with its indexes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from nnet3.base.index import as_index_table, format_indexes
from nnet3.errors import check_kind


@dataclass(frozen=True, eq=False)
class IoSpecification:
    """A named input or output: its indexes (rows, 3) n, t, x in the order of the matrix's rows.

    `has_deriv`: an input's derivative is wanted; an output's derivative will be given.
    """

    name: str
    indexes: np.ndarray
    has_deriv: bool = False

    def __init__(self, name: str, indexes: Any, has_deriv: bool = False):
        check_kind(name, str, "the name of an input or output", "a str")
        check_kind(has_deriv, (bool, np.bool_), f"has_deriv of '{name}'", "True or False")
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "indexes", as_index_table(indexes, f"indexes of '{name}'"))
        object.__setattr__(self, "has_deriv", bool(has_deriv))

    def key(self) -> tuple[str, bytes, bool]:
        """Returns a key: equal for equal specifications."""
        return self.name, self.indexes.tobytes(), self.has_deriv

    def __str__(self) -> str:
        return f"{self.name} {format_indexes(self.indexes)}{' with derivative' if self.has_deriv else ''}"
