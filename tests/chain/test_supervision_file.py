"""Supervisions in files: the bytes, old forms, damage."""

from __future__ import annotations

import struct

import numpy as np
import pytest

from nnet3.chain import ChainTarget, Supervision
from nnet3.errors import ModelFormatError
from nnet3.kaldi_io import Reader, Writer
from nnet3.training.chain.supervision_file import TARGETS, read_supervision, write_supervision
from tests.chain.chain_data import fst_of, indexes, random_cyclic_acceptor

FST = fst_of([(0, 1, 1, 0.5), (1, 2, 3, 0.0)], [np.inf, np.inf, 0.0])
TARGET = ChainTarget("output", indexes(1, 2), Supervision(1.0, 1, 2, 3, (FST,)), np.array([1, 0.5], np.float32))
TEXT = (
    b"<NnetChainSup> output <I1V> 2 <I1> 0 0 0 <I1> 0 3 0 <Supervision> <Weight> 1 <NumSequences> 1 <FramesPerSeq> 2 "
    b"<LabelDim> 3 <End2End> F \n0\t1\t1\t1\t0.5\n1\t2\t3\t3\n2\n\n</Supervision> <DW2>  [ 1 0.5 ]\n</NnetChainSup> "
)


def _binary(target: ChainTarget) -> bytes:
    writer = Writer(binary=True)
    TARGETS.write(writer, target)
    return writer.getvalue()


def test_a_worked_example_has_its_bytes() -> None:
    head = (
        b"<NnetChainSup> output <I1V> \4\2\0\0\0\0\3<Supervision> <Weight> \4\0\0\x80?<NumSequences> \4\1\0\0\0"
        b"<FramesPerSeq> \4\2\0\0\0<LabelDim> \4\3\0\0\0<End2End> F\xd6\xfd\xb2\x7e\x10\0\0\0compact_acceptor\x08\0\0\0"
        b"standard\2\0\0\0\0\0\0\0\1\0\x95\x5a\x69\x95\0\0"
    )
    data = _binary(TARGET)
    assert len(data) == 311
    assert data.startswith(head)
    assert data.endswith(b"</Supervision> <DW2> FV \4\2\0\0\0\0\0\x80?\0\0\0?</NnetChainSup> ")
    assert _binary(TARGETS.read(Reader(data, binary=True))) == data


def test_a_worked_example_has_its_text() -> None:
    writer = Writer(binary=False)
    TARGETS.write(writer, TARGET)
    assert writer.getvalue() == TEXT
    assert _binary(TARGETS.read(Reader(TEXT, binary=False))) == _binary(TARGET)


def test_end_to_end_with_pdfs() -> None:
    fsts = tuple(random_cyclic_acceptor(seed, 4) for seed in range(2))
    supervision = Supervision(0.5, 2, 3, 4, fsts, True, np.array([3, 1, 2], np.int32))
    for binary in (True, False):
        writer = Writer(binary)
        write_supervision(writer, supervision)
        data = writer.getvalue()
        again = read_supervision(Reader(data, binary=binary))
        assert again.end_to_end
        assert again.alignment_pdfs.tolist() == [3, 1, 2]
        writer = Writer(binary)
        write_supervision(writer, again)
        assert writer.getvalue() == data


@pytest.mark.parametrize("binary", [True, False])
@pytest.mark.parametrize("weights", ["none", "bytes", "floats"])
@pytest.mark.parametrize("end_to_end", [True, False])
def test_old_forms_are_read(binary: bool, weights: str, end_to_end: bool) -> None:
    """Without <End2End>; weights of a byte each (in text: floats), or none at all."""
    data = _binary(TARGET) if binary else TEXT
    if not end_to_end:
        data = data.replace(b"<End2End> F" if binary else b"<End2End> F ", b"")
    start = data.index(b"<DW2>")
    expected = [1.0, 0.5]
    if weights == "none":
        data, expected = data[:start] + b"</NnetChainSup> ", []
    elif weights == "bytes" and binary:
        data = data[:start] + b"<DW> \1\2\0\0\0" + bytes([255, 51]) + b"</NnetChainSup> "
        expected = [1.0, float(np.float32(51) * np.float32(1 / 255))]
    elif weights == "bytes":
        data = data.replace(b"<DW2>", b"<DW>")
    target = TARGETS.read(Reader(data, binary=binary))
    assert target.deriv_weights.tolist() == expected
    assert target.deriv_weights.dtype == np.float32
    assert not target.supervision.end_to_end


def _damaged(old: bytes, new: bytes) -> bytes:
    data = _binary(TARGET)
    assert data.count(old) == 1
    return data.replace(old, new)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (_damaged(b"<LabelDim> \4\3", b"<LabelDim> \4\2"), "label 3 of a supervision is above its 2"),
        (_damaged(b"<NumSequences> \4\1", b"<NumSequences> \4\2"), "2 indexes, its supervision 2 sequences"),
        (_damaged(b"<End2End> F", b"<End2End> T"), "expected <Fsts>"),
        (_damaged(b"<Weight> \4\0\0\x80?", b"<Weight> \4\0\0\xc0\x7f"), "weight of a supervision is nan"),
        (_damaged(b"\0\0\x80?\0\0\0?", b"\0\0\x80\xbf\0\0\0?"), "finite and >= 0"),
        (_damaged(b"\0\0\0?\1\0\0\0\3", b"\0\0\xc0\x7f\1\0\0\0\3"), "cost nan"),
        (_damaged(b"\4\2\0\0\0\0\3", b"\4\2\0\0\0\0\0"), "must be"),
        (_binary(TARGET)[:200], "byte"),
    ],
)
def test_damaged_supervisions_are_refused(data: bytes, message: str) -> None:
    with pytest.raises(ModelFormatError, match=message):
        TARGETS.read(Reader(data, "egs.ark", binary=True))


def test_more_sequences_than_bytes() -> None:
    writer = Writer(binary=True)
    write_supervision(writer, Supervision(1.0, 1, 2, 3, (FST,), True))
    data = writer.getvalue().replace(b"<NumSequences> \4\1\0\0\0", b"<NumSequences> \4" + struct.pack("<i", 2**30))
    with pytest.raises(ModelFormatError, match="does not fit into"):
        read_supervision(Reader(data, binary=True))
