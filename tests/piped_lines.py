"""Lines of Kaldi's programs with pipes, run in this process: what goes through a pipe goes through a file."""

from __future__ import annotations

import itertools
import re
import shlex
from pathlib import Path

from tests.road_case import Ran, run_line

_NUMBERS = itertools.count()
_STREAM = re.compile(r"((?:ark(?:,t)?:)?|--[\w-]+=)-")


def run_piped(line: str) -> list[Ran]:
    """Runs the programs of a line one after the other, in the current folder; `grep -a WORD > FILE` may be the last.

    A quoted `program ... - |` runs first. Returns what each program said.
    """
    words = _words(line)
    stages = [list(stage) for is_pipe, stage in itertools.groupby(words, lambda word: word == "|") if not is_pipe]
    ran, given = list[Ran](), ""
    for number, stage in enumerate(stages):
        if stage[0] == "grep":
            found = [each for each in Path(given).read_text().splitlines(keepends=True) if stage[2] in each]
            Path(stage[4]).write_text("".join(found))
            continue
        inner = [_run_first(word) for word in stage]
        streams = [place for place, word in enumerate(inner) if _STREAM.fullmatch(word)]
        if given:
            place = streams.pop(0)
            inner[place] = inner[place][:-1] + given
        given = f"pipe.{next(_NUMBERS)}" if number + 1 < len(stages) else ""
        if given:
            inner[streams[-1]] = inner[streams[-1]][:-1] + given
        ran.append(run_line(shlex.join(inner)))
    return ran


def _words(line: str) -> list[str]:
    """Splits a line into words; pipes outside of quotes are words."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars="|>")
    lexer.whitespace_split = True
    lexer.commenters = ""
    return list(lexer)


def _run_first(word: str) -> str:
    """Runs a command whose output is read, and returns the name of a file with the output."""
    if not word.endswith("|"):
        return word
    command, name = shlex.split(word.rstrip("|")), f"pipe.{next(_NUMBERS)}"
    assert command[-1] == "-"
    ran = run_line(shlex.join([*command[:-1], name]))
    assert ran.status == 0, ran.err
    return name
