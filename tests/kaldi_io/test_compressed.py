"""Compressed matrices against hand-made bytes and against kaldi_native_io, which has Kaldi's own code."""

from __future__ import annotations

import struct
from pathlib import Path

import kaldi_native_io
import numpy as np
import pytest
from hypothesis import given, strategies as st
from hypothesis.extra import numpy as hnp

from nnet3.errors import ModelFormatError, NumericalError
from nnet3.kaldi_io import CompressedMatrix, CompressionMethod, Reader, Writer, compress

METHODS = list(CompressionMethod)


def written(matrix: np.ndarray, method: int) -> bytes:
    writer = Writer(True)
    writer.general_matrix(compress(matrix, method))
    return writer.getvalue()


def by_kaldi(matrix: np.ndarray, method: int, folder: Path) -> tuple[bytes, np.ndarray]:
    """Kaldi's bytes behind the header 00 42, and the values that it reads from them."""
    archive = folder / "x.ark"
    with kaldi_native_io.CompressedMatrixWriter(f"ark:{archive}") as writer:
        writer.write("k", matrix, kaldi_native_io.CompressionMethod(int(method)))
    with kaldi_native_io.SequentialFloatMatrixReader(f"ark:{archive}") as reader:
        values = [np.array(matrix) for _, matrix in reader]
    return archive.read_bytes()[len("k \0B") :], values[0]


def matrices() -> list[np.ndarray]:
    random = np.random.default_rng(0)
    shapes = [(1, 1), (1, 7), (2, 3), (3, 3), (4, 2), (5, 2), (7, 4), (8, 3), (9, 3), (20, 40), (300, 5), (1000, 13)]
    normal = [random.normal(size=shape).astype(np.float32) * 10 for shape in shapes]
    skewed = [np.exp(3 * matrix / 10).astype(np.float32) for matrix in normal]
    whole = [np.round(20 * matrix).astype(np.float32) for matrix in normal]
    constant = [np.full((10, 3), value, np.float32) for value in (0, -5.5, 1e6)]
    narrow = [np.float32(1000) + np.float32(1e-4) * normal[9]]
    return normal + skewed + whole + constant + narrow


@pytest.mark.parametrize("method", METHODS)
def test_same_bytes_as_kaldi(method: CompressionMethod, tmp_path: Path) -> None:
    for matrix in matrices():
        expected_bytes, expected = by_kaldi(matrix, method, tmp_path)
        contents = written(matrix, method)
        ours = Reader(contents, binary=True).matrix()
        assert contents[:20] == expected_bytes[:20]
        step = compress(matrix, method).range / (255 if contents[:3] == b"CM3" else 65535)
        if contents[:3] != b"CM ":
            assert contents == expected_bytes
        # Kaldi built with and without fused multiply-add differs in the last bit, so a code may differ too
        np.testing.assert_allclose(ours, expected, rtol=1e-5, atol=0.002 * np.ptp(matrix) + step)
        differs = np.frombuffer(contents, np.uint8) != np.frombuffer(expected_bytes, np.uint8)
        assert differs.sum() <= 1 + 0.01 * len(contents)


@pytest.mark.parametrize("method", METHODS)
def test_decodes_kaldis_bytes(method: CompressionMethod, tmp_path: Path) -> None:
    for matrix in matrices():
        contents, expected = by_kaldi(matrix, method, tmp_path)
        reader = Reader(contents, binary=True)
        decoded = reader.matrix()
        assert reader.at_end()
        scale = np.abs(expected).max() + compress(matrix, method).range
        np.testing.assert_allclose(decoded, expected, rtol=0, atol=3e-7 * scale)


def test_matrices_are_decoded_as_by_hand() -> None:
    header = struct.pack("<ffii", 0, 10, 1, 2)
    two_byte = Reader(b"CM2 " + header + struct.pack("<HH", 32768, 65535), binary=True).matrix()
    np.testing.assert_allclose(two_byte, [[5.00008, 10]], rtol=1e-6)
    one_byte = Reader(b"CM3 " + header + bytes([51, 255]), binary=True).matrix()
    np.testing.assert_allclose(one_byte, [[2, 10]], rtol=1e-6)
    points = struct.pack("<4H", 0, 16384, 32768, 65535)
    header = struct.pack("<ffii", 0, 65535, 5, 1)
    column = Reader(b"CM " + header + points + bytes([0, 64, 128, 192, 255]), binary=True).matrix(np.float64)
    np.testing.assert_allclose(column, np.array([[0], [16384], [24576], [32768], [65535]]), rtol=1e-5)


def test_products_are_rounded_to_float32() -> None:
    """Where Kaldi rounds on the way: every product and sum, but for the last ones of a byte of a column's range."""
    low, extent = 0.1, 12.34567
    codes = np.arange(65536, dtype=np.uint16).reshape(256, 256)
    step = np.float32(np.float32(extent) * (1.0 / 65535))
    expected_all = codes.astype(np.float32) * step + np.float32(low)
    decoded = CompressedMatrix(codes, float(np.float32(low)), float(np.float32(extent))).decode()
    assert np.array_equal(decoded, expected_all)

    quantiles = np.array([[7, 20011, 44003, 65531]], np.uint16)
    points = quantiles[0].astype(np.float32) * (np.float32(extent) * np.float32(1.52590218966964e-05)) + np.float32(low)
    column = CompressedMatrix(
        np.arange(256, dtype=np.uint8)[:, np.newaxis], float(np.float32(low)), float(np.float32(extent)), quantiles
    )
    expected = []
    for code in range(256):
        third, first, width = (0, 0, 64) if code <= 64 else (1, 64, 128) if code <= 192 else (2, 192, 63)
        product = np.float32(np.float32(points[third + 1] - points[third]) * np.float32(code - first))
        expected.append(np.float32(float(product) * (1 / width) + float(points[third])))
    assert np.array_equal(column.decode()[:, 0], np.array(expected))


