"""Verbs that treat all kinds of examples alike: options, tables, help, Kaldi's names."""

from __future__ import annotations

import pytest

from nnet3.cli.verb import find_program, find_verb
from nnet3.cli.verb_table import VERBS
from tests.cli.check_options import check_ignored, check_options, parsed


@pytest.mark.parametrize(("prefix", "size"), [("", "256"), ("chain-", "64")])
def test_options_have_defaults_and_bounds(prefix: str, size: str) -> None:
    check_options(f"{prefix}merge-egs", {"--minibatch-size": (size, None), "--compress": (False, None)})
    check_ignored(f"{prefix}merge-egs", "--measure-output-frames=false", "--discard-partial-minibatches=true")
    check_options(f"{prefix}shuffle-egs", {"--srand": (0, None), "--buffer-size": (0, 0)})
    taking = {"--srand": (0, None), "--n": (1000, 1), "--randomize-order": (True, None)}
    check_options(f"{prefix}subset-egs", taking)


@pytest.mark.parametrize("prefix", ["", "chain-"])
@pytest.mark.parametrize(
    ("action", "summary"),
    [
        ("merge", "merge {} examples into minibatches"),
        ("shuffle", "put {} examples into random order"),
        ("subset", "take some {} examples at random"),
    ],
)
def test_what_they_are_called_and_what_they_say(prefix: str, action: str, summary: str) -> None:
    name, adjective = f"{prefix}{action}-egs", "chain" if prefix else "training"
    verb = find_verb(name)
    assert verb.name == name
    assert VERBS[name].family == ("chain" if prefix else "examples")
    assert verb.short_help == summary.format(adjective)
    assert find_program(f"nnet3-{name}") is verb
    assert verb.help is not None
    assert f" {adjective} examples" in verb.help
    assert f"nnet3 {name} " in verb.help
    assert f" ark:{'cegs' if prefix else 'egs'}.ark ark:" in verb.help.replace("\\\n    ", "")
    assert "{" not in verb.help
    given = parsed(name)
    assert (given["examples"], given["output"]) == ("a", "a")
