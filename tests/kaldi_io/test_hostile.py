"""Damaged and malicious input: only ModelFormatError comes out, and no memory is taken on a mere claim."""

from __future__ import annotations

import struct
import time
import tracemalloc
from collections.abc import Callable

import numpy as np
import pytest

from nnet3.errors import ModelFormatError
from nnet3.kaldi_io import Posterior, Reader, SparseMatrix, Writer, compress, read_alignment, read_posterior
from nnet3.kaldi_io.table_values import write_alignment, write_posterior
from seeds import RANDOM

MATRIX = RANDOM.normal(size=(3, 4)).astype(np.float32)
SPARSE = SparseMatrix(2, 5, np.array([0, 2, 3]), np.array([0, 3, 1], np.int32), np.array([0.5, 1, 2], np.float32))
POSTERIOR = Posterior(SPARSE.indptr, SPARSE.ids, SPARSE.values)
INDEXES = np.array([[0, 0, 0], [0, 1, 0], [0, 3, 0], [1, 0, 0], [1, 1, 0], [2, 500, 1]])

OBJECTS: list[tuple[Callable[[Writer], None], Callable[[Reader], object]]] = [
    (lambda writer: writer.token("<Token>"), Reader.token),
    (lambda writer: writer.int32(-5), Reader.int32),
    (lambda writer: writer.real(0.1), Reader.real),
    (lambda writer: writer.boolean(True), Reader.boolean),
    (lambda writer: writer.text_line("input-node name=x"), Reader.line),
    (lambda writer: writer.vector(MATRIX[0]), Reader.vector),
    (lambda writer: writer.matrix(MATRIX), Reader.matrix),
    (lambda writer: writer.matrix(MATRIX, double=True), Reader.matrix),
    (lambda writer: writer.int_vector([1, -2, 3]), Reader.int_vector),
    (lambda writer: writer.pair_vector([[1, -2], [3, 4]]), Reader.pair_vector),
    (lambda writer: writer.index_vector(INDEXES), Reader.index_vector),
    (lambda writer: writer.general_matrix(SPARSE), Reader.general_matrix),
    (lambda writer: writer.general_matrix(compress(MATRIX, 2)), Reader.general_matrix),
    (lambda writer: writer.general_matrix(compress(MATRIX, 3)), Reader.general_matrix),
    (lambda writer: writer.general_matrix(compress(MATRIX, 5)), Reader.general_matrix),
    (lambda writer: write_alignment(writer, [1, -2, 3]), read_alignment),
    (lambda writer: write_posterior(writer, POSTERIOR), read_posterior),
]
INTERESTING = [0, 1, 4, 8, 10, 32, 46, 59, 91, 93, 101, 124, 125, 126, 127, 128, 255]


@pytest.mark.parametrize("binary", [False, True])
@pytest.mark.parametrize("case", range(len(OBJECTS)))
def test_mutations(case: int, binary: bool) -> None:
    write, read = OBJECTS[case]
    writer = Writer(binary)
    write(writer)
    whole = writer.getvalue()
    random = np.random.default_rng(case)
    read(Reader(whole, binary=binary))
    refused = 0
    for _ in range(400):
        mutated = bytearray(whole)
        for at in random.integers(0, len(whole), random.integers(1, 4)):
            mutated[at] = random.choice(INTERESTING)
        cut = mutated[: random.integers(0, len(whole) + 1)] if random.random() < 0.2 else mutated
        try:
            read(Reader(cut, binary=binary))
        except ModelFormatError:
            refused += 1
    assert refused > 0


