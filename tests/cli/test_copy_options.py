"""The options of `copy` and `am-copy`, and what the library is given for them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import pytest

from nnet3.cli.copy_options import make_copy_options
from nnet3.errors import Nnet3Error
from tests.cli.check_options import check_options, parsed
from tests.cli.run_command import Cli

OPTIONS: dict[str, tuple[Any, Any]] = {
    "--nnet-config": (None, None),
    "--learning-rate": (None, None),
    "--learning-rates": (None, None),
    "--scale": (1.0, None),
    "--edits-config": (None, None),
    "--edits": (None, None),
    "--prepare-for-test": (False, None),
    "--srand": (0, None),
}
NONE: dict[str, Any] = dict.fromkeys(("nnet_config", "learning_rate", "learning_rates", "edits_config", "edits"))


@pytest.mark.parametrize("verb", ["copy", "am-copy"])
def test_defaults_and_bounds(verb: str) -> None:
    check_options(verb, OPTIONS)
    with pytest.raises(click.UsageError, match=r"it must be -1 \(none\) or >= 0, got -0.5"):
        parsed(verb, "--learning-rate=-0.5")


@pytest.mark.parametrize(("given", "expected"), [(None, None), (-1.0, None), (0.0, 0.0), (0.5, 0.5)])
def test_a_learning_rate_of_minus_1_leaves_the_rates(given: float | None, expected: float | None) -> None:
    assert make_copy_options(**NONE | {"learning_rate": given}, seed=0).learning_rate == expected


def test_what_is_not_given_is_nothing(cli: Cli) -> None:
    options = make_copy_options(**NONE, seed=4, scale=0.5)
    assert (options.nnet_config, options.learning_rates, options.edits) == (None, None, [])
    assert (options.seed, options.scale) == (4, 0.5)


def test_texts_know_where_they_are_from(cli: Cli) -> None:
    Path("more.config").write_text("some config\n")
    Path("edits").write_text("some edits\n")
    given = {"nnet_config": "more.config", "edits_config": "edits", "edits": "a;b", "learning_rates": "0.5:0"}
    options = make_copy_options(**NONE | given, seed=0)
    assert options.nnet_config is not None
    assert (options.nnet_config.text, options.nnet_config.source) == ("some config\n", "more.config")
    assert [(each.text, each.source) for each in options.edits] == [("some edits\n", "edits"), ("a\nb", "--edits")]
    assert options.learning_rates == [0.5, 0.0]
    with pytest.raises((Nnet3Error, OSError), match="none"):
        make_copy_options(**NONE | {"edits_config": "none"}, seed=0)


@pytest.mark.parametrize("rates", ["", "x", "0.1:", "0.1:-1", "0.1:inf", "nan"])
def test_learning_rates_are_numbers_from_0_on(rates: str) -> None:
    with pytest.raises(click.UsageError, match="--learning-rates must be numbers >= 0 with colons between"):
        make_copy_options(**NONE | {"learning_rates": rates}, seed=0)
