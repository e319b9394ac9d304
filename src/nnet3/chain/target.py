"""Targets of chain examples: the supervision of one output node (Kaldi: NnetChainSupervision)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from nnet3.chain.supervision import Supervision, merge_supervisions
from nnet3.errors import ModelFormatError


@dataclass(frozen=True, eq=False)
class ChainTarget:
    """The supervision of an output node, with its rows.

    `indexes` (rows, 3): for each frame t = t0, t0 + step, ... all sequences n = 0 .. S - 1, with x = 0.
    `deriv_weights`: one number >= 0 for each row, by which derivatives may be scaled; or none.
    """

    name: str
    indexes: np.ndarray
    supervision: Supervision
    deriv_weights: np.ndarray = field(default_factory=lambda: np.zeros(0, np.float32))

    def __post_init__(self) -> None:
        supervision = self.supervision
        sequences, frames = supervision.num_sequences, supervision.frames_per_sequence
        if len(self.indexes) != sequences * frames or frames < 2:
            raise ModelFormatError(
                f"output '{self.name}' has {len(self.indexes)} indexes, its supervision {sequences} sequences of "
                f"{frames} frames: there must be at least two frames, and an index for each"
            )
        times = self.indexes[::sequences, 1].astype(np.int64)
        step = times[1] - times[0]
        expected = np.repeat(times[0] + step * np.arange(frames), sequences)
        n, t, x = self.indexes.T
        if (n != np.tile(np.arange(sequences), frames)).any() or (t != expected).any() or x.any() or step <= 0:
            raise ModelFormatError(
                f"the indexes of output '{self.name}' must be, for each of {frames} frames at equal distances, the "
                f"sequences 0 to {sequences - 1}"
            )
        weights = self.deriv_weights
        if len(weights) not in (0, len(self.indexes)):
            raise ModelFormatError(
                f"output '{self.name}' has {len(self.indexes)} indexes and {len(weights)} deriv-weights"
            )
        if not (np.isfinite(weights).all() and (weights >= 0).all()):
            raise ModelFormatError(f"the deriv-weights of output '{self.name}' must be finite and >= 0")

    @property
    def is_finite(self) -> bool:
        """True: a target that is not finite cannot be made."""
        return True


def merge_targets(targets: Sequence[ChainTarget]) -> ChainTarget:
    """Merges targets of one sequence each: sequence n is the n-th of them. ModelFormatError if they do not fit."""
    first, count = targets[0], len(targets)
    if count == 1:
        return first
    supervision = merge_supervisions([target.supervision for target in targets])
    if any((target.indexes[:, 1:] != first.indexes[:, 1:]).any() for target in targets):
        raise ModelFormatError(f"output '{first.name}' has other indexes in some of the examples that are to be merged")
    indexes = np.repeat(first.indexes, count, axis=0)
    indexes[:, 0] = np.tile(np.arange(count), len(first.indexes))
    weights = first.deriv_weights
    if len(weights):
        if any(len(target.deriv_weights) != len(weights) for target in targets):
            raise ModelFormatError(
                f"some of the examples that are to be merged have no deriv-weights of '{first.name}'"
            )
        weights = np.stack([target.deriv_weights for target in targets], axis=1).reshape(-1)
    return ChainTarget(first.name, indexes, supervision, weights)
