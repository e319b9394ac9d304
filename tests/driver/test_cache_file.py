"""Folders and files of compiled computations: found again, damaged, bounded."""

from __future__ import annotations

import copy
import os
import pickle
import zlib
from collections.abc import Callable
from dataclasses import MISSING, fields
from pathlib import Path

import pytest

from nnet3.engine.driver import cache as cache_module
from nnet3.engine.driver.cache import ComputationCache, key_digest
from nnet3.engine.driver.cache_file import _KNOWN, _NUMBERS, MAGIC, CacheFolder, num_bytes
from nnet3.engine.ir import serialize
from nnet3.engine.ir.computation import NnetComputation
from nnet3.engine.runtime import plan_of
from nnet3.errors import ModelFormatError, Nnet3Error
from tests.driver.counting_maker import Maker, run


def entry_of(folder: Path) -> Path:
    (path,) = folder.iterdir()
    return path


def test_another_process_finds_what_is_in_the_folder(tmp_path: Path) -> None:
    make = Maker(structure="abc")
    made = ComputationCache(tmp_path).get_or_compile(0, make)
    found = ComputationCache(tmp_path).get_or_compile(0, make)
    assert make.count == 1
    assert found.is_lazy
    assert found.fingerprint == {"structure": "abc"}
    assert str(found) == str(made)
    assert type(found) is NnetComputation
    assert num_bytes(found) == pytest.approx(num_bytes(made), rel=0.1)
    run(found)


def test_a_program_that_is_damaged_below_its_checksum_is_an_error_of_ours(tmp_path: Path) -> None:
    """Only what a program begins with is read at once."""
    ComputationCache(tmp_path).get_or_compile(0, Maker())
    path = entry_of(tmp_path)
    data = bytearray(path.read_bytes())
    begin = len(MAGIC) + _NUMBERS.size
    at = data.rindex(b'{"', begin)  # the header of its section
    data[at : at + 2] = b"}}"
    data[len(MAGIC) : begin] = _NUMBERS.pack(zlib.crc32(data[begin:]), _NUMBERS.unpack_from(data, len(MAGIC))[1])
    path.write_bytes(data)
    with pytest.raises(Nnet3Error, match="a file of compiled programs is damaged: its section '"):
        str(ComputationCache(tmp_path).get_or_compile(0, Maker()))


def damage(path: Path, how: str) -> None:
    data = path.read_bytes()
    if how == "foreign":
        path.write_bytes(b"GIF89a" + data)
    elif how == "of something else":
        ComputationCache(path.parent).get_or_compile(1, Maker())
        other = next(p for p in path.parent.iterdir() if p != path)
        other.replace(path)
    else:
        changed = {
            "cut": data[: len(data) // 2],
            "empty": b"",
            "only magic": data[:30],
            "changed": data[:-40] + bytes([data[-40] ^ 1]) + data[-39:],
        }
        path.write_bytes(changed[how])


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ("foreign", "it does not begin as a file of this version"),
        ("empty", "it does not begin"),
        ("only magic", "it ends too early"),
        ("cut", "its checksum is wrong"),
        ("changed", "its checksum is wrong"),
        ("of something else", "it is the file of something else"),
    ],
)
def test_files_that_are_damaged_are_written_anew(how: str, message: str, tmp_path: Path) -> None:
    make = Maker()
    ComputationCache(tmp_path).get_or_compile(0, make)
    damage(entry_of(tmp_path), how)
    with pytest.warns(RuntimeWarning, match=f"is not used: {message}.*; compiling again"):
        run(ComputationCache(tmp_path).get_or_compile(0, make))
    assert make.count == 2
    assert ComputationCache(tmp_path).get_or_compile(0, make).is_lazy
    assert make.count == 2


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    cache = ComputationCache(tmp_path / "folder")
    (tmp_path / "folder").write_text("in the way")
    with pytest.warns(RuntimeWarning, match="not kept there|cannot be read"):
        computation = cache.get_or_compile(0, Maker())
    with pytest.warns(RuntimeWarning, match="not kept there"):
        run(computation)


def test_the_folder_is_bounded(tmp_path: Path) -> None:
    ComputationCache(tmp_path).get_or_compile(0, Maker())
    size = entry_of(tmp_path).stat().st_size
    cache = ComputationCache(tmp_path, max_bytes=3 * size + 10)
    for number in range(6):
        cache.get_or_compile(number, Maker())
    assert len(list(tmp_path.iterdir())) == 3


# ---- networks that change ----


# ---- real networks ----


def _name_in_file(key: object) -> bytes:
    return key_digest((cache_module.PROGRAM_VERSION, serialize.VERSION, key)).encode()


def test_a_file_with_all_that_is_in_memory(tmp_path: Path) -> None:
    cache, path = ComputationCache(), tmp_path / "cache"
    for number in range(3):
        cache.get_or_compile(number, Maker(number=str(number)))
    cache.save(path)
    other = ComputationCache()
    other.load(path)
    assert len(other) == 3
    for number in range(3):
        make = Maker()
        found = other.get_or_compile(number, make)
        assert (make.count, found.fingerprint) == (0, {"number": str(number)})
        run(found)
    assert sorted(tmp_path.iterdir()) == [path]
    with pytest.raises(ModelFormatError, match="none: cannot read this file: No such file"):
        other.load(tmp_path / "none")
    with pytest.raises(ModelFormatError, match=r"this is a folder: expected the file that save\(\) has written"):
        other.load(tmp_path)


