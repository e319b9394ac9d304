"""The verbs, found in the files of verbs/, one for each family. Only files of verbs in use are imported.

A file defines a verb by a name without an underscore in front; the name is the verb's.
"""

from __future__ import annotations

import importlib
import re
from functools import cache
from pathlib import Path

from nnet3.cli import verbs
from nnet3.cli.kaldi_arguments import option_names
from nnet3.cli.verb import Verb

#: The headings of the families by their files, in the order of help.
FAMILIES = {
    "seeing": "See and try",
    "models": "Networks and models",
    "running": "Run and train",
    "examples": "Training examples",
    "chain": "Sequence training (LF-MMI)",
    "aligning": "Alignments",
    "graphs": "Lexicons, graphs and words",
    "lattices": "Lattices",
    "tables": "Tables of vectors and matrices",
}
_DEFINED = re.compile(r"^(?:def )?([a-z]\w*)(?: = |\()", re.MULTILINE)


@cache
def _file_of_verb() -> dict[str, str]:
    """The defining file of each verb, found without an import; verbs in alphabetical order."""
    folder = Path(verbs.__path__[0])
    texts = {file: (folder / f"{file}.py").read_text(encoding="utf-8") for file in FAMILIES}
    found = {name.replace("_", "-"): file for file, text in texts.items() for name in _DEFINED.findall(text)}
    return dict(sorted(found.items()))


def verb_names() -> tuple[str, ...]:
    """The names of all verbs, in alphabetical order."""
    return tuple(_file_of_verb())


def find_verb(name: str) -> Verb:
    """The verb of a known name."""
    module = importlib.import_module(f"{verbs.__name__}.{_file_of_verb()[name]}")
    verb: Verb = getattr(module, name.replace("-", "_"))
    return verb


def find_program(program: str) -> Verb | None:
    """The verb for a program of Kaldi; None without one."""
    name = program.removeprefix("nnet3-")
    found = find_verb(name) if name in verb_names() else None
    return found if found is not None and found.program == program else None


def options_of_verbs() -> set[str]:
    """The long options of all verbs, without dashes."""
    return {option for name in verb_names() for option in option_names(find_verb(name))}


def verbs_by_family() -> dict[str, list[Verb]]:
    """All verbs under the headings of their families."""
    files = _file_of_verb()
    return {heading: [find_verb(name) for name in files if files[name] == file] for file, heading in FAMILIES.items()}
