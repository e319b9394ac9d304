"""Layouts: the samples of a minibatch on each of its axes."""

from __future__ import annotations

from collections.abc import Mapping

from nnet3.cn.samples import SampleLayout
from nnet3.cn.shape import SEQUENCES
from nnet3.errors import NetworkError, ShapeError


class Layouts:
    """The samples on each axis, by its name ("" for the frames of inputs without an axis of their own)."""

    def __init__(self, by_axis: Mapping[str, SampleLayout]):
        counts = {axis: len(layout.lengths) for axis, layout in by_axis.items()}
        if len(set(counts.values())) > 1:
            shown = ", ".join(f"{count} on axis '{axis or 'S'}'" for axis, count in counts.items())
            raise ShapeError(f"inputs of one minibatch have equally many sequences, got {shown}")
        self._given, self._by_axis = by_axis, dict(by_axis)
        if counts and SEQUENCES not in self._by_axis:
            number = next(iter(counts.values()))
            self._by_axis[SEQUENCES] = SampleLayout((1,) * number, are_sequences=False)

    def with_axes(self, by_axis: Mapping[str, SampleLayout]) -> Layouts:
        """Those of these axes: the same object if they are the same."""
        return self if by_axis == self._given else Layouts(by_axis)

    def on(self, axis: str) -> SampleLayout | None:
        """The samples on an axis, None if there are none."""
        return self._by_axis.get(axis)

    def of(self, axis: str) -> SampleLayout:
        """The samples on an axis. Raises NetworkError if no input has any there."""
        if axis not in self._by_axis:
            raise NetworkError(f"no input that was given says which frames there are on axis '{axis or 'S'}'")
        return self._by_axis[axis]

    @property
    def num_sequences(self) -> int:
        """The number of sequences; 1 where nothing has samples."""
        return len(self._by_axis[SEQUENCES].lengths) if self._by_axis else 1

    def num_samples(self, axis: str) -> int:
        """The number of samples on an axis; 1 if there are none."""
        layout = self.on(axis)
        return 1 if layout is None else layout.num_samples
