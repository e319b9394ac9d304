"""Files of sequence training that the fuzzer damages: chain examples, supervisions, denominator graphs."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import torch

from nnet3.base.kaldi_io.fst import Fst
from nnet3.base.kaldi_io.fst_file import read_fst
from nnet3.chain import CHAIN_EXAMPLES, ChainExample, Denominator, DenominatorGraph, Supervision
from nnet3.errors import ModelFormatError, TrainingError
from nnet3.kaldi_io import Reader, TableReader, Writer
from nnet3.training.chain.changes import ChainChanges
from nnet3.training.chain.numerator import make_trellis
from nnet3.training.chain.supervision_file import read_supervision, write_supervision
from nnet3.training.chain.trellis import sum_paths
from tools.fuzz_kinds import FuzzKind, assert_same_values

_ENTRIES = 3  # of each archive
_MOST_ELEMENTS = 1 << 20  # of an output that a supervision is tried on


def _written(write: Callable[[Writer, Any], None], value: Any, binary: bool) -> bytes:
    writer = Writer(binary)
    writer.header()
    write(writer, value)
    return writer.getvalue()


def _entries(pattern: str, read: Callable[[Reader], Any], write: Callable[[Writer, Any], None]) -> Any:
    """The first entries of archives, in binary and in text."""

    def contents(golden: Path) -> Iterator[bytes]:
        for path in sorted(golden.glob(f"chain/*/{pattern}")):
            with TableReader(f"ark:{path}", read) as table:
                for (_, value), _ in zip(table, range(_ENTRIES), strict=False):
                    yield _written(write, value, binary=True)
                    yield _written(write, value, binary=False)

    return contents


def _load(read: Callable[[Reader], Any], contents: bytes) -> Any:
    reader = Reader(contents, "mutant")
    value = read(reader)
    reader.finish()
    return value


def _check_written(read: Callable[[Reader], Any], write: Callable[[Writer, Any], None], value: Any) -> None:
    """What was written reads as the same, in both forms; costs have seven digits in text."""
    binary = _written(write, value, binary=True)
    assert _written(write, _load(read, binary), binary=True) == binary
    text = _written(write, value, binary=False)
    try:
        again = _load(read, text)
    except ModelFormatError as error:
        if "a NaN is not allowed" in str(error):  # a binary file may have one
            return
        raise
    assert_same_values(text, _written(write, again, binary=False))


def _use_supervision(supervision: Supervision) -> None:
    """Its paths can be summed, or it says why not."""
    if supervision.num_frames * supervision.label_dim > _MOST_ELEMENTS:
        return
    try:
        trellis = make_trellis(supervision)
    except TrainingError:
        return
    sum_paths(trellis, torch.zeros(supervision.num_frames, supervision.label_dim))


def _use_supervision_of_file(supervision: Supervision) -> None:
    _check_written(read_supervision, write_supervision, supervision)
    _use_supervision(supervision)


def _use_example(example: ChainExample) -> None:
    _check_written(CHAIN_EXAMPLES.read, CHAIN_EXAMPLES.write, example)
    CHAIN_EXAMPLES.structure(example)
    CHAIN_EXAMPLES.size(example)
    for target in example.outputs:
        _use_supervision(target.supervision)
    for change in (
        lambda: CHAIN_EXAMPLES.merge([example, example], False),
        lambda: ChainChanges(1, left_context=1, right_context=1).apply(example),
    ):
        try:
            change()
        except (ModelFormatError, TrainingError):  # it says what cannot be done
            continue


def _use_graph(fst: Fst) -> None:
    logging.getLogger("nnet3").setLevel(logging.CRITICAL)
    try:
        graph = DenominatorGraph.from_fst(fst, 50)
    except TrainingError:
        return
    Denominator(graph, 0.1).forward_backward(torch.zeros(6, 50), 2)


def _graphs(golden: Path) -> Iterator[bytes]:
    for path in sorted(golden.glob("chain/*/den.fst*")):
        contents = path.read_bytes()
        yield contents if path.suffix == ".fst" else b"\n" + contents + b"\n"


def _load_graph(contents: bytes) -> Fst:
    return _load(read_fst, contents)


CHAIN_KINDS = [
    FuzzKind(
        "chain example",
        _entries("*egs*.ark", CHAIN_EXAMPLES.read, CHAIN_EXAMPLES.write),
        partial(_load, CHAIN_EXAMPLES.read),
        _use_example,
    ),
    FuzzKind(
        "merged chain example",
        _entries("merged.ark", CHAIN_EXAMPLES.read, CHAIN_EXAMPLES.write),
        partial(_load, CHAIN_EXAMPLES.read),
        _use_example,
    ),
    FuzzKind(
        "supervision",
        _entries("sup.ark", read_supervision, write_supervision),
        partial(_load, read_supervision),
        _use_supervision_of_file,
    ),
    FuzzKind("denominator graph", _graphs, _load_graph, _use_graph),
]