def test_points_that_float32_cannot_tell_apart() -> None:
    """The range is one of a few steps of float32: quantiles differ, but not the values that they stand for."""
    steps = np.array([[0, 0], [1, 1], [1, 2], [2, 0], [1, 1], [0, 2], [2, 1], [1, 0], [1, 1], [2, 2]], np.float32)
    matrix = np.float32(1000) + np.spacing(np.float32(1000)) * steps
    compressed = compress(matrix, CompressionMethod.SPEECH_FEATURE)
    assert np.ptp(matrix) == 2 * np.spacing(np.float32(1000))
    assert np.abs(compressed.decode() - matrix).max() <= np.spacing(np.float32(1000))


def test_quantiles_at_the_top_of_the_range(tmp_path: Path) -> None:
    """There is room for four different ones above the first."""
    matrix = np.full((12, 2), 5.0, np.float32)
    matrix[3, 0] = -1.0
    compressed = compress(matrix, CompressionMethod.SPEECH_FEATURE)
    assert compressed.quantiles is not None
    assert compressed.quantiles.tolist() == [[0, 65533, 65534, 65535], [65532, 65533, 65534, 65535]]
    assert written(matrix, 2)[:-24] == by_kaldi(matrix, 2, tmp_path)[0][:-24]


@given(
    hnp.arrays(
        np.float32,
        hnp.array_shapes(min_dims=2, max_dims=2, max_side=12),
        elements=st.floats(-1e3, 1e3, width=32, allow_subnormal=False),
    ),
    st.sampled_from(METHODS[:3] + METHODS[4:5]),
)
def test_decoded_is_near(matrix: np.ndarray, method: CompressionMethod) -> None:
    compressed = compress(matrix, method)
    decoded = compressed.decode()
    assert decoded.shape == matrix.shape
    coarsest = 1 / 255 if compressed.tag == "CM3" else 1 / 120 if compressed.tag == "CM" else 1 / 65535
    assert np.abs(decoded - matrix).max() <= coarsest * compressed.range + 1e-6 * np.abs(matrix).max()


@pytest.mark.parametrize(("method", "low", "high"), [(4, -32768, 32767), (6, 0, 255)])
def test_integers_survive_compression(method: int, low: int, high: int) -> None:
    matrix = np.random.default_rng(0).integers(low, high, (30, 5), endpoint=True).astype(np.float32)
    np.testing.assert_allclose(compress(matrix, method).decode(), matrix, rtol=0, atol=0.005)


def test_codes_are_kept_only_where_they_are_asked_for() -> None:
    packed = written(np.arange(12.0).reshape(3, 4), CompressionMethod.TWO_BYTE_AUTO)
    assert isinstance(Reader(packed, binary=True).general_matrix(keep_codes=True), CompressedMatrix)
    decoded = Reader(packed, binary=True).general_matrix()
    assert isinstance(decoded, np.ndarray)
    np.testing.assert_array_equal(decoded, Reader(packed, binary=True).matrix())


def test_codes_survive_a_round_trip() -> None:
    for method in METHODS:
        contents = written(matrices()[9], method)
        compressed = Reader(contents, binary=True).general_matrix(keep_codes=True)
        assert isinstance(compressed, CompressedMatrix)
        writer = Writer(True)
        writer.general_matrix(compressed)
        assert writer.getvalue() == contents


def test_text_has_the_values() -> None:
    compressed = compress([[1, 2], [3, 4]])
    writer = Writer(False)
    writer.general_matrix(compressed)
    assert np.array_equal(Reader(writer.getvalue()).general_matrix(), compressed.decode())


def test_empty_matrices_are_written_as_full_ones() -> None:
    writer = Writer(True)
    writer.general_matrix(compress(np.empty((0, 5))))
    assert writer.getvalue()[:3] == b"FM "
    kaldis = Reader(b"CM " + bytes(20) + b"</X> ", binary=True)
    assert kaldis.matrix().shape == (0, 0)
    kaldis.expect("</X>")


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_only_finite_numbers(value: float) -> None:
    with pytest.raises(NumericalError, match="NaN or infinite"):
        compress([[1, value]], 2)


@pytest.mark.parametrize(
    ("tag", "header", "message"),
    [
        ("CM", (0, 1, 2**31 - 1, 2**31 - 1), "but only"),
        ("CM2", (0, 1, 2**31 - 1, 2), "but only"),
        ("CM3", (0, 1, 2, 2), "takes 4 bytes, but only 0 are left"),
        ("CM", (0, 1, 2, 2), "takes 16 bytes, but only 0 are left"),
        ("CM", (0, 1, -1, 2), "cannot be -1 x 2"),
        ("CM", (0, 1, 2**31 - 1, 0), "cannot be 2147483647 x 0"),
        ("CM3", (float("nan"), 1, 1, 1), "cannot begin at nan"),
        ("CM4", (0, 1, 1, 1), "got 'CM4'"),
    ],
)
def test_damaged_headers_are_refused(tag: str, header: tuple[float, float, int, int], message: str) -> None:
    with pytest.raises(ModelFormatError, match=message):
        Reader(tag.encode() + b" " + struct.pack("<ffii", *header), binary=True).matrix()


def test_truncation_at_every_byte() -> None:
    for method in (2, 3, 5):
        contents = written(matrices()[8], method)
        for length in range(len(contents)):
            with pytest.raises(ModelFormatError):
                Reader(contents[:length], binary=True).matrix()