@pytest.mark.parametrize(
    ("damage", "left", "message"),
    [
        (lambda data: b"", 0, "it does not begin as a file of this version"),
        (lambda data: b"x" + data, 0, "it does not begin as a file of this version"),
        (lambda data: data.replace(b" %d\n" % serialize.VERSION, b" 12\n", 1), 0, "it does not begin"),
        (lambda data: data[:-1], 1, "it ends too early"),
        (lambda data: data + b"x", 2, "it ends too early"),
        (lambda data: data[:-1] + bytes([data[-1] ^ 1]), 1, "its checksum is wrong"),
        (lambda data: data.replace(_name_in_file(1), b"0" * 40, 1), 1, "it is the file of something else"),
    ],
)  # fmt: skip
def test_a_file_that_is_damaged_is_read_so_far(
    tmp_path: Path, damage: Callable[[bytes], bytes], left: int, message: str
) -> None:
    cache, path = ComputationCache(), tmp_path / "cache"
    for number in range(2):
        cache.get_or_compile(number, Maker(number=str(number)))
    cache.save(path)
    path.write_bytes(damage(path.read_bytes()))
    other = ComputationCache()
    with pytest.warns(RuntimeWarning, match=f"cache: the rest is not used: {message}"):
        other.load(path)
    assert len(other) == left


class _Listing(list[os.DirEntry[str]]):
    """What `os.scandir` has found."""

    def __enter__(self) -> _Listing:
        return self

    def __exit__(self, *_: object) -> None:
        pass


def test_another_process_may_remove_files_meanwhile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that goes between the listing and the question for its size is no reason for a warning."""
    scandir, folder = os.scandir, CacheFolder(tmp_path, 25)

    def removing(path: Path) -> _Listing:
        with scandir(path) as items:
            found = _Listing(items)
        folder.path("2" * 40).unlink(missing_ok=True)
        return found

    for number, digest in enumerate(("1" * 40, "2" * 40, "3" * 40)):
        folder.path(digest).write_bytes(bytes(10))
        os.utime(folder.path(digest), (number, number))
    monkeypatch.setattr(os, "scandir", removing)
    folder.write("4" * 40, bytes(10))
    assert sorted(path.stem for path in tmp_path.iterdir()) == ["3" * 40, "4" * 40]


def test_files_of_the_user_stay(tmp_path: Path) -> None:
    names = ["model.nnet3", f"{'a' * 39}.nnet3", f"{'A' * 40}.nnet3", f"{'a' * 40}.nnet3.old", "notes"]
    for name in names:
        (tmp_path / name).write_bytes(bytes(1000))
    (tmp_path / f"{'b' * 40}.nnet3").symlink_to("notes")
    cache = ComputationCache(tmp_path, max_bytes=0)
    for number in range(3):
        cache.get_or_compile(number, Maker(number=str(number)))
    left = {path.name for path in tmp_path.iterdir()}
    assert left >= {*names, f"{'b' * 40}.nnet3"}
    assert len(left) == len(names) + 2


def test_a_plan_in_the_folder_runs_without_the_program(tmp_path: Path) -> None:
    run(ComputationCache(tmp_path).get_or_compile(0, Maker()))
    found = ComputationCache(tmp_path).get_or_compile(0, Maker())
    run(found)
    assert found.is_lazy
    assert "commands" not in vars(found)


def test_two_threads_read_a_program_at_once(tmp_path: Path) -> None:
    ComputationCache(tmp_path).get_or_compile(0, Maker())
    found = ComputationCache(tmp_path).get_or_compile(0, Maker())
    commands = found.commands
    # As in a thread that found no commands yet, and goes on when another has read them.
    assert found.__getattr__("commands") is commands


def test_a_plan_for_another_dtype_is_added_to_the_folder(tmp_path: Path) -> None:
    plan_of(ComputationCache(tmp_path).get_or_compile(0, Maker()), "float32")
    plan_of(ComputationCache(tmp_path).get_or_compile(0, Maker()), "float64")
    found = ComputationCache(tmp_path).get_or_compile(0, Maker())
    assert found.attachments is not None
    assert sorted(found.attachments) == ["plan float32", "plan float64"]
    assert [plan_of(found, dtype).dtype for dtype in ("float32", "float64")] == ["float32", "float64"]
    assert found.is_lazy


@pytest.mark.parametrize("twin_of", [copy.deepcopy, lambda c: pickle.loads(pickle.dumps(c)), lambda c: c.copy()])
def test_copies_of_what_is_in_a_folder(twin_of: Callable[[NnetComputation], NnetComputation], tmp_path: Path) -> None:
    plan_of(ComputationCache(tmp_path).get_or_compile(0, Maker(a="b")), "float32")
    found = ComputationCache(tmp_path).get_or_compile(0, Maker())
    twin = twin_of(found)
    assert not twin.is_lazy
    assert twin.fingerprint == {"a": "b"}
    assert twin.commands is not found.commands
    run(twin)


def test_fields_that_are_known_before_the_file_is_read() -> None:
    """A default of the class would be taken for the value in the file."""
    with_default = {field.name for field in fields(NnetComputation) if field.init and field.default is not MISSING}
    assert with_default - {"attachments", "member", "row_numbers", "prove"} <= set(_KNOWN)  # which no file has


# ---- networks that change ----


# ---- real networks ----