INT = "04 ffffff7f "
CLAIMS: list[tuple[str, Callable[[Reader], object]]] = [
    ("4656 20" + INT, Reader.vector),
    ("4456 20" + INT, Reader.vector),
    ("464d 20" + INT + INT, Reader.matrix),
    ("464d 20" + INT + "04 00000000", Reader.matrix),
    ("464d 20 04 00000000" + INT, Reader.matrix),
    ("434d 20 00000000 00000000 ffffff7f ffffff7f", Reader.matrix),
    ("434d32 20 00000000 00000000 ffffff7f 01000000", Reader.matrix),
    ("434d33 20 00000000 00000000 ffffff7f 00000000", Reader.matrix),
    (INT, Reader.int_vector),
    (INT, Reader.pair_vector),
    ("3c49315620 3e".replace("20 3e", "3e 20") + INT, Reader.index_vector),
    ("534d 20" + INT, Reader.general_matrix),
    ("534d 20 04 01000000 5356 20" + INT + INT, Reader.general_matrix),
    (INT, read_alignment),
    (INT, read_posterior),
    ("04 01000000" + INT, read_posterior),
]


@pytest.mark.parametrize(("contents", "read"), CLAIMS)
def test_claimed_sizes_take_no_memory(contents: str, read: Callable[[Reader], object]) -> None:
    reader = Reader(bytes.fromhex(contents) + bytes(60), binary=True)
    tracemalloc.start()
    try:
        with pytest.raises(ModelFormatError):
            read(reader)
        assert tracemalloc.get_traced_memory()[1] < 200_000
    finally:
        tracemalloc.stop()


LARGE_TEXTS: list[tuple[bytes, Callable[[Reader], object]]] = [
    (b" [\n" + b"1\n" * 2_000_000 + b"]\n", Reader.matrix),
    (b" [ " + b"1 " * 2_000_000 + b"]\n", Reader.vector),
    (b" [ " + b"\n" * 4_000_000 + b"]\n", Reader.matrix),
    (b" [ " + b"1;" * 2_000_000 + b"]\n", Reader.matrix),
    (b" [ " + b"1" * 4_000_000 + b" ]\n", Reader.matrix),
    (b" [ " + b"1-" * 2_000_000 + b" ]\n", Reader.matrix),
    (b" [ " + b"1 " * 2_000_000, Reader.matrix),
    (b"[ " + b"1 " * 2_000_000 + b"]\n", Reader.int_vector),
    (b"[ " + b"1,2 " * 1_000_000 + b"]\n", Reader.pair_vector),
    (b"[ " + b"," * 4_000_000 + b"]\n", Reader.pair_vector),
    (b" " * 4_000_000, Reader.token),
    (b"x" * 4_000_000, Reader.token),
    (b"9" * 4_000_000, Reader.int32),
    (b"9" * 4_000_000, Reader.real),
    (b"x" * 4_000_000, Reader.line),
    (b"rows=40000 " + b"dim=1 [ ] " * 40_000, Reader.general_matrix),
    (b"<I1V> 300000 " + b"<I1> 0 0 0 " * 300_000, Reader.index_vector),
]


@pytest.mark.parametrize("case", range(len(LARGE_TEXTS)))
def test_large_texts_take_time_and_memory_in_proportion(case: int) -> None:
    contents, read = LARGE_TEXTS[case]
    reader = Reader(contents, binary=False)
    start = time.process_time()
    tracemalloc.start()
    try:
        read(reader)
    except ModelFormatError:
        pass
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert peak < 2 * len(contents) + 32_000_000  # beside the file itself
    assert time.process_time() - start < 20


def test_peeking_does_not_look_far() -> None:
    reader = Reader(b"<Token> " + b"x" * 50_000_000, binary=False)
    start = time.process_time()
    for _ in range(1000):
        assert reader.peek_token() == "<Token>"
    assert time.process_time() - start < 1


def test_many_alternating_codes() -> None:
    """The index vector coding that array code can do least about."""
    pair = struct.pack("<bbibibib", 127, 4, 0, 4, 0, 4, 0, 1)
    reader = Reader(b"<I1V> " + struct.pack("<bi", 4, 40_000) + pair * 20_000, binary=True)
    start = time.process_time()
    assert reader.index_vector()[:, 1].tolist() == [0, 1] * 20_000
    assert time.process_time() - start < 10
