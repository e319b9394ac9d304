"""The library of native code: built once and kept, by several processes at once; all ways in which there is none."""

from __future__ import annotations

import ctypes
import errno
import logging
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from nnet3.base.native import library as room
from nnet3.base.native.codes import BYTES
from tests.call_count import count_calls_of

needs_compiler = pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Nothing is built, and what is built goes to a folder of the test."""
    monkeypatch.setattr(room, "_found", [])
    monkeypatch.setattr(room, "_problems", [])
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    for name in ("CC", "NNET3_NATIVE"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path / "nnet3"


@pytest.fixture
def small_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The library is one that is built at once; its functions do nothing."""
    source = tmp_path / "small.c"
    functions = room.FUNCTIONS.keys() - {"nnet3_size_of_operation"}
    text = "".join(f"void {name}(void) {{}}\n" for name in functions)
    source.write_text(f"{text}long long nnet3_size_of_operation(void) {{ return {BYTES}; }}\n")
    monkeypatch.setattr(room, "_SOURCES", (source,))
    return source


def compiler(place: Path, script: str) -> str:
    """Returns the path of a compiler that is a shell script."""
    path = place / "compiler"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return str(path)


def compilations() -> int:
    """How often the compiler runs for the library, which there must be."""

    def look() -> None:
        room._found.clear()
        assert room.library() is not None

    return count_calls_of(subprocess.run, look)


