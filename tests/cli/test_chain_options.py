"""Options of the objective of sequence training: their defaults are Kaldi's, and each gets to the objective."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import pytest

from cli.declared import check_ignored, check_options, parsed
from nnet3.train.chain import ChainOptions

OPTIONS: dict[str, tuple[Any, Any]] = {
    "--leaky-hmm-coefficient": (1e-5, 0),
    "--xent-regularize": (0.0, 0),
    "--l2-regularize": (0.0, 0),
    "--out-of-range-regularize": (0.01, 0),
    "--lwf-den-scale": (0.0, 0),
}


@pytest.mark.parametrize("verb", ["chain-train", "chain-compute-prob", "chain-combine"])
def test_defaults_and_bounds(verb: str) -> None:
    check_options(verb, OPTIONS)
    check_ignored(verb, "--numerator-graph-threads=4")
    given = parsed(verb)
    assert ChainOptions(**{field.name: given[field.name] for field in fields(ChainOptions)}) == ChainOptions()
