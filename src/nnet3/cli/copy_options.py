"""The options that `copy` and `am-copy` share, and what they make of them."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import click

from nnet3.cli.options import KALDI_BOOL, read_text
from nnet3.components import UpdatableComponent
from nnet3.nnet import Nnet
from nnet3.nnet.copy_operations import ConfigText, CopyOptions

_OPTIONS = (
    click.option("--nnet-config", metavar="FILE", help="Config that adds or replaces nodes and components."),
    click.option("--learning-rate", type=click.FloatRange(0.0), help="Underlying learning rate of all components."),
    click.option("--learning-rates", metavar="R1:R2:...", help="Actual rates, one for each updatable component."),
    click.option("--scale", type=float, default=1.0, show_default=True, help="Multiply parameters and statistics."),
    click.option(
        "--edits-config", metavar="FILE", help="File of edits, for instance 'rename-node old-name=a new-name=b'."
    ),
    click.option("--edits", metavar="EDITS", help="The same on the command line; ';' separates edits."),
    click.option("--prepare-for-test", type=KALDI_BOOL, default=False, help="Test mode; collapse layers; see below."),
    click.option("--srand", "seed", type=int, default=0, show_default=True, help="Seed of initial values."),
)


def copy_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Decorator: the shared options."""
    for option in reversed(_OPTIONS):
        function = option(function)
    return function


def make_copy_options(
    *,
    nnet_config: str | None,
    learning_rate: float | None,
    scale: float,
    edits_config: str | None,
    edits: str | None,
    prepare_for_test: bool,
    seed: int,
    **others: Any,
) -> CopyOptions:
    """What the library calls these options; `others` are passed on."""
    if not math.isfinite(scale):
        raise click.UsageError(f"--scale must be finite, got {scale}")
    texts = []
    if edits_config is not None:
        texts.append(ConfigText(read_text(edits_config), edits_config))
    if edits is not None:
        texts.append(ConfigText(edits.replace(";", "\n"), "--edits"))
    return CopyOptions(
        nnet_config=None if nnet_config is None else ConfigText(read_text(nnet_config), nnet_config),
        seed=seed,
        learning_rate=learning_rate,
        scale=scale,
        edits=texts,
        prepare_for_test=prepare_for_test,
        **others,
    )


def set_learning_rates(nnet: Nnet, rates: str | None) -> None:
    """Set the actual learning rates from a list with colons between, in the order of the updatable components."""
    if rates is None:
        return
    components = {name: c for name, c in nnet.components.items() if isinstance(c, UpdatableComponent)}
    try:
        values = [float(rate) for rate in rates.split(":")]
    except ValueError:
        raise click.UsageError(f"--learning-rates must be numbers with colons between, got '{rates}'") from None
    if len(values) != len(components) or not all(math.isfinite(value) and value >= 0 for value in values):
        names = ", ".join(components)
        message = f"--learning-rates must be {len(components)} rates >= 0 (for {names}), got {len(values)}: '{rates}'"
        raise click.UsageError(message)
    for component, value in zip(components.values(), values, strict=True):
        component.set_actual_learning_rate(value)