@needs_compiler
def test_it_is_built_once_and_kept(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", compiler(tmp_path, 'exec cc "$@" -O0'))  # sooner than with all optimizations
    assert compilations() >= 1
    assert [path.suffix for path in folder.iterdir()] == [".library"]
    assert compilations() == 0
    assert room.library() is room.library()


@needs_compiler
@pytest.mark.usefixtures("small_source")
def test_each_compiler_and_source_has_its_own(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert compilations() >= 1
    monkeypatch.setenv("CC", compiler(tmp_path, 'exec cc "$@"'))
    assert compilations() >= 1
    source = tmp_path / "other.c"
    source.write_text("")
    monkeypatch.setattr(room, "_SOURCES", (*room._SOURCES, source))
    assert compilations() >= 1
    assert len(list(folder.iterdir())) == 3


@needs_compiler
def test_flags_that_the_compiler_does_not_know_are_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = 'case "$*" in *=native*|*prefer*) exit 1;; esac; exec cc "$@" -O0'
    monkeypatch.setenv("CC", compiler(tmp_path, script))
    assert room.library() is not None


@needs_compiler
def test_several_processes_build_at_once(folder: Path, small_source: Path, new_python: Path) -> None:
    script = (
        "import nnet3.base.native.library as room, pathlib\n"
        f"room._SOURCES = (pathlib.Path({str(small_source)!r}),)\n"
        "assert room.library() is not None"
    )
    processes = [subprocess.Popen([new_python, "-c", script]) for _ in range(2)]
    assert [process.wait() for process in processes] == [0, 0]
    assert len(list(folder.iterdir())) == 1


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("echo cannot >&2; exit 1", "cannot"),
        ("exit 0", "No such file"),
        (
            "for last; do :; done; while [ $# -gt 1 ]; do [ $1 = -o ] && echo no library > $2; shift; done",
            "too short",
        ),
        ("kill -9 $$", "fails"),
    ],
)
def test_a_broken_compiler_leaves_all_to_pytorch(
    script: str, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("CC", compiler(tmp_path, script))
    assert room.library() is None
    assert room.library() is None
    [record] = caplog.records
    assert record.levelno == logging.WARNING
    assert reason in record.getMessage()


def test_without_a_compiler_there_is_one_warning(
    folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(room, "find_spec", lambda _: None)
    monkeypatch.setenv("PATH", str(folder))
    for compiler_to_use, said in (
        ("", "there is no C compiler 'cc': install one, or pip install 'nnet3[native]'"),
        ("no-such-compiler", "there is no C compiler 'no-such-compiler'"),
        ("'cc", "No closing quotation"),
    ):
        caplog.clear()
        room._found.clear()
        monkeypatch.setenv("CC", compiler_to_use)
        assert room.library() is None
        assert room.library() is None
        [record] = caplog.records
        assert record.levelno == logging.WARNING
        assert said in record.getMessage()
    assert not folder.exists()


def test_switched_off_there_is_no_warning(
    folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("NNET3_NATIVE", "0")
    monkeypatch.setenv("CC", "no-such-compiler")
    assert room.library() is None
    assert not caplog.records
    assert not folder.exists()


@needs_compiler
@pytest.mark.usefixtures("small_source")
@pytest.mark.parametrize("has_other", [False, True])
def test_the_compiler_of_a_package_where_the_system_has_none(
    has_other: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "ziglang"
    package.mkdir()
    (package / "__init__.py").touch()
    script = f'[ $1 = cc ] && [ -n "$ZIG_LOCAL_CACHE_DIR" ] && shift && touch {tmp_path}/used && exec cc "$@"'
    Path(compiler(package, script)).rename(package / "zig")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(room, "_COMPILERS", ("cc",) if has_other else ("no-such-compiler",))
    assert room.library() is not None
    assert (tmp_path / "used").exists() != has_other


@needs_compiler
def test_sources_are_compiled_without_a_warning(tmp_path: Path) -> None:
    """-Wpsabi is of how vectors are passed: functions that take some are static, and put where they are called."""
    flags = (*room._FLAGS, "-O1", "-Wall", "-Wextra", "-Wno-psabi", "-Werror")
    command = ["cc", *flags, "-o", str(tmp_path / "library.so"), *map(str, room._SOURCES), "-lm"]
    assert subprocess.run(command, capture_output=True, text=True).stderr == ""


@needs_compiler
@pytest.mark.usefixtures("small_source")
@pytest.mark.parametrize("given", ["", "relative"])
def test_the_folder_is_in_the_home_where_no_other_is_given(
    given: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", given)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert room.library() is not None
    assert len(list((tmp_path / "home").glob("**/nnet3/*.library"))) == 1


def test_a_folder_that_cannot_be_written(folder: Path) -> None:
    folder.write_text("a file")
    assert room.library() is None


@needs_compiler
@pytest.mark.usefixtures("small_source")
@pytest.mark.parametrize("fault", ["mode 777", "mode 770", "other user"])
def test_a_folder_that_others_may_write_is_refused(
    fault: str, folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    if fault == "other user":
        monkeypatch.setattr(os, "geteuid", lambda: 12345)
    else:
        folder.mkdir()
        folder.chmod(int(fault.split()[1], 8))
    with caplog.at_level(logging.DEBUG, "nnet3"):
        assert room.library() is None
    assert str(folder) in caplog.text
    assert not list(folder.iterdir())


@needs_compiler
def test_what_is_put_in_the_folder_after_the_look_is_not_loaded(
    folder: Path, small_source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody puts his library there at the moment before the system loads ours."""
    assert compilations() >= 1
    room._found.clear()
    small_source.with_name("his.c").write_text(f"{small_source.read_text()}void put_here_by_somebody(void) {{}}\n")
    his = tmp_path / "his.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", his, tmp_path / "his.c"], check=True)
    load = ctypes.CDLL

    def exchange_and_load(path: str) -> ctypes.CDLL:
        for kept in folder.iterdir():
            kept.unlink()
            kept.write_bytes(his.read_bytes())
        return load(path)

    monkeypatch.setattr(ctypes, "CDLL", exchange_and_load)
    found = room.library()
    assert found is not None
    assert not hasattr(found, "put_here_by_somebody")


@needs_compiler
@pytest.mark.usefixtures("small_source")
@pytest.mark.parametrize("left", [0.0, 0.5])
def test_a_library_that_was_cut_is_made_anew(left: float, folder: Path) -> None:
    assert compilations() >= 1
    [kept] = folder.iterdir()
    os.truncate(kept, int(left * kept.stat().st_size))
    assert compilations() >= 1
    assert compilations() == 0


@needs_compiler
@pytest.mark.usefixtures("small_source")
def test_a_full_disk_leaves_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    assert room.library() is None
    assert not list(folder.iterdir())


@needs_compiler
@pytest.mark.usefixtures("small_source")
def test_where_the_system_has_no_files_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "memfd_create", raising=False)
    assert room.library() is not None


@needs_compiler
@pytest.mark.parametrize("size", ["", "int64_t nnet3_size_of_operation(void) { return 8; }"])
def test_a_library_of_something_else_is_not_used(size: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = tmp_path / "other.c"
    source.write_text(f"#include <stdint.h>\nvoid nnet3_run(void) {{}}\n{size}\n")
    monkeypatch.setattr(room, "_SOURCES", (source,))
    assert room.library() is None
