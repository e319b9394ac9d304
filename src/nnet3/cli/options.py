"""Options that several verbs share."""

from __future__ import annotations

import math
from typing import Any

import click

# Kaldi's programs take --flag=true and --flag=false.
KALDI_BOOL = click.BOOL

binary_option = click.option(
    "--binary", type=KALDI_BOOL, default=True, show_default=True, help="Write in binary mode (false: text)."
)
seed_option = click.option(
    "--srand", "seed", type=int, default=0, show_default=True, help="Seed of the random initial values."
)
kaldi_option = click.option(
    "--kaldi", type=KALDI_BOOL, default=False, help="Print Kaldi's own lines instead of tables."
)

_TRUTHS = ("true", "false", "t", "f", "yes", "no", "y", "n", "on", "off", "1", "0")


def complete_flags(command: click.Command, arguments: list[str]) -> list[str]:
    """`--flag` becomes `--flag=true`, as Kaldi reads it, unless a truth value comes next."""
    flags = {name for parameter in command.params if parameter.type is KALDI_BOOL for name in parameter.opts}
    completed = []
    for position, argument in enumerate(arguments):
        following = arguments[position + 1].lower() if position + 1 < len(arguments) else ""
        bare = argument in flags and following not in _TRUTHS
        completed.append(f"{argument}=true" if bare else argument)
    return completed


class FiniteFloat(click.FloatRange):
    """A number in a range that is neither infinite nor NaN."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        number = float(super().convert(value, param, ctx))
        if not math.isfinite(number):
            self.fail(f"{value} is not a finite number.", param, ctx)
        return number
