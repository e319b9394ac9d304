"""States in safetensors files: what comes back is the same to the bit."""

from __future__ import annotations

import errno
import math
import os
import random
import resource
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from nnet3.errors import ModelFormatError, Nnet3Error
from nnet3.training.runs import packing
from nnet3.training.runs.packing import (
    check_alike,
    check_can_save,
    load_parts,
    put_together,
    same,
    save_parts,
    take_apart,
)

STATE = {
    "delta": [torch.arange(6.0).view(2, 3).T, torch.tensor(math.nan), torch.zeros(0, 4)],
    "generator": {"torch": torch.Generator().manual_seed(3).get_state(), "python": random.Random(3).getstate()},
    "numbers": (1, 0.1, -0.0, math.inf, None, True, "text", b"\0\xff"),
    ("a", 1): np.arange(4, dtype=np.int64)[::2],
    "numpy": np.float64(0.1),
}


def _save(state: object, path: Path) -> None:
    save_parts(*take_apart(state), path)


def _load(path: Path) -> Any:
    return put_together(*load_parts(path))


def test_others_may_read_it_as_they_may_any_file(tmp_path: Path) -> None:
    (tmp_path / "plain").touch()
    _save(STATE, tmp_path / "x")
    assert (tmp_path / "x").stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_what_is_saved_comes_back(tmp_path: Path) -> None:
    _save(STATE, tmp_path / "x")
    loaded = _load(tmp_path / "x")
    assert same(STATE, loaded)
    assert random.Random().setstate(loaded["generator"]["python"]) is None
    assert isinstance(loaded["a", 1], np.ndarray)
    assert math.copysign(1, loaded["numbers"][2]) == -1


@pytest.mark.parametrize(
    "tree",
    ["", "[]", "{}", '{"dict": 3}', '{"dict": [1]}', '{"dict": [[{"list": []}, 1]]}', '{"list": 3}', '{"bytes": 3}',
     '{"tensor": "x"}', '{"array": []}', '{"what": 3}', "[" * 100_000, "9" * 5000],
)  # fmt: skip
def test_what_is_no_tree_is_refused(tree: str) -> None:
    with pytest.raises(ValueError):
        put_together(tree, {})


@pytest.mark.parametrize(
    ("state", "place"),
    [
        ({"a": "1", "b": 1.0, "c": {"d": []}}, ".a is '1', expected a int"),
        ({"a": True, "b": 1.0}, ".a is True, expected a int"),
        ({"a": 1, "b": None}, ".b is None, expected a float"),
        ({"a": 1, "b": 1.0, "c": {"d": {}}}, ".c.d is {}, expected a list"),
        ({"a": 1, "t": torch.zeros(2)}, ".t is of torch.float32, expected torch.int64"),
        ([], " is [], expected a dict"),
    ],
)
def test_states_of_other_types(state: Any, place: str) -> None:
    example = {"a": 1, "b": 1.0, "c": {"d": []}, "n": None, "t": torch.zeros(1, dtype=torch.int64)}
    check_alike({"a": 2, "b": 1, "c": {"d": [1]}, "n": "x", "t": torch.zeros(3, dtype=torch.int64)}, example)
    with pytest.raises(ValueError) as error:
        check_alike(state, example)
    assert place in str(error.value)


def test_a_state_is_a_copy_without_a_graph() -> None:
    parameter = torch.ones(2, requires_grad=True)
    _, tensors = take_apart([parameter, parameter * 2])
    with torch.no_grad():
        parameter.zero_()
    assert [(tensor.tolist(), tensor.requires_grad) for tensor in tensors.values()] == [
        ([1, 1], False),
        ([2, 2], False),
    ]


def test_tensors_with_the_same_memory(tmp_path: Path) -> None:
    whole = torch.arange(10.0)
    _save([whole[:5], whole[3:], whole], tmp_path / "x")
    assert same(_load(tmp_path / "x"), [whole[:5], whole[3:], whole])


@pytest.mark.parametrize(
    "other", [[torch.tensor(-0.0)], [torch.tensor(0)], [torch.zeros(1)], [0.0], (torch.tensor(0.0),)]
)
def test_differences_are_seen(other: object) -> None:
    assert same([torch.tensor(0.0)], [torch.tensor(0.0)])
    assert not same([torch.tensor(0.0)], other)


def test_what_cannot_be_saved(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="a set cannot be saved"):
        _save({"x": {1}}, tmp_path / "x")


def test_damage_is_one_error(tmp_path: Path) -> None:
    _save(STATE, tmp_path / "x")
    contents = (tmp_path / "x").read_bytes()
    for damaged in (b"", contents[:50], contents[:-1], contents.replace(b"tree", b"tred")):
        (tmp_path / "y").write_bytes(damaged)
        with pytest.raises(ModelFormatError, match="no saved state can be read"):
            _load(tmp_path / "y")


def test_a_full_disk_is_an_error_of_the_system(tmp_path: Path) -> None:
    """A limit on the size of files is the nearest that a test can have everywhere."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, before[1]))
    try:
        with pytest.raises(OSError, match=r"(?i)too large"):
            _save(torch.zeros(10_000), tmp_path / "x")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize(
    ("message", "number"),
    [
        ("I/O error: No space left on device (os error 28)", errno.ENOSPC),
        ("something odd", errno.EIO),
        ("os error x)", errno.EIO),
    ],
)
def test_errors_of_the_system_have_their_numbers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, message: str, number: int
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise packing.SafetensorError(message)

    monkeypatch.setattr(packing, "save_file", fail)
    with pytest.raises(OSError, match="x") as error:
        _save(STATE, tmp_path / "x")
    assert (error.value.errno, error.value.strerror, error.value.filename) == (
        number,
        os.strerror(number),
        str(tmp_path / "x"),
    )


def test_without_safetensors_nothing_is_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    check_can_save()
    monkeypatch.setattr(packing, "_missing", ImportError("no module"))
    with pytest.raises(Nnet3Error, match="checkpoints need safetensors: pip install safetensors"):
        check_can_save()


def test_a_kind_of_value_of_a_later_version() -> None:
    with pytest.raises(ValueError, match="unknown kind of value 'set'"):
        put_together('{"set": []}', {})


def test_equal_bits_of_another_type_are_another_state() -> None:
    zeros = torch.zeros(3)
    assert same([zeros], [zeros.clone()])
    assert not same([zeros], [torch.zeros(3, dtype=torch.int32)])
