"""Verbs that decode: their defaults, which are those of Kaldi's programs of their names."""

from __future__ import annotations

import pytest

from nnet3.cli.verb_table import verbs_of_family
from tests.cli.check_options import check_options


@pytest.mark.parametrize("verb", [row.name for row in verbs_of_family("decoding")])
def test_beams_have_the_defaults_of_kaldi(verb: str) -> None:
    beams = {"--beam": (16.0, None), "--lattice-beam": (10.0, None)}
    check_options(verb, beams | {"--max-active": (2147483647, None), "--allow-partial": (False, None)})
