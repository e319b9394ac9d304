"""Tests of what every type of component keeps to: its test file gives the data, `component_contract` the checks."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import pytest

from nnet3 import components
from nnet3.components import Component
from tests.components.component_text import check_config_error, check_file_error, check_round_trip, to_text
from tests.components.finite_differences import check_derivatives, check_in_place

Make = Callable[[], Component]
#: The rows of a component and the indexes that its kernels get.
Rows = Callable[[Component], tuple["int | tuple[int, int]", Any]]


def component_contract(
    type_name: str,
    good: Iterable[str | Make] = (),
    bad_configs: Iterable[tuple[str, ...]] = (),
    bad_files: Iterable[tuple[str, ...]] = (),
    *,
    rows: int | tuple[int, int] | Rows = 9,
    file: str = "",
    more_files: Iterable[Make] = (),
) -> type:
    """Returns a class of tests; pytest finds it under a name that begins with `Test`.

    - `good`: configs (or functions that make a component) whose derivatives agree with finite differences at `rows`
      rows, in place too where that is promised, and whose files are read back as they were written, in both forms;
      `more_files`: components of which only the files are looked at.
    - `bad_configs`: (config, part of the message) or (config, part of the message, text under the caret).
    - `bad_files`: (text, part of the message), the text whole or without the type's tags; or (old, new, part of the
      message), a change of `file`, which is the text form of a good component.
    """
    makers = [_maker(type_name, given) for given in good]
    written = [*makers, *more_files]
    tests: dict[str, Any] = {}

    def test_derivatives(self: object, make: Make) -> None:
        component = make()
        size, indexes = rows(component) if callable(rows) else (rows, None)
        check_derivatives(component, size, indexes)
        if isinstance(size, int) and indexes is None:
            check_in_place(component, size)

    def test_what_is_written_is_read_back(self: object, make: Make) -> None:
        check_round_trip(make())

    def test_bad_config(self: object, config: str, message: str, caret: str) -> None:
        check_config_error(type_name, config, message, caret)

    def test_bad_file(self: object, text: str, message: str) -> None:
        check_file_error(text, message)

    if makers:
        tests["test_derivatives"] = pytest.mark.parametrize("make", makers, ids=_name)(test_derivatives)
    if written:
        tests["test_what_is_written_is_read_back"] = pytest.mark.parametrize("make", written, ids=_name)(
            test_what_is_written_is_read_back
        )
    if configs := [(*case, "")[:3] for case in bad_configs]:
        tests["test_bad_config"] = pytest.mark.parametrize(("config", "message", "caret"), configs)(test_bad_config)
    if texts := [_bad_text(type_name, file, case) for case in bad_files]:
        tests["test_bad_file"] = pytest.mark.parametrize(("text", "message"), texts)(test_bad_file)
    return type(f"Test{type_name}", (), tests)


def written(type_name: str, config: str, **changes: Any) -> str:
    """Returns the text form of a component with attributes changed: tensors are filled, other values are set."""
    component = components.create(type_name, config)
    for name, value in changes.items():
        getattr(component, name)[:] = value
    return to_text(component)


def _maker(type_name: str, given: str | Make) -> Make:
    if callable(given):
        return given

    def make() -> Component:
        return components.create(type_name, given, seed=1)

    make.__name__ = given.replace(" ", ",") or "defaults"
    return make


def _name(make: Any) -> str:
    if isinstance(make, partial):
        return "-".join(str(argument).replace(" ", ",") for argument in (make.func.__name__, *make.args))
    return str(make.__name__).replace("<lambda>", "made")


def _bad_text(type_name: str, file: str, case: tuple[str, ...]) -> tuple[str, str]:
    if len(case) == 2:
        text, message = case
        return (text if text.startswith(f"<{type_name}>") else f"<{type_name}> {text} </{type_name}> "), message
    old, new, message = case
    assert old in file, f"{old!r} is not in the file of {type_name}"
    return file.replace(old, new), message
