"""Vectors and matrices by hand through the Reader; broken ones give a ModelFormatError that says where."""

from __future__ import annotations

import numpy as np
import pytest

from nnet3.errors import ModelFormatError
from nnet3.kaldi_io import Reader, Writer
from tests.kaldi_io.hand_made import binary, text


@pytest.mark.parametrize(
    ("contents", "expected"),
    [
        ("46 56 20 04 02 00 00 00 00 00 80 3f 00 00 00 c0", [1, -2]),
        ("46 56 20 04 00 00 00 00", []),
        ("44 56 20 04 01 00 00 00 00 00 00 00 00 00 f8 3f", [1.5]),
        (" [ 1 -2 ]\n", [1, -2]),
        (" [ ]\n", []),
        ("[]", []),
        (" [ 1e-05 -inf 1.5E+3 ]\r\n", [1e-05, -np.inf, 1500]),
    ],
)
def test_vectors_are_read_in_either_precision(contents: str, expected: list[float]) -> None:
    for dtype in (np.float32, np.float64):
        reader = text(contents) if "[" in contents else binary(contents)
        vector = reader.vector(dtype)
        np.testing.assert_array_equal(vector, np.array(expected, dtype) if "." in contents else expected)
        assert (vector.dtype, vector.shape) == (dtype, (len(expected),))
        assert vector.flags.owndata or vector.base.flags.owndata
        assert vector.flags.writeable
        assert reader.position == len(reader.data)


@pytest.mark.parametrize(
    ("contents", "expected"),
    [
        (
            "46 4d 20 04 02 00 00 00 04 02 00 00 00 00 00 80 3f 00 00 00 40 00 00 40 40 00 00 80 40",
            [[1, 2], [3, 4]],
        ),
        ("46 4d 20 04 00 00 00 00 04 00 00 00 00", np.empty((0, 0))),
        ("44 4d 20 04 01 00 00 00 04 01 00 00 00 00 00 00 00 00 00 f8 3f", [[1.5]]),
        (" [\n  1 2 \n  3 4 ]\n", [[1, 2], [3, 4]]),
        (" [ 1 2 ; 3 4 ]\n", [[1, 2], [3, 4]]),
        (" [\n\n  1 2\n \n\n3 -inf]\n", [[1, 2], [3, -np.inf]]),
        (" [ 1 2\n3 4\n;\n ]", [[1, 2], [3, 4]]),
        (" [ ]\n", np.empty((0, 0))),
        ("[]", np.empty((0, 0))),
    ],
)
def test_matrices_are_read_in_either_precision(contents: str, expected: list[list[float]]) -> None:
    for dtype in (np.float32, np.float64):
        reader = text(contents) if "[" in contents else binary(contents)
        matrix = reader.matrix(dtype)
        np.testing.assert_array_equal(matrix, expected)
        assert (matrix.dtype, matrix.shape) == (dtype, np.shape(expected))
        assert matrix.flags.writeable
        assert reader.position == len(reader.data)


def test_integer_vectors_are_read() -> None:
    assert binary("04 03000000 fdffffff 00000000 03000000").int_vector().tolist() == [-3, 0, 3]
    assert binary("04 00000000").int_vector().tolist() == []
    assert binary("01 02000000 00 ff").int_vector(np.uint8).tolist() == [0, 255]
    assert text("[ -3 0 3 ]\n").int_vector().tolist() == [-3, 0, 3]
    assert text("[ ]\n").int_vector().dtype == np.int32


def test_vectors_of_pairs_are_read() -> None:
    assert binary("04 02000000 00000000 00000000 01000000 ffffffff").pair_vector().tolist() == [[0, 0], [1, -1]]
    assert text("[ 0,0 1,-1 ]\n").pair_vector().tolist() == [[0, 0], [1, -1]]
    assert text("[ ]\n").pair_vector().shape == (0, 2)


