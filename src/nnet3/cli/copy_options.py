"""The common options of `copy` and `am-copy`, and their conversion."""

from __future__ import annotations

import math
from typing import Any

import click

from nnet3.base.text.values import at_least, either
from nnet3.cli import later
from nnet3.cli.options import all_of, flag, number, seed_option

copy_options = all_of(
    click.option("--nnet-config", metavar="FILE", help="Config that adds or replaces nodes and components."),
    number("--learning-rate", rule=either(-1, at_least(0)), help="Underlying learning rate of all components."),
    click.option("--learning-rates", metavar="R1:R2:...", help="Actual rates, one for each updatable component."),
    number("--scale", default=1.0, help="Multiply parameters and statistics."),
    click.option(
        "--edits-config", metavar="FILE", help="File of edits, for instance 'rename-node old-name=a new-name=b'."
    ),
    click.option("--edits", metavar="EDITS", help="The same on the command line; ';' separates edits."),
    flag("--prepare-for-test", help="Test mode; collapse layers; see above."),
    seed_option,
)


def make_copy_options(
    *,
    nnet_config: str | None,
    learning_rates: str | None,
    edits_config: str | None,
    edits: str | None,
    seed: int,
    learning_rate: float | None,
    **others: Any,
) -> later.copy_operations.CopyOptions:
    """Makes the library's options of those of a command line; `others` are passed on."""
    texts = []
    if edits_config is not None:
        texts.append(_config_text(edits_config))
    if edits is not None:
        texts.append(later.copy_operations.ConfigText(edits.replace(";", "\n"), "--edits"))
    return later.copy_operations.CopyOptions(
        nnet_config=None if nnet_config is None else _config_text(nnet_config),
        seed=seed,
        learning_rate=None if learning_rate == -1 else learning_rate,
        learning_rates=_rates(learning_rates),
        edits=texts,
        **others,
    )


def _config_text(name: str) -> later.copy_operations.ConfigText:
    return later.copy_operations.ConfigText(later.files.read_text(name), name)


def _rates(text: str | None) -> list[float] | None:
    if text is None:
        return None
    try:
        rates = [float(rate) for rate in text.split(":")]
    except ValueError:
        rates = []
    if not rates or not all(math.isfinite(rate) and rate >= 0 for rate in rates):
        raise click.UsageError(f"--learning-rates must be numbers >= 0 with colons between, got '{text}'")
    return rates
