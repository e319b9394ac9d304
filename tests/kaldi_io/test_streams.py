"""Files, commands and standard input and output: how much is read and written, and what is left at the end."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from nnet3.base.kaldi_io import files
from nnet3.base.kaldi_io.files import map_file
from nnet3.base.kaldi_io.load import open_rxfilename
from nnet3.base.kaldi_io.script import read_script
from nnet3.base.kaldi_io.specifiers import parse_rxfilename, parse_wxfilename
from nnet3.base.kaldi_io.streams import InputStream, OutputStream, open_input, read_whole
from nnet3.cli.files import read_network_or_config
from nnet3.errors import ModelFormatError, Nnet3Error, TableError
from nnet3.kaldi_io import open_matrix_table
from tests.interrupts import interrupt_beside_a_wait


def test_a_full_device_as_standard_output(monkeypatch: pytest.MonkeyPatch) -> None:
    with open("/dev/full", "wb", buffering=0) as file:
        monkeypatch.setattr(sys, "stdout", SimpleNamespace(buffer=file))
        with pytest.raises(TableError, match="cannot write standard output: No space left on device"):
            OutputStream(parse_wxfilename("-")).write(b"x")


def test_who_reads_standard_output_no_more_is_the_callers_business(monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(contents: bytes) -> int:
        raise BrokenPipeError(32, "Broken pipe")

    monkeypatch.setattr(sys, "stdout", SimpleNamespace(buffer=SimpleNamespace(write=gone)))
    with pytest.raises(BrokenPipeError):
        OutputStream(parse_wxfilename("-")).write(b"x")


def test_a_command_that_reads_no_more_is_an_error() -> None:
    stream = OutputStream(parse_wxfilename("| exec <&-"))
    with pytest.raises(TableError, match="cannot write  exec <&-: Broken pipe"):
        stream.write(bytes(1 << 22))  # more than a pipe holds
    stream.discard()


def test_what_was_written_is_counted(tmp_path: Path) -> None:
    stream = OutputStream(parse_wxfilename(str(tmp_path / "x")))
    for contents in (b"abc", b"", b"de"):
        stream.write(contents)
    assert stream.written == 5
    assert stream.is_file
    assert not stream.replaces
    stream.close()
    assert (tmp_path / "x").read_bytes() == b"abcde"


class Trickle:
    """A stream that gives ten bytes at a time and takes three."""

    def __init__(self, contents: bytes = b""):
        self.contents, self.asked = contents, list[int]()

    def read(self, most: int) -> bytes:
        self.asked.append(most)
        piece, self.contents = self.contents[:10], self.contents[10:]
        return piece

    def write(self, contents: bytes) -> int:
        self.contents += bytes(contents[:3])
        return min(3, len(contents))

    def flush(self) -> None:
        pass


def test_no_more_is_read_than_is_needed() -> None:
    file = Trickle(bytes(range(100)))
    stream = InputStream(file)  # type: ignore[arg-type]
    assert [len(stream.read(count)) for count in (0, 1, 10, 11, 25, 100)] == [10, 10, 10, 20, 30, 20]
    assert stream.read(5) == b""
    assert file.asked[:6] == [1 << 16] * 6
    file = Trickle(bytes(15))
    assert len(InputStream(file).read(100_000)) == 15  # type: ignore[arg-type]
    assert file.asked == [100_000, 99_990, 99_985]


def test_what_is_not_taken_at_once_is_written_again(monkeypatch: pytest.MonkeyPatch) -> None:
    file = Trickle()
    monkeypatch.setattr(sys, "stdout", SimpleNamespace(buffer=file))
    stream = OutputStream(parse_wxfilename("-"))
    stream.write(b"0123456789")
    stream.write(b"")
    stream.write(b"abc")
    stream.close()
    assert (file.contents, stream.written) == (b"0123456789abc", 13)


def test_standard_input_and_output_stay_open(monkeypatch: pytest.MonkeyPatch) -> None:
    given, taken = io.BytesIO(b"some"), io.BytesIO()
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=given))
    monkeypatch.setattr(sys, "stdout", SimpleNamespace(buffer=taken))
    for end in ("finish", "close"):
        stream = open_input(parse_rxfilename("-"))
        assert isinstance(stream, InputStream)
        getattr(stream, end)()
    OutputStream(parse_wxfilename("-")).close()
    OutputStream(parse_wxfilename("-")).discard()
    assert not given.closed
    assert not taken.closed
    assert read_whole(parse_rxfilename("-")) == b"some"


def test_zeros_without_end_are_refused_at_once() -> None:
    with pytest.raises(ModelFormatError, match=r"cat /dev/zero : this begins with a zero byte"):
        read_whole(parse_rxfilename("cat /dev/zero |"))


@pytest.mark.parametrize(
    "read",
    [
        lambda: read_whole(parse_rxfilename("yes |")),
        lambda: open_rxfilename("yes |"),
        lambda: read_script("yes |"),
        lambda: open_matrix_table("scp:yes |"),
        lambda: read_network_or_config("yes |"),
        lambda: map_file("pipe"),
        lambda: read_network_or_config("pipe"),
    ],
)
def test_text_without_end_is_refused(
    read: Callable[[], object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nnet3.base.kaldi_io.files.MOST_OF_STREAM", 1 << 20)
    monkeypatch.chdir(tmp_path)
    os.mkfifo("pipe")
    with subprocess.Popen(["bash", "-c", "exec yes > pipe"]) as writer:
        with pytest.raises(Nnet3Error, match=r"does not end within 1048576 bytes: .* name a file instead"):
            read()
        writer.kill()


@pytest.mark.parametrize(
    "read",
    [
        lambda: read_whole(parse_rxfilename("-")),
        lambda: read_whole(parse_rxfilename("cat pipe |")),
        lambda: read_whole(parse_rxfilename("pipe")),
        lambda: map_file("pipe"),
        lambda: read_network_or_config("pipe"),
    ],
    ids=["standard input", "command", "named pipe", "mapped", "text"],
)
def test_a_signal_that_does_not_end_a_read_is_seen(
    read: Callable[[], object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "_MOMENT", 50)
    monkeypatch.chdir(tmp_path)
    os.mkfifo("pipe")
    writer = os.open("pipe", os.O_RDWR)
    os.write(writer, b"\0B")
    with open("pipe", "rb", buffering=0) as given, interrupt_beside_a_wait(lambda: os.close(writer)):
        monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=SimpleNamespace(raw=given)))
        read()


def test_a_command_that_is_not_read_to_its_end_is_ended() -> None:
    stream = open_input(parse_rxfilename("echo x; exec sleep 10000 |"))
    assert isinstance(stream, InputStream)
    assert stream.read(1) == b"x\n"
    stream.close()
    assert stream._process is not None
    assert stream._process.returncode == -15


@pytest.mark.parametrize("suffix", ["", ".partial"])
def test_a_file_takes_its_place_when_it_is_closed(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"old")
    stream = OutputStream(parse_wxfilename(str(path)))
    assert (stream.is_file, stream.replaces) == (True, True)
    stream.write(b"new and more")
    assert path.read_bytes() == b"old"
    stream.close(suffix, 3)
    assert path.with_name(f"x{suffix}").read_bytes() == b"new"
    assert len(list(tmp_path.iterdir())) == 1 + bool(suffix)


def test_what_is_given_up_leaves_nothing(tmp_path: Path) -> None:
    stream = OutputStream(parse_wxfilename(str(tmp_path / "x")))
    stream.write(b"some")
    stream.flush()
    assert len(list(tmp_path.iterdir())) == 1
    stream.discard()
    assert list(tmp_path.iterdir()) == []


def test_what_goes_elsewhere_is_no_file(tmp_path: Path) -> None:
    for name in ("/dev/null", "| cat >/dev/null"):
        stream = OutputStream(parse_wxfilename(name))
        assert (stream.is_file, stream.replaces) == (False, False)
        stream.write(b"x")
        stream.close("", 0)
        stream.close()
