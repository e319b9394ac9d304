"""Finds verbs by the names and programs of the table. Only files of verbs in use are imported."""

from __future__ import annotations

import importlib

from nnet3.cli import verbs
from nnet3.cli.kaldi_arguments import option_names
from nnet3.cli.verb import Verb
from nnet3.cli.verb_table import FAMILIES, VERBS


def find_verb(name: str) -> Verb:
    """The verb of a known name."""
    module = importlib.import_module(f"{verbs.__name__}.{VERBS[name].family}")
    verb: Verb = getattr(module, name.replace("-", "_"))
    return verb


def find_program(program: str) -> Verb | None:
    """The verb for a program of Kaldi; None without one."""
    name = next((listed.name for listed in VERBS.values() if listed.program == program != ""), None)
    return None if name is None else find_verb(name)


def options_of_verbs() -> set[str]:
    """The long options of all verbs, without dashes."""
    return {option for name in VERBS for option in option_names(find_verb(name))}


def verbs_by_family() -> dict[str, list[Verb]]:
    """All verbs under the headings of their families."""
    return {
        heading: [find_verb(listed.name) for listed in VERBS.values() if listed.family == family]
        for family, heading in FAMILIES.items()
    }
