"""Write docs/verbs.md: all verbs, from their declarations."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import click

from nnet3.cli.verb import Verb, find_verb
from nnet3.cli.verb_table import FAMILIES, verbs_of_family

PAGE = Path(__file__).resolve().parents[1] / "docs" / "verbs.md"
INTRODUCTION = """\
# Verbs

This page is written by `make verbs` from what the verbs declare; on the site it has their options too.
`nnet3 help FAMILY` lists a family, `nnet3 VERB --help` explains a verb. Where Kaldi has a program for it, its name
stands beside the verb, and is on the path too. Exit status 0 is good, 1 a mistake in the input (one message on
stderr), 2 wrong usage.
"""


def page(*, with_help: bool = False) -> str:
    """The tables, and with the help of each verb what the site shows."""
    families = {
        f"{heading} ({family})": [find_verb(listed.name) for listed in verbs_of_family(family)]
        for family, heading in FAMILIES.items()
    }
    lines = [INTRODUCTION]
    for family, verbs in families.items():
        lines += [f"## {family}", "", "| verb | Kaldi's program | what it does |", "|---|---|---|"]
        for verb in verbs:
            name = f"[{verb.name}](#{verb.name}-verb)" if with_help else f"`{verb.name}`"
            lines.append(f"| {name} | {_code(verb.program)} | {verb.short_help} |")
        lines.append("")
    if not with_help:
        return "\n".join(lines)
    lines.append("## Each with its options")
    for verbs in families.values():
        for verb in verbs:
            lines += ["", f"({verb.name}-verb)=", f"### {verb.name}", "", "```text", *_help(verb), "```"]
    return "\n".join(lines) + "\n"


def _help(verb: Verb) -> Iterator[str]:
    """The help of a verb without the options that all have, which stand at its end."""
    context = click.Context(verb, info_name=f"nnet3 {verb.name}", terminal_width=100, max_content_width=100)
    text = verb.get_help(context).partition("\nOptions of all verbs, as in Kaldi:")[0]
    yield from text.rstrip().splitlines()


def _code(text: str) -> str:
    return f"`{text}`" if text else ""


if __name__ == "__main__":
    PAGE.write_text(page())
    sys.exit(0)