BAD_TEXT = [
    ("int32", "5.5 ", "expected a 32-bit integer, got '5.5'"),
    ("int32", "2147483648 ", "expected a 32-bit integer"),
    ("int32", "1_0 ", "expected a 32-bit integer"),
    ("int32", "", "the file ends here"),
    ("real", "1_0 ", "expected a number, got '1_0'"),
    ("real", "0x1 ", "expected a number"),
    ("real", "1e999 ", "expected a number"),
    ("real", "abc ", "expected a number, got 'abc'"),
    ("real", "-1e39 ", "-1e+39 does not fit float32"),
    ("boolean", "Tanh ", "expected T or F, got 'Tanh'"),
    ("token", " \n ", "the file ends here"),
    ("token", "x" * 513 + " ", "more than 512 bytes"),
    ("vector", "5 ", "expected a vector, which begins with [, got '5'"),
    ("vector", " [ 1 2", "never closed"),
    ("vector", " [ 1\n2 ]", "line 1, column 5: the numbers must stand on one line"),
    ("vector", " [ 1 2abc ]", "line 1, column 6: '2abc' is not a number"),
    ("vector", " [ 1-2 3 ]", "'1-2' is not a number"),
    ("vector", " [ 1 2e ]", "'2e' is not a number"),
    ("vector", " [ 1 -NaN 2 ]", "line 1, column 6: a NaN is not allowed in a vector or matrix"),
    ("matrix", " [\n  1 2\n  3 nan ]", "line 3, column 5: a NaN is not allowed"),
    ("matrix", " [\n  1 2\n  3 1e39 ]", "'1e39' does not fit float32"),
    ("matrix", " [\n  1 2\n  3\n  4 5 ]", "line 3, column 4: all rows must be equally long"),
    ("matrix", " [\n  1 2\n  3 ]", "line 3, column 5: all rows must be equally long"),
    ("matrix", " [\n  1 2 3\n  4 5 6 7 ; 8 9 ]", "the first row has 3 numbers, this one 4"),
    ("matrix", " [\n  1 \x00 2\n  3 4 ]", "is not a number"),
    ("int_vector", "[ 1 2.5 ]", "'2.5' is not a 32-bit integer"),
    ("int_vector", "[ 1 99999999999999999999 ]", "'99999999999999999999' is not a 32-bit integer"),
    ("int_vector", "[ 1 2147483648 ]", "is not a 32-bit integer"),
    ("int_vector", "[ 1 2\n3 ]", "must stand on one line"),
    ("int_vector", "[ 1;2 ]", "line 1, column 4: the numbers must stand on one line, without ';'"),
    ("vector", "[ 1 ; 2 ]", "without ';'"),
    ("pair_vector", "[ 1,2 3 ]", "expected pairs"),
    ("pair_vector", "[ 1,2 3,4,5 6 ]", "expected pairs"),
    ("pair_vector", "[ 1, 2 ]", "expected pairs"),
    ("pair_vector", "[ 1,2147483648 ]", "is not a 32-bit integer"),
    ("finish", " x", "should end here"),
]


@pytest.mark.parametrize(("method", "contents", "message"), BAD_TEXT)
def test_damaged_text_is_refused_with_its_line(method: str, contents: str, message: str) -> None:
    with pytest.raises(ModelFormatError) as caught:
        getattr(Reader(contents.encode(), "x.txt", binary=False), method)()
    assert message in str(caught.value)
    assert str(caught.value).startswith("x.txt: line ")


