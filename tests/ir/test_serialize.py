"""Computations as plain data: exact both ways, and one clear error for anything else."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable
from dataclasses import fields
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

from nnet3.engine.ir import commands as cmd
from nnet3.engine.ir.computation import NnetComputation
from nnet3.engine.ir.declarations import COMMAND_CLASSES
from nnet3.engine.ir.kernel import InputPromises, KernelInfo
from nnet3.engine.ir.program_tables import MatrixInfo
from nnet3.engine.ir.serialize import VERSION, from_data, to_data
from nnet3.errors import ModelFormatError
from tests.call_count import count_calls
from tests.effort import draws
from tests.ir.programs import index_table, multi_table, range_table, recurrence, training_step
from tests.ir.random_programs import programs


def there_and_back(computation: NnetComputation) -> NnetComputation:
    header, arrays = to_data(computation)
    return from_data(json.loads(json.dumps(header)), arrays)


def check_equal(a: NnetComputation, b: NnetComputation) -> None:
    for name in ("matrices", "submatrices", "outside", "kernels", "inputs", "outputs", "commands", "num_memos"):
        assert getattr(a, name) == getattr(b, name), name
    assert a.need_model_derivative == b.need_model_derivative
    assert a.fingerprint == b.fingerprint
    for name in ("index_tables", "multi_tables", "range_tables"):
        for one, other in zip(getattr(a, name), getattr(b, name), strict=True):
            assert one.dtype == other.dtype
            assert np.array_equal(one, other)
    assert list(a.matrix_info) == list(b.matrix_info)
    for one, other in zip(a.matrix_info.values(), b.matrix_info.values(), strict=True):
        assert (one.node, one.is_deriv) == (other.node, other.is_deriv)
        assert np.array_equal(one.indexes, other.indexes) if one.indexes is not None else other.indexes is None
    for one, other in zip(a.precomputed, b.precomputed, strict=True):
        assert (one is None) == (other is None)
        assert dict(one or {}).keys() == dict(other or {}).keys()
        assert all(np.array_equal(array, other[name]) for name, array in (one or {}).items())


def _everything() -> NnetComputation:
    c = training_step()
    c.new_outside("W", 5, 40, False, MatrixInfo("W", False, None))
    c.precomputed += [{"rows": np.arange(5), "scale": np.array(0.5, np.float32)}, {}]
    multi_table(c, [(1, 0), (-1, -1)])
    range_table(c, [(0, 3)])
    index_table(c, [])
    c.num_memos = 3
    c.fingerprint = {"structure": "abc"}
    c.commands += [cmd.MatrixAdd(1, 2, 1 / 3), cmd.CompressMatrix(1), cmd.Propagate(3, "p", (1, 2), 3, 1, 2)]
    return c


@pytest.mark.parametrize("make", [NnetComputation, training_step, lambda: recurrence(3), _everything])
def test_there_and_back(make: Callable[[], NnetComputation]) -> None:
    check_equal(there_and_back(make()), make())
    assert str(there_and_back(make())) == str(make())


@settings(max_examples=draws(30))
@given(programs())
def test_random_programs_there_and_back(computation: NnetComputation) -> None:
    check_equal(there_and_back(computation), computation)


def test_index_tables_that_are_equal_are_stored_once() -> None:
    _, arrays = to_data(training_step())
    assert len(arrays["indexes"]) == 6 + 4


def test_a_class_that_cannot_be_found_again() -> None:
    c = training_step()
    c.commands.append(type("MatrixAdd", (cmd.Command,), {"__module__": __name__, "__annotations__": {}})())
    try:
        cmd.Command.__init_subclass__.__func__(cmd.MatrixAdd)
        with pytest.raises(TypeError, match="another class of commands is called MatrixAdd"):
            to_data(c)
    finally:
        assert cmd.MatrixAdd.schema.names == ("dest", "source", "scale")


def _damage(header: dict[str, Any], arrays: dict[str, np.ndarray], key: str, value: Any) -> None:
    (header if key in header else arrays)[key] = value


DAMAGE = {
    "format": ("format", "something else", "this is no stored computation"),
    "version": ("version", 0, "has version 0, expected 13: compile it again"),
    "unknown command": ("classes", [["Explode", 1]], "damaged .KeyError"),
    "counts": ("classes", [], "damaged"),
    "order": ("commands.order", np.full(33, 99), "damaged"),
    "negative order": ("commands.order", np.full(33, -1), "damaged"),
    "too few numbers": ("commands.integers", np.zeros(3, int), "too few numbers"),
    "too many reals": ("commands.reals", np.zeros(99), "more than its commands need"),
    "too few reals": ("commands.reals", np.zeros(0), "too few real numbers"),
    "sub-matrices elsewhere": ("submatrices", np.full((11, 6), 7), "damaged .sub-matrix 1"),
    "no sub-matrices": ("submatrices", np.zeros((1, 6), int), "expected 1 to 0"),
    "float sub-matrices": ("submatrices", np.zeros((11, 6)), "expected integers"),
    "matrices of no size": ("matrices", np.append([[0, 0]], np.full((10, 2), -5), axis=0), "it has no elements"),
    "kernels": ("kernels", [{"name": "x"}], "a kernel with the fields"),
    "no kernels": ("kernels", [], "kernel 0 to 1, expected 0 to -1"),
    "io": ("inputs", [["input", "1", 0]], "expected int, got '1'"),
    "io elsewhere": ("outputs", [["output", 99, 0]], "in a sub-matrix that does not exist"),
    "memos": ("num_memos", -7, "memo -1 to -1, expected -1 to -8"),
    "texts": ("texts", [], "damaged"),
    "info": ("info", [[77, "x", True, -1]], "information about matrix 77"),
    "info table": ("info", [[1, "x", True, 55]], "damaged"),
    "lengths": ("index_tables.lengths", np.array([1, 2]), "lengths of its tables do not fit"),
    "negative lengths": ("index_tables.lengths", np.array([11, -1]), "lengths of its tables do not fit"),
    "multi tables": ("multi_tables.lengths", None, "damaged"),
    "array of nothing": ("matrices", np.zeros((0, 2), int), "damaged"),
    "missing": ("precomputed", [None, ["rows"]], "damaged .KeyError"),
    "list": ("outside", [1, 2], "damaged"),
}


@pytest.mark.parametrize(("key", "value", "message"), DAMAGE.values(), ids=DAMAGE.keys())
def test_damage_is_one_clear_error(key: str, value: Any, message: str) -> None:
    header, arrays = to_data(training_step())
    _damage(header, arrays, key, value)
    with pytest.raises(ModelFormatError, match=message):
        from_data(header, arrays)


@pytest.mark.parametrize("key", sorted({*to_data(training_step())[0], *to_data(training_step())[1]}))
def test_missing_and_strange_entries(key: str) -> None:
    for value in (None, "x", 7.5, [[]], np.array([[1.5]])):
        header, arrays = to_data(training_step())
        _damage(header, arrays, key, value)
        with pytest.raises(ModelFormatError):
            from_data(header, arrays)
        header.pop(key, None)
        arrays.pop(key, None)
        with pytest.raises(ModelFormatError):
            from_data(header, arrays)


@pytest.mark.parametrize("key", sorted(to_data(training_step())[1]))
def test_arrays_of_another_shape(key: str) -> None:
    header, arrays = to_data(training_step())
    array = arrays[key]
    shapes = [array[:, np.newaxis]] if array.ndim == 1 else [array[:, :-1], np.concatenate([array, array], axis=1)]
    for changed in shapes:
        with pytest.raises(ModelFormatError, match=r"expected integers|expected .* columns|damaged|numbers"):
            from_data(header, {**arrays, key: changed})


def test_random_damage_is_refused_or_harmless() -> None:
    rng = np.random.default_rng(0)
    for _ in range(200):
        header, arrays = to_data(recurrence(3))
        name = rng.choice([name for name, array in arrays.items() if array.size])
        arrays[name] = arrays[name].copy()
        arrays[name].flat[rng.integers(arrays[name].size)] = rng.integers(-(2**31), 2**31)
        try:
            str(from_data(header, arrays))
        except ModelFormatError:
            continue


def test_reading_makes_a_few_calls_for_each_command() -> None:
    header, arrays = to_data(recurrence(700))
    assert count_calls(from_data, header, arrays) < 8 * len(arrays["commands.order"])


def test_other_fields_have_another_version() -> None:
    """Caches find the files of their version: those with other fields would be found, and be called damaged."""
    own = {name: each for name, each in COMMAND_CLASSES.items() if each.__module__.startswith("nnet3.")}
    commands = [(name, *(field.name for field in own[name].schema.fields)) for name in sorted(own)]
    kernels = [(each.__name__, *(field.name for field in fields(each))) for each in (KernelInfo, InputPromises)]
    assert (VERSION, zlib.crc32(repr([*kernels, *commands]).encode())) == (13, 1140858043), "give it a new version"
