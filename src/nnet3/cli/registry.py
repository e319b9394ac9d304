"""The verbs, found where they are: each file of verbs/ declares one. Only what is asked for is imported."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache

from nnet3.cli import verbs
from nnet3.cli.kaldi_arguments import option_names
from nnet3.cli.verb import FAMILIES, Verb


@cache
def verb_names() -> tuple[str, ...]:
    """The names of all verbs, in alphabetical order."""
    return tuple(sorted(module.name.replace("_", "-") for module in pkgutil.iter_modules(verbs.__path__)))


def find_verb(name: str) -> Verb:
    """The verb of a name that there is."""
    command: Verb = importlib.import_module(f"{verbs.__name__}.{name.replace('-', '_')}").command
    return command


def find_program(program: str) -> Verb | None:
    """The verb that does what a program of Kaldi does, if there is one."""
    name = program.removeprefix("nnet3-")
    found = find_verb(name) if name in verb_names() else None
    return found if found is not None and found.program == program else None


def options_of_verbs() -> set[str]:
    """The long options of all verbs, without dashes."""
    return {option for name in verb_names() for option in option_names(find_verb(name))}


def verbs_by_family() -> dict[str, list[Verb]]:
    """All verbs under the headings of their families."""
    found = [find_verb(name) for name in verb_names()]
    return {family: [verb for verb in found if verb.family == family] for family in FAMILIES}