BAD_BINARY = [
    ("int32", "04 050000", "takes 5 bytes, but only 4 are left"),
    ("int32", "fc 05000000", "got byte 252"),
    ("int32", "08 05000000 00000000", "got byte 8"),
    ("real", "05 00000000", "got byte 5"),
    ("real", "08 9c750088 3ce43748", "does not fit float32"),
    ("real", "08 00000000", "takes 9 bytes, but only 5 are left"),
    ("boolean", "20", "expected T or F"),
    ("token", "41 42", "the file ends where a blank should follow"),
    ("token", "ff fe 20", "expected a token, got"),
    ("vector", "4656 20 04 ffffff7f 00000000", "but only 4 are left"),
    ("vector", "4656 20 04 ffffffff", "cannot have size -1"),
    ("vector", "464d 20 04 00000000", "expected FV or DV, got 'FM'"),
    ("matrix", "464d 20 04 ffffff7f 04 ffffff7f", "but only 0 are left"),
    ("matrix", "464d 20 04 00000040 04 04000000", "but only 0 are left"),
    ("matrix", "464d 20 04 ffffff7f 04 00000000", "cannot be 2147483647 x 0"),
    ("matrix", "464d 20 04 ffffffff 04 ffffffff", "cannot have size -1"),
    ("int_vector", "04 ffffffff", "cannot have -1 elements"),
    ("int_vector", "04 ffffff7f", "but only 0 are left"),
    ("int_vector", "08 01000000 00000000 00000000", "elements of 8 bytes"),
    ("pair_vector", "04 01000000 00000000", "but only 4 are left"),
    ("finish", "00", "should end here"),
]


@pytest.mark.parametrize(("method", "contents", "message"), BAD_BINARY)
def test_damaged_bytes_are_refused_with_their_place(method: str, contents: str, message: str) -> None:
    with pytest.raises(ModelFormatError) as caught:
        getattr(Reader(bytes.fromhex(contents), "x.bin", binary=True), method)()
    assert message in str(caught.value)
    assert str(caught.value).startswith("x.bin: byte ")


@pytest.mark.parametrize("is_binary", [False, True])
def test_truncation_at_every_byte(is_binary: bool) -> None:
    writer = Writer(is_binary)
    writer.token("<X>")
    writer.int32(-12)
    writer.vector([1.5, -2.25])
    writer.matrix([[1.5, 2], [-3, 1e-10]])
    writer.int_vector([1, 2])
    writer.pair_vector([[1, 2]])
    writer.boolean(True)
    writer.token("</X>")
    whole = writer.getvalue()

    def read(contents: bytes) -> None:
        reader = Reader(contents, binary=is_binary)
        reader.expect("<X>")
        reader.int32(), reader.vector(), reader.matrix(), reader.int_vector(), reader.pair_vector(), reader.boolean()
        reader.expect("</X>")
        reader.finish()

    read(whole)
    for length in range(len(whole) - (not is_binary)):
        with pytest.raises(ModelFormatError):
            read(whole[:length])


@pytest.mark.parametrize("separator", ["\t", " ", "\n", ";"])
def test_any_separator_in_a_text_of_several_blocks(separator: str) -> None:
    """A matrix of a few megabytes is read in blocks that end between numbers."""
    numbers = (np.arange(280_000) % 9999 + 1000) / 8
    text = separator.join(f"{number:.3f}" for number in numbers)
    matrix = Reader(f" [ {text} ]".encode(), binary=False).matrix(np.float64)
    assert matrix.shape == ((1, len(numbers)) if separator in "\t " else (len(numbers), 1))
    assert np.array_equal(matrix.ravel(), numbers)


@pytest.mark.parametrize("is_binary", [True, False])
@pytest.mark.parametrize("double", [True, False])
def test_a_lower_triangle_is_read_as_it_was_written(is_binary: bool, double: bool) -> None:
    for size in range(4):
        elements = np.arange(size * (size + 1) // 2) / 3
        writer = Writer(is_binary)
        writer.packed(elements, double)
        reader = Reader(writer.getvalue(), binary=is_binary)
        read = reader.packed()
        assert reader.at_end()
        np.testing.assert_allclose(read, elements, rtol=0 if double else 1e-7)


def test_numbers_of_no_triangle_are_refused() -> None:
    with pytest.raises(ModelFormatError, match="line 1, column 2: 4 numbers are no lower triangle"):
        text("[\n1 \n2 3 \n4 ]\n").packed()
    with pytest.raises(ModelFormatError, match="line 3, column 3: 'x' is not a number"):
        text("[\n1 \n2 x ]\n").packed()
    with pytest.raises(ModelFormatError, match="cannot write 4 numbers as the lower triangle"):
        Writer(True).packed(np.arange(4))
    with pytest.raises(ModelFormatError, match="expected FP or DP, got 'FM'"):
        binary("464d 20 04 00000000").packed()
