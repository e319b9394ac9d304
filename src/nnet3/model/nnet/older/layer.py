"""OlderLayer: a component of nnet1 or nnet2 as its file has it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from nnet3.errors import NetworkError


@dataclass(frozen=True)
class OlderLayer:
    """The type, named as in nnet2, and the values by token."""

    type: str
    values: dict[str, Any]

    def __getitem__(self, token: str) -> Any:
        """Returns the value of a token. Raises NetworkError without one."""
        if token not in self.values:
            raise NetworkError(f"a {self.type} without {token}")
        return self.values[token]

    def tensor(self, token: str) -> Tensor:
        return torch.from_numpy(self[token].copy())

    @property
    def input_dim(self) -> int:
        """The number of columns that the layer takes."""
        values = self.values
        for token in ("<InputDim>", "<Dim>"):
            if token in values:
                return int(values[token])
        for token in ("<Scales>", "<Bias>", "<Reorder>"):
            if token in values:
                return len(values[token])
        if "<Sizes>" in values:
            return int(values["<Sizes>"].sum())
        if "<FilterParams>" in values:
            return int(values["<FilterParams>"].shape[1]) // max(1, self["<PatchDim>"]) * int(self["<PatchStride>"])
        matrix = self["<CuMatrix>" if "<CuMatrix>" in values else "<LinearParams>"]
        return int(matrix.shape[1]) * int(values.get("<NumBlocks>", 1))
