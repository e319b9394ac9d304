"""Operations of OpenFst on our FSTs, through the package kaldifst. Only this file knows it."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from nnet3.errors import TrainingError
from nnet3.kaldi_io import Fst, Reader, Writer, read_fst, write_fst

try:
    import kaldifst
except ImportError:  # pragma: no cover
    kaldifst = None

DELTA = 1.0 / 1024  # up to which OpenFst takes costs for equal


def need_openfst(what: str) -> None:
    """Raise TrainingError unless kaldifst is installed."""
    if kaldifst is None:
        raise TrainingError(f"{what} needs the package kaldifst, which is not installed: pip install 'nnet3[chain]'")


@contextmanager
def _file() -> Iterator[tuple[int, str]]:
    """A file for one exchange, in memory where the system has that: its descriptor and its name."""
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


def _theirs(fst: Fst) -> Any:
    need_openfst("this operation on FSTs")
    writer = Writer(binary=True)
    write_fst(writer, fst)
    contents = memoryview(writer.getvalue())
    with _file() as (descriptor, name):
        while contents:
            contents = contents[os.write(descriptor, contents) :]
        return kaldifst.StdVectorFst.read(name)


def _ours(theirs: Any) -> Fst:
    with _file() as (descriptor, name):
        if not theirs.write(name):
            raise TrainingError("OpenFst could not write its result: is the memory or the disk full?")
        with open(os.dup(descriptor), "rb") as file:
            file.seek(0)
            fst = read_fst(Reader(file.read(), "the result of OpenFst", binary=True))
    return Fst(fst.start, fst.final, fst.offsets, fst.ilabel, fst.olabel, fst.cost, fst.dst)


def _changed(fst: Fst, change: Callable[[Any], object]) -> Fst:
    theirs = _theirs(fst)
    change(theirs)
    return _ours(theirs)


def without_epsilons(fst: Fst) -> Fst:
    """The same without epsilon arcs, trimmed; of equal parallel arcs the cheapest one stays."""
    return _changed(fst, kaldifst.rmepsilon) if fst.has_epsilons else fst


def determinized(fst: Fst, most_states: int) -> Fst | None:
    """Without equal labels on the arcs of a state; None if that would take `most_states` or more.

    Epsilons count as a label. Of paths with equal labels the cheapest one stays; residual costs are rounded to
    multiples of DELTA.
    """
    need_openfst("determinization")
    result = _ours(kaldifst.determinize(_theirs(fst), nstate=most_states))
    return result if result.num_states < most_states - 1 else None


def minimized(fst: Fst) -> Fst:
    """The smallest equal to a deterministic one, with costs pushed towards the start."""
    return _changed(fst, kaldifst.minimize)


def minimized_as_it_is(fst: Fst, quantum: float) -> Fst:
    """Equal states merged, where an arc's cost, made a multiple of `quantum`, is taken for a part of its label."""
    return _changed(fst, lambda theirs: kaldifst.minimize_encoded(theirs, quantum))


def reversed_fst(fst: Fst) -> Fst:
    """All paths backwards, from a new start."""
    return _ours(kaldifst.reverse(_theirs(fst)))


def sorted_by_label(fst: Fst) -> Fst:
    """Each state's arcs by input label, those of equal labels in the order in which they were."""
    order = np.lexsort((fst.ilabel, fst.src))
    olabel = None if fst.olabel is fst.ilabel else fst.olabel[order]
    return Fst.from_arcs(
        fst.start, fst.final, fst.src[order], fst.dst[order], fst.ilabel[order], fst.cost[order], olabel
    )


def composed(first: Fst, second: Fst) -> Fst:
    """What both accept, with the sum of their costs; trimmed. `second` must be sorted by input label."""
    need_openfst("composition")
    return _ours(kaldifst.compose(_theirs(first), _theirs(second), connect=True))
