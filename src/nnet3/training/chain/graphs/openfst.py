"""Runs OpenFst on our FSTs, through the package kaldifst. No other file knows kaldifst."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from nnet3.base.kaldi_io.fst import Fst
from nnet3.base.kaldi_io.fst_file import read_fst, write_fst
from nnet3.base.kaldi_io.fst_reach import arcs_on_cycles
from nnet3.base.kaldi_io.reader import Reader
from nnet3.base.kaldi_io.writer import Writer
from nnet3.errors import TrainingError
from nnet3.training.chain.graphs.fst_changes import sorted_by_label

try:
    import kaldifst
except ImportError:  # pragma: no cover
    kaldifst = None

DELTA = 1.0 / 1024  # up to which OpenFst takes costs for equal


def need_openfst(what: str) -> None:
    """Raises TrainingError unless kaldifst is installed."""
    if kaldifst is None:
        raise TrainingError(f"{what} needs the package kaldifst, which is not installed: pip install 'nnet3[chain]'")


@contextmanager
def _file() -> Iterator[tuple[int, str]]:
    """Gives a file for an exchange, in memory where the system can: its descriptor and its name."""
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("fst")
        try:
            yield descriptor, f"/proc/self/fd/{descriptor}"
        finally:
            os.close(descriptor)
        return
    descriptor, name = tempfile.mkstemp(suffix=".fst")  # pragma: no cover
    try:  # pragma: no cover
        yield descriptor, name
    finally:  # pragma: no cover
        os.close(descriptor)
        os.unlink(name)


class OpenFst:
    """An FST in OpenFst's hands; every operation gives a new FST, for chains of operations."""

    def __init__(self, theirs: Any):
        self._theirs = theirs

    @classmethod
    def of(cls, fst: Fst) -> OpenFst:
        """Hands an FST over. TrainingError without kaldifst, or for cycles of epsilons with negative costs."""
        need_openfst("this operation on FSTs")
        _check_epsilons(fst)
        writer = Writer(binary=True)
        write_fst(writer, Fst(fst.start, fst.final, fst.offsets, fst.ilabel, fst.olabel, fst.cost, fst.dst))
        contents = memoryview(writer.getvalue())
        with _file() as (descriptor, name):
            while contents:
                contents = contents[os.write(descriptor, contents) :]
            return cls(kaldifst.StdVectorFst.read(name))

    def fst(self) -> Fst:
        """Returns the FST as arrays."""
        with _file() as (descriptor, name):
            if not self._theirs.write(name):
                raise TrainingError("OpenFst could not write its result: is the memory or the disk full?")
            with open(os.dup(descriptor), "rb") as file:
                file.seek(0)
                fst = read_fst(Reader(file.read(), "the result of OpenFst", binary=True))
        return Fst(fst.start, fst.final, fst.offsets, fst.ilabel, fst.olabel, fst.cost, fst.dst)

    @property
    def num_states(self) -> int:
        return int(self._theirs.num_states)

    @property
    def has_states(self) -> bool:
        return self.num_states > 0

    def without_epsilons(self) -> OpenFst:
        """Removes epsilon arcs and trims; of equal parallel arcs the cheapest one stays."""
        return self._changed(kaldifst.rmepsilon)

    def determinized(self, most_states: int) -> OpenFst | None:
        """Makes the labels of each state's arcs differ; None for a result of `most_states` or more states.

        Epsilons count as a label. Of paths with equal labels the cheapest stays; residual costs are rounded to
        multiples of DELTA.
        """
        result = kaldifst.determinize(self._theirs, nstate=most_states)
        return OpenFst(result) if result.num_states < most_states - 1 else None

    def determinized_without_epsilons(self, most_states: int) -> OpenFst | None:
        """Does the same and removes epsilons on the way, which may lie on cycles."""
        theirs = self._theirs.copy()
        stopped = kaldifst.determinize_star(theirs, max_states=most_states)
        return None if stopped else OpenFst(theirs)

    def determinized_in_log(self) -> OpenFst:
        """Removes epsilons of the input and makes labels differ; costs of paths with equal labels are summed."""
        theirs = self._theirs.copy()
        kaldifst.determinize_star(theirs, use_log=True)
        return OpenFst(theirs)

    def in_context(self, disambiguation: Sequence[int], width: int, central: int) -> tuple[OpenFst, list[list[int]]]:
        """Replaces phones, the input labels, by windows of phones; returns the windows by label, too.

        A label of disambiguation has a window of one number below 1.
        """
        found, windows = kaldifst.compose_context(list(disambiguation), width, central, self._theirs.copy())
        return OpenFst(found), [list(window) for window in windows]

    def minimized(self) -> OpenFst:
        """Returns the smallest FST equal to a deterministic one, with costs pushed towards the start."""
        return self._changed(kaldifst.minimize)

    def minimized_as_it_is(self, quantum: float) -> OpenFst:
        """Merges equal states, where an arc's cost, made a multiple of `quantum`, counts as a part of its label."""
        return self._changed(lambda theirs: kaldifst.minimize_encoded(theirs, quantum))

    def reversed(self) -> OpenFst:
        """Turns all paths backwards, from a new start."""
        return OpenFst(kaldifst.reverse(self._theirs))

    def composed(self, second: OpenFst) -> OpenFst:
        """Returns the composition, with the sum of both costs, trimmed.

        Arcs of `second` that are not sorted by input label are sorted first. Without, kaldifst loses paths and writes
        behind its tables of arcs, which are as long as the last label of a state.
        """
        if not second._theirs.is_ilabel_sorted:
            second._theirs = OpenFst.of(sorted_by_label(second.fst()))._theirs
        return OpenFst(kaldifst.compose(self._theirs, second._theirs, match_side="right", connect=True))

    def _changed(self, change: Any) -> OpenFst:
        theirs = self._theirs.copy()
        change(theirs)
        return OpenFst(theirs)


def _check_epsilons(fst: Fst) -> None:
    """Raises TrainingError for a cycle of epsilons with a negative cost, which OpenFst would follow without an end."""
    arcs = np.flatnonzero((fst.ilabel == 0) & (fst.olabel == 0))
    if len(arcs) == 0 or fst.cost[arcs].min() >= 0:
        return
    epsilons = Fst.from_arcs(fst.start, fst.final, fst.src[arcs], fst.dst[arcs], fst.ilabel[arcs], fst.cost[arcs])
    if (epsilons.cost[arcs_on_cycles(epsilons)] < 0).any():
        raise TrainingError("a graph has a cycle of epsilons with a negative cost")


def without_epsilons(fst: Fst) -> Fst:
    """Returns an FST without epsilon arcs, trimmed; one that has none needs no OpenFst."""
    return OpenFst.of(fst).without_epsilons().fst() if fst.has_epsilons else fst
