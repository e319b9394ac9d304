"""The Writer's bytes are Kaldi's, and the Reader gets back what was written, bit for bit."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, strategies as st
from hypothesis.extra import numpy as hnp

from nnet3.errors import ModelFormatError, Nnet3Error
from nnet3.kaldi_io import Reader, Writer, compress, write_atomically

BYTES = [
    ("token", "<Dim>", "3c 44 69 6d 3e 20", "<Dim> "),
    ("int32", 5, "04 05 00 00 00", "5 "),
    ("int32", -1, "04 ff ff ff ff", "-1 "),
    ("int32", -(2**31), "04 00 00 00 80", "-2147483648 "),
    ("int32", 2**31 - 1, "04 ff ff ff 7f", "2147483647 "),
    ("real", 1.5, "04 00 00 c0 3f", "1.5 "),
    ("real", 0.1, "04 cd cc cc 3d", "0.1 "),
    ("real", 1e-5, "04 ac c5 27 37", "1e-05 "),
    ("real", 8, "04 00 00 00 41", "8 "),
    ("real", 1.5e10, "04 76 84 5f 50", "1.5e+10 "),
    ("real", 1e6, "04 00 24 74 49", "1000000 "),
    ("real", float("-inf"), "04 00 00 80 ff", "-inf "),
    ("double", 1.5, "08 00 00 00 00 00 00 f8 3f", "1.5 "),
    ("double", 0.1, "08 9a 99 99 99 99 99 b9 3f", "0.1 "),
    ("double", 1 / 3, "08 55 55 55 55 55 55 d5 3f", "0.3333333333333333 "),
    ("boolean", True, "54", "T "),
    ("boolean", False, "46", "F "),
    ("vector", [1, -2], "46 56 20 04 02 00 00 00 00 00 80 3f 00 00 00 c0", " [ 1 -2 ]\n"),
    (
        "vector",
        [1e6, 1234567, 9999999, 999999, 1e7, -1e6],
        "46 56 20 04 06 00 00 00 00 24 74 49 38 b4 96 49 7f 96 18 4b f0 23 74 49 80 96 18 4b 00 24 74 c9",
        " [ 1000000 1234567 9999999 999999 1e+07 -1000000 ]\n",
    ),
    ("vector", [], "46 56 20 04 00 00 00 00", " [ ]\n"),
    ("vector", torch.tensor([1.0, -2.0]), "46 56 20 04 02 00 00 00 00 00 80 3f 00 00 00 c0", " [ 1 -2 ]\n"),
    (
        "matrix",
        [[1, 2], [3, 4]],
        "46 4d 20 04 02 00 00 00 04 02 00 00 00 00 00 80 3f 00 00 00 40 00 00 40 40 00 00 80 40",
        " [\n  1 2 \n  3 4 ]\n",
    ),
    ("matrix", np.empty((0, 0)), "46 4d 20 04 00 00 00 00 04 00 00 00 00", " [ ]\n"),
    ("matrix", np.empty((0, 5)), "46 4d 20 04 00 00 00 00 04 00 00 00 00", " [ ]\n"),
    (
        "packed",
        [1, 2, 3],
        "46 50 20 04 02 00 00 00 00 00 80 3f 00 00 00 40 00 00 40 40",
        "[\n1 \n2 3 ]\n",
    ),
    ("int_vector", [-3, 0, 3], "04 03 00 00 00 fd ff ff ff 00 00 00 00 03 00 00 00", "[ -3 0 3 ]\n"),
    ("int_vector", [], "04 00 00 00 00", "[ ]\n"),
    (
        "pair_vector",
        [[0, 0], [1, -1]],
        "04 02 00 00 00 00 00 00 00 00 00 00 00 01 00 00 00 ff ff ff ff",
        "[ 0,0 1,-1 ]\n",
    ),
    ("pair_vector", [], "04 00 00 00 00", "[ ]\n"),
    ("text_line", "input-node name=x", b"input-node name=x\n".hex(), "input-node name=x\n"),
]


@pytest.mark.parametrize(("method", "value", "binary", "text"), BYTES)
def test_each_value_has_its_bytes_and_text(method: str, value: object, binary: str, text: str) -> None:
    writers = {True: Writer(True), False: Writer(False)}
    for writer in writers.values():
        getattr(writer, method)(value)
    assert writers[True].getvalue().hex(" ") == bytes.fromhex(binary).hex(" ")
    assert writers[False].getvalue().decode() == text


def test_what_differs_between_modes() -> None:
    for binary, expected in ((True, b"\0B"), (False, b"\n")):
        writer = Writer(binary)
        writer.header()
        writer.newline()
        assert writer.getvalue() == expected


@pytest.mark.parametrize("method", ["vector", "matrix", "packed", "int_vector", "pair_vector", "index_vector"])
@pytest.mark.parametrize(
    "value", [[[1], [1, 2]], torch.zeros(3).to_sparse(), torch.zeros(3, device="meta"), [10**400, 1.5], "x", {1: 2}]
)
def test_what_has_no_numbers_of_one_shape_is_refused(method: str, value: object) -> None:
    with pytest.raises(ModelFormatError):
        getattr(Writer(True), method)(value)
    with pytest.raises(ModelFormatError):
        compress(value)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("method", "value"),
    [
        ("token", ""),
        ("token", "a b"),
        ("token", "a\n"),
        ("int32", 2**31),
        ("int32", -(2**31) - 1),
        ("vector", [[1.0]]),
        ("vector", 1.0),
        ("matrix", [1.0]),
        ("int_vector", [0.5]),
        ("int_vector", [2**31]),
        ("int_vector", [-(2**31) - 1]),
        ("int_vector", [[1]]),
        ("pair_vector", [[1, 2, 3]]),
    ],
)
def test_values_that_cannot_be_written_are_refused(method: str, value: object) -> None:
    with pytest.raises(ModelFormatError, match="cannot write"):
        getattr(Writer(True), method)(value)


def written(method: str, value: object, binary: bool, **options: bool) -> Reader:
    writer = Writer(binary)
    getattr(writer, method)(value, **options)
    return Reader(writer.getvalue(), binary=binary)


def bits(array: np.ndarray) -> list[int]:
    return array.reshape(-1).view(f"u{array.itemsize}").tolist()


@given(st.data(), st.booleans(), st.booleans())
def test_floats_keep_their_bits(data: st.DataObject, binary: bool, double: bool) -> None:
    dtype = np.float64 if double else np.float32
    shapes = hnp.array_shapes(min_dims=2, max_dims=2, max_side=6)
    matrix = data.draw(hnp.arrays(dtype, shapes, elements=st.floats(width=64 if double else 32, allow_nan=False)))
    assert bits(written("matrix", matrix, binary, double=double).matrix(dtype)) == bits(matrix)
    assert bits(written("vector", matrix[0], binary, double=double).vector(dtype)) == bits(matrix[0])
    reader = written("double" if double else "real", matrix[0, 0], binary)
    if 2.0**128 - 2.0**103 <= abs(float(matrix[0, 0])) < np.inf:  # single numbers must be in the range of float32
        with pytest.raises(ModelFormatError, match="does not fit float32"):
            reader.real()
    else:
        assert bits(np.array(reader.real(), dtype)) == bits(matrix[0, 0])


def test_the_largest_number_is_read_beside_an_infinite_one() -> None:
    """As decimals of float32 are written, it is a little more than the largest float32."""
    row = np.array([[np.finfo(np.float32).max, np.inf, -np.finfo(np.float32).max, -np.inf]], np.float32)
    assert bits(written("matrix", row, False).matrix(np.float32)) == bits(row)


@given(st.lists(st.integers(-(2**31), 2**31 - 1)), st.booleans())
def test_integers_round_trip(values: list[int], binary: bool) -> None:
    assert written("int_vector", values, binary).int_vector().tolist() == values
    pairs = [[value, value ^ 1] for value in values]
    assert written("pair_vector", pairs, binary).pair_vector().tolist() == pairs


def test_large_text_keeps_bits_and_is_short() -> None:
    """More numbers than fit one block, of all magnitudes."""
    random = np.random.default_rng(1)
    values = random.integers(0, 2**32, 300_000, np.uint32).view(np.float32)
    values = values[np.isfinite(values)]
    rows = values[: len(values) // 100 * 100].reshape(-1, 100)
    writer = Writer(False)
    writer.matrix(rows)
    assert bits(Reader(writer.getvalue()).matrix()) == bits(rows)

    def digits(text: str) -> int:
        return len(text.partition("e")[0].replace(".", "").strip("-0"))

    for word, value in zip(writer.getvalue().decode()[2:-2].split()[:10_000], rows.reshape(-1), strict=False):
        subnormal = abs(value) < np.finfo(np.float32).tiny
        assert subnormal or digits(word) <= digits(np.format_float_scientific(value, trim="-"))
    single_row = Writer(False)
    single_row.matrix(values[None])
    assert bits(Reader(single_row.getvalue()).matrix()) == bits(values)


def test_files_are_written_whole_with_usual_rights(tmp_path: Path) -> None:
    path = tmp_path / "x"
    write_atomically(path, b"one")
    assert path.stat().st_mode & 0o777 == 0o666 & ~umask()
    write_atomically(path, (piece for piece in (b"t", b"wo")))
    assert path.read_bytes() == b"two"

    def failing() -> object:
        yield b"half"
        raise RuntimeError

    with pytest.raises(RuntimeError):
        write_atomically(path, failing())
    assert path.read_bytes() == b"two"
    assert list(tmp_path.iterdir()) == [path]
    (tmp_path / "link").symlink_to(path)
    write_atomically(tmp_path / "link", b"three")
    assert path.read_bytes() == b"three"
    write_atomically("/dev/null", b"four")
    assert not Path("/dev/null").is_file()
    reading, writing = os.pipe()
    write_atomically(f"/dev/fd/{writing}", b"five")
    assert os.read(reading, 9) == b"five"
    os.close(reading)
    os.close(writing)


def umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


@pytest.mark.parametrize(("name", "message"), [("none/x", "No such file"), (".", "s a directory")])
def test_unwritable_files_are_refused(tmp_path: Path, name: str, message: str) -> None:
    writer = Writer(True)
    writer.header()
    with pytest.raises(Nnet3Error, match=message):
        writer.write_to(tmp_path / name)
