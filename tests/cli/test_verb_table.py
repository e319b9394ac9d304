"""The table of verbs and the files of verbs say the same."""

from __future__ import annotations

import importlib
from typing import NamedTuple

from nnet3.cli import verb_table
from nnet3.cli.verb import Verb, find_program, find_verb
from nnet3.cli.verb_table import FAMILIES, FIRST_VERBS, VERBS, verbs_of_family


class Said(NamedTuple):
    """What a verb says of itself."""

    name: str | None
    program: str
    summary: str | None


def _verbs_of_file(family: str) -> list[Verb]:
    module = importlib.import_module(f"nnet3.cli.verbs.{family}")
    public = {name: value for name, value in vars(module).items() if isinstance(value, Verb)}
    assert all((verb.name or "").replace("-", "_") == name for name, verb in public.items())
    return list(public.values())


def test_every_verb_of_a_file_is_a_row_of_the_table_and_every_row_a_verb() -> None:
    for family in FAMILIES:
        found = {Said(verb.name, verb.program, verb.short_help) for verb in _verbs_of_file(family)}
        assert found == {Said(row.name, row.program, row.summary) for row in VERBS.values() if row.family == family}
    assert {row.family for row in VERBS.values()} == set(FAMILIES)
    assert [row for family in FAMILIES for row in verbs_of_family(family)] == sorted(
        VERBS.values(), key=lambda row: [*FAMILIES].index(row.family)
    )
    assert set(FIRST_VERBS) < set(VERBS)


def test_names_and_programs_are_given_once() -> None:
    assert len(VERBS) == len(verb_table._TABLE)
    programs = [row.program for row in VERBS.values() if row.program]
    assert len(set(programs)) == len(programs)
    assert list(VERBS) == sorted(VERBS)


def test_verbs_are_found_by_name_and_by_program() -> None:
    for row in VERBS.values():
        verb = find_verb(row.name)
        assert (verb.name, verb.program, verb.short_help) == (row.name, row.program, row.summary)
        assert find_program(row.program) is (verb if row.program else None)
    assert find_program("nnet3-no-such") is find_program("") is None
