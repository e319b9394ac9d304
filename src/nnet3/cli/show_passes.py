"""Prints what each pass of the optimizer changes: `show-computation --passes`."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterator

import click

from nnet3.ir.computation import NnetComputation
from nnet3.ir.passes.pipeline import optimize
from nnet3.ir.printer import format_command
from nnet3.runtime.plan import Plan
from nnet3.runtime.planner import plan

_LINES_AROUND = 1


def show_passes(
    computation: NnetComputation, disabled: Collection[str], level: int, max_lines: int | None
) -> NnetComputation:
    """Run the passes; print commands, calls and memory before and after each, and at most `max_lines` of its changes.

    Changes are lines of commands: `-` for one that has gone, `+` for a new one. Returns the optimized computation.
    """
    before, sizes = computation, plan(computation)

    def show(name: str, after: NnetComputation) -> None:
        nonlocal before, sizes
        if after is before:
            click.echo(f"pass {name or 'unroll'}: nothing to do") if name else None
            return
        old, sizes = sizes, plan(after)
        click.echo(f"pass {name or 'unroll'}: {_sizes(before, old, after, sizes)}")
        changes = list(_changes(before, after))
        for line in changes[:max_lines]:
            click.echo(f"  {line}")
        if max_lines is not None and len(changes) > max_lines:
            click.echo(f"  ... and {len(changes) - max_lines} more lines")
        before = after

    return optimize(computation, disabled, check_between=True, dump=show, level=level)


def _sizes(before: NnetComputation, old: Plan, after: NnetComputation, new: Plan) -> str:
    counts = (
        ("commands", len(before.commands), len(after.commands)),
        ("calls", old.num_calls, new.num_calls),
        ("bytes", old.num_bytes, new.num_bytes),
    )
    return ", ".join(f"{a:,} -> {b:,} {what}" if a != b else f"{a:,} {what}" for what, a, b in counts)


def _changes(before: NnetComputation, after: NnetComputation) -> Iterator[str]:
    """Yields the commands that go and come, with a line around them, without their numbers."""
    old, new = ([format_command(each, command) for command in each.commands] for each in (before, after))
    found = difflib.unified_diff(old, new, n=_LINES_AROUND, lineterm="")
    return (line for number, line in enumerate(found) if number > 1 and not line.startswith("@@"))
