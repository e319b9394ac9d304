"""Verbs of alignments: what goes together, and the two kinds of training graphs."""

from __future__ import annotations

import click
import pytest

from nnet3.cli.verb import find_verb
from tests.cli.run_command import Cli


@pytest.mark.parametrize(
    "forms", [("--per-frame", "--write-lengths"), ("--per-frame", "--ctm-output"), ("--write-lengths", "--ctm-output")]
)
def test_phones_are_written_in_one_form(cli: Cli, forms: tuple[str, ...]) -> None:
    outcome = cli("ali-to-phones", *forms, "final.mdl", "ark:ali", "ark:out")
    assert outcome.status == 2
    assert "give one of --per-frame, --write-lengths and --ctm-output" in outcome.err


@pytest.mark.parametrize(
    ("name", "given"), [("compile-train-graphs", "TRANSCRIPTS"), ("compile-train-graphs-fsts", "FSTS")]
)
def test_training_graphs_are_made_of_transcripts_or_of_fsts(cli: Cli, name: str, given: str) -> None:
    verb = find_verb(name)
    assert (verb.name, verb.program) == (name, name)
    assert [p.make_metavar(click.Context(verb)) for p in verb.params if isinstance(p, click.Argument)] == [
        *("TREE", "MODEL", "LEXICON-FST"),
        *(f"{given}-RSPECIFIER", "GRAPHS-WSPECIFIER"),
    ]
    assert f"nnet3 {name} tree final.mdl" in cli.good(name, "--help").out
