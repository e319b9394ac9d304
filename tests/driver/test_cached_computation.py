"""Computations read from a folder: what is known before the file is read, plans, copies."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from dataclasses import MISSING, fields
from pathlib import Path

import pytest

from nnet3.driver.cache import ComputationCache
from nnet3.driver.cached_computation import _KNOWN, StoredComputation
from nnet3.ir.computation import NnetComputation
from nnet3.runtime import plan_of
from tests.driver.counting_maker import Maker, run


def test_a_plan_in_the_folder_runs_without_the_program(tmp_path: Path) -> None:
    run(ComputationCache(tmp_path).get_or_compile(0, Maker()))
    found = ComputationCache(tmp_path).get_or_compile(0, Maker())
    run(found)
    assert isinstance(found, StoredComputation)
    assert "commands" not in vars(found)


def test_two_threads_read_a_program_at_once(tmp_path: Path) -> None:
    ComputationCache(tmp_path).get_or_compile(0, Maker())
    found = ComputationCache(tmp_path).get_or_compile(0, Maker())
    commands = found.commands
    # As in a thread that found no commands yet, and goes on when another has read them.
    assert StoredComputation.__getattr__(found, "commands") is commands  # type: ignore[arg-type]


def test_a_plan_for_another_dtype_is_added_to_the_folder(tmp_path: Path) -> None:
    plan_of(ComputationCache(tmp_path).get_or_compile(0, Maker()), "float32")
    plan_of(ComputationCache(tmp_path).get_or_compile(0, Maker()), "float64")
    found = ComputationCache(tmp_path).get_or_compile(0, Maker())
    assert found.attachments is not None
    assert sorted(found.attachments) == ["plan float32", "plan float64"]
    assert [plan_of(found, dtype).dtype for dtype in ("float32", "float64")] == ["float32", "float64"]
    assert isinstance(found, StoredComputation)


@pytest.mark.parametrize("twin_of", [copy.deepcopy, lambda c: pickle.loads(pickle.dumps(c)), lambda c: c.copy()])
def test_copies_of_what_is_in_a_folder(twin_of: Callable[[NnetComputation], NnetComputation], tmp_path: Path) -> None:
    plan_of(ComputationCache(tmp_path).get_or_compile(0, Maker(a="b")), "float32")
    found = ComputationCache(tmp_path).get_or_compile(0, Maker())
    twin = twin_of(found)
    assert type(twin) is NnetComputation
    assert twin.fingerprint == {"a": "b"}
    assert twin.commands is not found.commands
    run(twin)


def test_fields_that_are_known_before_the_file_is_read() -> None:
    """A default of the class would be taken for the value in the file."""
    with_default = {field.name for field in fields(NnetComputation) if field.default is not MISSING}
    assert with_default - {"attachments", "member"} <= set(_KNOWN)


# ---- networks that change ----


# ---- real networks ----
