"""Minibatches: packs sequences of a data set into minibatches by frames, in another order each time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from nnet3.cn.samples import Sequences, checked_layout, sequences
from nnet3.cn.sparse import SparseColumns, as_array
from nnet3.errors import TrainingError, check_kind


class Minibatches:
    """A data set in minibatches of at most `frames` frames, a longer sequence alone; for `cn.train`, call by call.

    `data` has for each input, by name, a list with an array for each sequence (see `sequences`), or an array with a
    column (of integers: an element) for each sequence as a whole, such as a label. With `layout="rows"` the array has
    rows instead of columns, in minibatches too. The first list tells the numbers of frames. Each call goes through the
    data once, in an order drawn anew from `seed` unless `shuffle` is false. `similar`: minibatches have sequences of
    about equal lengths.
    """

    def __init__(
        self,
        data: Mapping[str, Any],
        frames: int,
        *,
        shuffle: bool = True,
        similar: bool = False,
        seed: int = 0,
        layout: str = "columns",
    ):
        check_kind(data, Mapping, "a data set", "a mapping from names of inputs to lists of sequences")
        check_kind(frames, int, "the frames of a minibatch", "an integer")
        self.frames, self.shuffle, self.similar = frames, shuffle, similar
        self._turned = checked_layout(layout) == "rows"
        self._seed, self._next_epoch = seed, 0
        self._cut = {
            name: value if isinstance(value, Sequences) else sequences(value, layout=layout)
            for name, value in data.items()
            if isinstance(value, Sequences) or (isinstance(value, Sequence) and len(value) and np.ndim(value[0]) > 0)
        }
        self._whole = {n: self._columns(n, value) for n, value in data.items() if n not in self._cut}
        if not self._cut or frames < 1:
            raise TrainingError("a data set has a list of sequences at least, and a minibatch a frame")
        self.lengths = np.array(next(iter(self._cut.values())).lengths)
        counts = {name: len(value) for name, value in self._cut.items()}
        counts.update({name: value.shape[1] for name, value in self._whole.items()})
        if len(set(counts.values())) > 1:
            shown = ", ".join(f"{count} of '{name}'" for name, count in counts.items())
            raise TrainingError(f"a data set has equally many of everything, got {shown}")

    def __call__(self) -> Iterator[dict[str, Any]]:
        number, self._next_epoch = self._next_epoch, self._next_epoch + 1
        return self.epoch(number)

    def epoch(self, number: int) -> Iterator[dict[str, Any]]:
        """Yields the minibatches of call `number`, from 0; repeated calls give equal minibatches."""
        random = np.random.default_rng([self._seed, number])
        groups = self._groups(random)
        order = random.permutation(len(groups)) if self.shuffle else range(len(groups))
        for place in order:
            yield self.batch(groups[place])

    def batch(self, chosen: Sequence[int]) -> dict[str, Any]:
        """Returns the minibatch of the sequences with these numbers."""
        found: dict[str, Any] = {name: sequences([value[n] for n in chosen]) for name, value in self._cut.items()}
        for name, value in self._whole.items():
            columns = value[:, list(chosen)]
            if self._turned and isinstance(columns, np.ndarray):
                columns = columns[0] if len(columns) == 1 and columns.dtype.kind in "iu" else columns.T
            found[name] = columns
        return found

    def _columns(self, name: str, value: Any) -> np.ndarray | SparseColumns:
        sparse = SparseColumns.of(value, name, self._turned)
        if sparse is not None:
            return sparse
        array = as_array(value, name)
        return np.atleast_2d(array.T if self._turned else array)

    def _groups(self, random: np.random.Generator) -> list[list[int]]:
        """Returns the numbers of the sequences of each minibatch."""
        count = len(self.lengths)
        order = random.permutation(count) if self.shuffle else np.arange(count)
        if self.similar:
            order = order[np.argsort(self.lengths[order], kind="stable")]
        groups: list[list[int]] = [[]]
        filled = 0
        for number in order.tolist():
            length = int(self.lengths[number])
            if groups[-1] and filled + length > self.frames:
                groups.append([])
                filled = 0
            groups[-1].append(number)
            filled += length
        return groups
