"""Which outputs may take the place of which files, by each way of writing files."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from nnet3.base.kaldi_io.replacing import FST, MODEL, expect_output, keeping_inputs
from nnet3.base.kaldi_io.specifiers import parse_wspecifier, parse_wxfilename
from nnet3.base.kaldi_io.streams import OutputStream
from nnet3.errors import Nnet3Error
from nnet3.kaldi_io import write_atomically

KINDS = {
    "a model": [b"\0B<Nnet3> \ninput-node", b"<Nnet3> \n\ninput-node", b"\0B<TransitionModel> <Topology> "],
    "an archive": [
        *(b"key-1 \0BFM \4\1\0\0\0", b"key-1  [\n  1 2 3 ]\n", b"key-1 \0B\4\3\0\0\0"),
        b"key-1 \xd6\xfd\xb2\x7e\6\0\0\0vector",
    ],
    "a matrix": [b"\0BFM \4\1\0\0\0\4\1\0\0\0\0\0\0\0"],
    "a recording": [b"RIFF\0\0\0\0WAVEfmt ", b"fLaC\0\0\0", b"OggS\0\2", b"ID3\4", b"\0\0\0 ftypM4A "],
    "an ONNX model": [b"\x08\x0a\x12\x05nnet3", b"\x08\x08:\x10"],
    "an FST": [b"\xd6\xfd\xb2\x7e\6\0\0\0vector"],
    "safetensors": [b'\x40\0\0\0\0\0\0\0{"__metadata__":{}}'],
    "an HTML page": [b"<!DOCTYPE html>\n<html>", b"<html>"],
    "a picture": [b"\x89PNG\r\n\x1a\n", b"<?xml version='1.0'?><svg", b"<svg xmlns"],
}
TEXT = [b"some words\n", b"input-node name=input dim=3\n", b'{"text": "words"}\n', b"", b"\x1f\x8b\x08"]


def by_function(path: Path, contents: bytes) -> None:
    write_atomically(path, [contents[:3], contents[3:]])


def by_stream(path: Path, contents: bytes) -> None:
    stream = OutputStream(parse_wxfilename(str(path)))
    try:
        for place in range(0, len(contents), 5):
            stream.write(contents[place : place + 5])
        stream.close()
    except BaseException:
        stream.discard()
        raise


write = pytest.mark.parametrize("write", [by_function, by_stream])


@write
@pytest.mark.parametrize("kind", KINDS)
def test_another_kind_is_not_replaced(kind: str, write: Callable[[Path, bytes], None], tmp_path: Path) -> None:
    path = tmp_path / "file"
    for old in KINDS[kind]:
        for other, contents in [*KINDS.items(), ("text", TEXT)]:
            for new in contents:
                path.write_bytes(old)
                if other == kind or (other == "text" and kind == "an archive" and write is by_stream):
                    write(path, new)
                    assert path.read_bytes() == new
                    continue
                with pytest.raises(Nnet3Error, match=rf"file: this is .*{kind.split()[-1]}.* is not to take its place"):
                    write(path, new)
                assert path.read_bytes() == old
                assert os.listdir(tmp_path) == ["file"]


@write
def test_a_long_output_is_refused_at_its_beginning(write: Callable[[Path, bytes], None], tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(KINDS["a model"][0])
    if write is by_stream:
        stream = OutputStream(parse_wxfilename(str(path)))
        with pytest.raises(Nnet3Error, match="is not to take its place"):
            stream.write(KINDS["an archive"][0] + bytes(100))
        stream.discard()
    assert os.listdir(tmp_path) == ["file"]


@write
def test_text_may_be_replaced_unless_it_is_named_twice(write: Callable[[Path, bytes], None], tmp_path: Path) -> None:
    path, link = tmp_path / "file", tmp_path / "link"
    for old in TEXT:
        for new in [*TEXT, KINDS["a model"][0]]:
            path.write_bytes(old)
            write(path, new)
            assert path.read_bytes() == new
    path.write_bytes(TEXT[0])
    link.symlink_to(path)
    with keeping_inputs([str(path), str(link)]):
        with pytest.raises(Nnet3Error, match=r"file: this is read here; a model.* is not to take its place"):
            write(path, KINDS["a model"][0])
        write(path, TEXT[1])
    with keeping_inputs([str(path)]):
        write(path, KINDS["a model"][0])


@write
@pytest.mark.parametrize("is_there", [False, True])
def test_two_outputs_have_two_names(is_there: bool, write: Callable[[Path, bytes], None], tmp_path: Path) -> None:
    path = tmp_path / "file"
    if is_there:
        path.write_bytes(TEXT[0])
    with keeping_inputs([], [str(path), str(tmp_path / "other")]):
        write(path, TEXT[1])
        write(tmp_path / "third", TEXT[2])
        write(tmp_path / "third", TEXT[2])
        with pytest.raises(Nnet3Error, match="file: two outputs are to be written here: give each a name of its own"):
            write(path, TEXT[2])
        assert path.read_bytes() == TEXT[1]
        write(tmp_path / "other", TEXT[1])
    write(path, TEXT[2])
    assert sorted(os.listdir(tmp_path)) == ["file", "other", "third"]


def test_an_output_is_expected_once(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(KINDS["an FST"][0])
    with pytest.raises(Nnet3Error, match="file: this is an FST; a model, as Kaldi writes them is not to take its"):
        expect_output(path, MODEL)
    with keeping_inputs([], [str(path)]):
        for _ in range(2):
            with pytest.raises(Nnet3Error, match="file: this is an FST; text or something else is not"):
                expect_output(path, "")
        expect_output(path, FST)
        with pytest.raises(Nnet3Error, match="file: two outputs are to be written here"):
            expect_output(path, FST)
        write_atomically(path, KINDS["an FST"][0])
    expect_output(path, FST)


@write
@pytest.mark.parametrize("mode", [0o600, 0o640, 0o644, 0o666])
def test_permissions_stay(write: Callable[[Path, bytes], None], mode: int, tmp_path: Path) -> None:
    path = tmp_path / "file"
    write(path, b"first")
    umask = os.umask(0)
    os.umask(umask)
    assert path.stat().st_mode & 0o777 == 0o666 & ~umask
    path.chmod(mode)
    write(path, b"second")
    assert path.read_bytes() == b"second"
    assert path.stat().st_mode & 0o777 == mode


def test_archive_and_script_are_two_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a").touch()
    (tmp_path / "b").symlink_to("a")
    os.link("a", "c")
    for names in ("zz,zz", "zz,./zz", f"{tmp_path}/zz,zz", "a,b", "a,c"):
        with pytest.raises(Nnet3Error, match="archive and script are one file"):
            parse_wspecifier(f"ark,scp:{names}")
    for names in ("zz,z", "/dev/null,/dev/null", "-,-", "|cat,|cat"):
        assert parse_wspecifier(f"ark,scp:{names}").script is not None
