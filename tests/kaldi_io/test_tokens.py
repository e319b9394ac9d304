"""Tokens, lines and numbers by hand through the Reader; what is no file, and what is cut off."""

from __future__ import annotations

import mmap
from pathlib import Path

import numpy as np
import pytest

from nnet3.base.kaldi_io import files
from nnet3.errors import ModelFormatError
from nnet3.kaldi_io import Reader
from tests.kaldi_io.hand_made import binary, text


def test_numbers_in_binary() -> None:
    reader = binary("04 05000000 04 ffffffff 04 0000c03f 08 000000000000f83f 54 46")
    assert [reader.int32(), reader.int32(), reader.real(), reader.real()] == [5, -1, 1.5, 1.5]
    assert [reader.boolean(), reader.boolean()] == [True, False]
    assert reader.at_end()


def test_numbers_in_text() -> None:
    reader = text(" 5 -1 +7 1.5 1e-05 .5 -3. inf -inf Infinity T F\n")
    assert [reader.int32() for _ in range(3)] == [5, -1, 7]
    assert [reader.real() for _ in range(7)] == [1.5, 1e-05, 0.5, -3, np.inf, -np.inf, np.inf]
    assert [reader.boolean(), reader.boolean()] == [True, False]
    reader.finish()
    assert np.isnan(text("nan ").real())


def test_tokens_are_peeked_accepted_and_expected() -> None:
    reader = text("  <Nnet3> \n<Dim> 3 </X>")
    assert reader.peek_token() == "<Nnet3>"
    assert not reader.accept("<Dim>")
    assert reader.accept("<Nnet3>")
    assert reader.expect("<Foo>", "<Dim>") == "<Dim>"
    assert reader.int32() == 3
    assert reader.token() == "</X>"
    assert reader.peek_token() == ""


def test_binary_tokens_leave_the_bytes_behind_their_blank() -> None:
    reader = binary("3c 44 69 6d 3e 20 04 20200a20")  # a value made of white space
    reader.expect("<Dim>")
    assert reader.raw_byte_peek() == 4
    assert reader.int32() == 0x200A2020
    assert reader.raw_byte_peek() is None


def test_lines_are_read_to_the_end() -> None:
    reader = text("<Nnet3> \ninput-node name=é\r\n\nrest")
    reader.expect("<Nnet3>")
    assert [reader.line() for _ in range(4)] == ["", "input-node name=é", "", "rest"]
    with pytest.raises(ModelFormatError, match="ends here"):
        reader.line()


def test_the_header_says_binary_or_text() -> None:
    assert Reader(b"\0B<X> ").binary
    assert Reader(b"\0B<X> ").position == 2
    assert not Reader(b"<X> ").binary
    assert Reader(b"<X> ", binary=True).position == 0
    assert not Reader(b"").binary
    with pytest.raises(ModelFormatError, match="00 42"):
        Reader(b"\0C")


def test_words_at_once() -> None:
    """A few thousand bytes are looked at first; long words take more."""
    reader = text(" a bb\n" + "c" * 100 + "\td e\n")
    assert reader.words(2) == [b"a", b"bb"]
    assert reader.raw_byte_peek() == ord("c")
    assert not reader.ran_out
    assert reader.words(2) == [b"c" * 100, b"d"]
    assert not reader.ran_out
    assert reader.words(1) == [b"e"]
    assert reader.ran_out
    assert reader.at_end()
    with pytest.raises(ModelFormatError, match="expected 2 more words, but only 1 are left"):
        text("a ").words(2)


LARGEST = 2.0**128 - 2.0**104  # of float32


@pytest.mark.parametrize("sign", ["", "-"])
def test_the_range_of_float32(sign: str) -> None:
    for value in (LARGEST, LARGEST + 2.0**102):
        assert np.float32(text(f"{sign}{value!r} ").real()) == np.float32(f"{sign}{LARGEST!r}")
        assert np.isfinite(text(f"[ {sign}{value!r} ]").vector()).all()
    for value in (LARGEST + 2.0**103, 2.0**128):
        with pytest.raises(ModelFormatError, match="does not fit float32"):
            text(f"{sign}{value!r} ").real()
        with pytest.raises(ModelFormatError, match="does not fit float32"):
            text(f"[ {sign}{value!r} ]").vector()


def test_what_was_read_of_a_mapped_file_is_given_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the megabyte, in whole pages."""
    given: list[tuple[int, ...]] = []

    class Mapped(mmap.mmap):
        def madvise(self, *advice: int) -> None:
            given.append(advice)
            super().madvise(*advice)

    monkeypatch.setattr(files.mmap, "mmap", Mapped)
    (tmp_path / "x").write_bytes(b"\0B" + bytes(range(256)) * (4 << 12))
    reader = Reader.open(tmp_path / "x")
    megabyte, page = 1 << 20, mmap.PAGESIZE
    for position in (0, megabyte - 1, megabyte, 2 * megabyte - 1, 2 * megabyte + page + 5, 2 * megabyte + page + 6):
        reader.position = position
        reader.release()
    advice = mmap.MADV_DONTNEED
    assert given == [(advice, 0, megabyte), (advice, megabyte, megabyte + page)]
    reader.position = 2 + 300
    assert reader.raw_byte_peek() == 300 % 256
    Reader(b"\0B" + bytes(2 * megabyte)).release()


def test_expect_names_both_tokens() -> None:
    with pytest.raises(ModelFormatError, match=r"line 2, column 3: expected <A> or <B>, got 'C'"):
        text("\n  C ").expect("<A>", "<B>")


def test_nesting_is_bounded() -> None:
    reader = text("")

    def descend(depth: int) -> None:
        with reader.nested("a component"):
            if depth:
                descend(depth - 1)

    descend(15)
    with pytest.raises(ModelFormatError, match="nested more than 16 deep"):
        descend(16)
    descend(15)


def test_any_buffer_serves(tmp_path: Path) -> None:
    contents = bytes.fromhex("00 42 46 56 20 04 01 00 00 00 00 00 80 3f")
    for buffer in (bytearray(contents), memoryview(contents)):
        assert Reader(buffer).vector().tolist() == [1]
    (tmp_path / "v").write_bytes(contents)
    reader = Reader.open(tmp_path / "v")
    assert isinstance(reader.data, mmap.mmap)
    assert reader.vector().tolist() == [1]


@pytest.mark.parametrize(("name", "message"), [("none", "No such file"), ("", "s a directory"), ("empty", "is empty")])
def test_unreadable_files_are_refused(tmp_path: Path, name: str, message: str) -> None:
    (tmp_path / "empty").touch()
    with pytest.raises(ModelFormatError, match=message):
        Reader.open(tmp_path / name)


@pytest.mark.parametrize("is_taken_back", [True, False])
def test_released_data_can_still_be_read(is_taken_back: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a mapped file, also on systems that take no memory back; data in memory stay where they are."""
    if not is_taken_back:
        monkeypatch.delattr(mmap, "MADV_DONTNEED", raising=False)
    path = tmp_path / "numbers"
    contents = np.arange(1_000_000, dtype="<i4").tobytes()
    path.write_bytes(b"\0B" + contents)
    for reader in (Reader.open(path), Reader(path.read_bytes())):
        for first in range(0, 1_000_000, 250_000):
            numbers = reader.raw_array(250_000, "<i4", "numbers").copy()
            reader.release()
            assert numbers.tolist() == list(range(first, first + 250_000))
        assert bytes(reader.data[2:]) == contents
