"""Options of verbs that copy training examples: their defaults are Kaldi's."""

from __future__ import annotations

import pytest

from tests.cli.check_options import check_options, parsed


@pytest.mark.parametrize("verb", ["copy-egs", "chain-copy-egs"])
def test_options_of_copying_have_defaults_and_bounds(verb: str) -> None:
    check_options(
        verb,
        {
            "--random": (False, None),
            "--keep-proportion": (1.0, 0),
            "--srand": (0, None),
            "--frame-shift": (0, None),
            "--left-context": (-1, -1),
            "--right-context": (-1, -1),
            "--weights": (None, None),
            "--outputs": (None, None),
        },
    )
    given = parsed(verb, "b", "c")
    assert (given["examples"], given["outputs_to_write"]) == ("b", ("c", "a", "a"))


def test_options_of_normalizing_have_defaults_and_bounds() -> None:
    check_options("chain-normalize-egs", {"--normalization-fst-scale": (1.0, 0)})


def test_ivectors_have_two_names() -> None:
    for option in ("--online-ivectors", "--ivectors"):
        assert parsed("get-egs", f"{option}=ark:b")["online_ivectors"] == "ark:b"
