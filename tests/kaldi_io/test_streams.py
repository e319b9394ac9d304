"""Standard output and commands as what tables are written to."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from nnet3.errors import TableError
from nnet3.kaldi_io.specifiers import parse_wxfilename
from nnet3.kaldi_io.streams import OutputStream


def test_a_full_device_as_standard_output(monkeypatch: pytest.MonkeyPatch) -> None:
    with open("/dev/full", "wb", buffering=0) as file:
        monkeypatch.setattr(sys, "stdout", SimpleNamespace(buffer=file))
        with pytest.raises(TableError, match="cannot write: No space left on device"):
            OutputStream(parse_wxfilename("-")).write(b"x")


def test_who_reads_standard_output_no_more_is_the_callers_business(monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(contents: bytes) -> int:
        raise BrokenPipeError(32, "Broken pipe")

    monkeypatch.setattr(sys, "stdout", SimpleNamespace(buffer=SimpleNamespace(write=gone)))
    with pytest.raises(BrokenPipeError):
        OutputStream(parse_wxfilename("-")).write(b"x")


def test_a_command_that_reads_no_more_is_an_error() -> None:
    stream = OutputStream(parse_wxfilename("| exec <&-"))
    with pytest.raises(TableError, match="cannot write: Broken pipe"):
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
