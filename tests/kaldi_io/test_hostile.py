"""Damaged and malicious input: only ModelFormatError comes out, and no memory is taken on a mere claim."""

from __future__ import annotations

import contextlib
import struct
import tracemalloc
from collections.abc import Callable

import numpy as np
import pytest

from nnet3.base.kaldi_io.table_values import write_alignment, write_posterior
from nnet3.errors import ModelFormatError
from nnet3.kaldi_io import Posterior, Reader, SparseMatrix, Writer, compress, read_alignment, read_posterior
from tests.call_count import assert_calls_in_proportion
from tests.seeds import RANDOM

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
    (lambda writer: writer.packed(MATRIX[:2, :3].reshape(-1)), Reader.packed),
    (lambda writer: writer.packed(MATRIX[0, :3], double=True), Reader.packed),
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
def test_mutated_objects_are_read_or_refused(case: int, binary: bool) -> None:
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
    ("4450 20" + INT, Reader.packed),
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


# Of about 4 k bytes each.
LARGE_TEXTS: list[tuple[Callable[[int], bytes], Callable[[Reader], object]]] = [
    (lambda k: b" [\n" + b"1\n" * 2 * k + b"]\n", Reader.matrix),
    (lambda k: b" [ " + b"1 " * 2 * k + b"]\n", Reader.vector),
    (lambda k: b" [ " + b"\n" * 4 * k + b"]\n", Reader.matrix),
    (lambda k: b" [ " + b"1;" * 2 * k + b"]\n", Reader.matrix),
    (lambda k: b" [ " + b"1" * 4 * k + b" ]\n", Reader.matrix),
    (lambda k: b" [ " + b"1-" * 2 * k + b" ]\n", Reader.matrix),
    (lambda k: b" [ " + b"1 " * 2 * k, Reader.matrix),
    (lambda k: b"[ " + b"1 " * 2 * k + b"]\n", Reader.int_vector),
    (lambda k: b"[ " + b"1,2 " * k + b"]\n", Reader.pair_vector),
    (lambda k: b"[ " + b"," * 4 * k + b"]\n", Reader.pair_vector),
    (lambda k: b" " * 4 * k, Reader.token),
    (lambda k: b"x" * 4 * k, Reader.token),
    (lambda k: b"9" * 4 * k, Reader.int32),
    (lambda k: b"9" * 4 * k, Reader.real),
    (lambda k: b"x" * 4 * k, Reader.line),
    (lambda k: b"rows=%d " % (k // 25) + b"dim=1 [ ] " * (k // 25), Reader.general_matrix),
    (lambda k: b"<I1V> %d " % (k // 3) + b"<I1> 0 0 0 " * (k // 3), Reader.index_vector),
]


@pytest.mark.parametrize("case", range(len(LARGE_TEXTS)))
def test_large_texts_take_calls_and_memory_in_proportion(case: int) -> None:
    text_of, read = LARGE_TEXTS[case]

    def work(size: int) -> Callable[[], object]:
        contents = text_of(size)

        def attempt() -> None:
            with contextlib.suppress(ModelFormatError):
                read(Reader(contents, binary=False))

        return attempt

    assert_calls_in_proportion(work, 30_000, 300_000)
    large = work(1_000_000)
    tracemalloc.start()
    try:
        large()
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 40_000_000  # beside the file itself


def test_peeking_copies_nothing() -> None:
    reader = Reader(b"<Token> " + b"x" * 50_000_000, binary=False)
    tracemalloc.start()
    try:
        assert reader.peek_token() == "<Token>"
        assert tracemalloc.get_traced_memory()[1] < 100_000
    finally:
        tracemalloc.stop()


def test_many_alternating_codes() -> None:
    """The index vector coding that array code can do least about."""
    pair = struct.pack("<bbibibib", 127, 4, 0, 4, 0, 4, 0, 1)

    def read(count: int) -> np.ndarray:
        contents = b"<I1V> " + struct.pack("<bi", 4, 2 * count) + pair * count
        return Reader(contents, binary=True).index_vector()

    assert read(2000)[:, 1].tolist() == [0, 1] * 2000
    assert_calls_in_proportion(lambda count: lambda: read(count), 500, 2000)
