"""Options of the compiler on command lines."""

from __future__ import annotations

from typing import Any

import click
import pytest

from nnet3.cli.compute_options import PASSES_OF_SWITCHES, take_compile_options
from nnet3.cli.kaldi_arguments import INTERNALS
from nnet3.engine.ir.passes.pipeline import PIPELINE
from nnet3.options import CompileOptions


def taken(**internals: Any) -> tuple[CompileOptions, dict[str, Any]]:
    """The options, and what is left."""
    given = {f"optimization.{name.replace('_', '-')}": value for name, value in internals.items()}
    command = click.Command("any", callback=take_compile_options)
    with click.Context(command) as context:
        context.meta["nnet3.internals"] = given
        return context.invoke(command), given


@pytest.mark.parametrize(
    ("internals", "disabled"),
    [
        ({}, set()),
        ({"propagate_in_place": False}, {"work_in_place"}),
        ({"backprop_in_place": False, "remove_assignments": True}, {"work_in_place"}),
        ({"remove_assignments": False, "move_sizing_commands": False}, {"share_copies", "move_sizing"}),
        ({"allow_left_merge": False}, set()),
        ({"allow_left_merge": False, "allow_right_merge": False}, {"share_copies", "work_in_place"}),
        ({"memory_compression_level": 0}, {"compress_signs"}),
        ({"memory_compression_level": 1}, set()),
        ({"disable_pass": "dead_code,hoist_products"}, {"dead_code", "hoist_products"}),
    ],
)
def test_switches_leave_out_passes(internals: dict[str, Any], disabled: set[str]) -> None:
    assert taken(**internals) == (CompileOptions(disabled_passes=frozenset(disabled)), {})


def test_levels_and_what_has_no_pass_here() -> None:
    assert taken(level=1, optimize=False)[0] == CompileOptions(optimize=False, level=1)
    for switch in ("snip_row_ops", "initialize_undefined"):
        assert taken(**{switch: False}) == (CompileOptions(), {f"optimization.{switch.replace('_', '-')}": False})


def test_switches_and_passes_are_there() -> None:
    assert {f"optimization.{name}" for name in PASSES_OF_SWITCHES} <= set(INTERNALS)
    assert {name for names in PASSES_OF_SWITCHES.values() for name in names} <= {each.name for each in PIPELINE}
