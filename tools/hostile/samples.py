"""A command line of each verb that succeeds, with the folder in which it does, out of a list of command lines."""

from __future__ import annotations

import fcntl
import itertools
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from nnet3.cli.verb import find_program
from tests.cli.prepared_programs import ask
from tools.command_lines.inputs import make_inputs
from tools.command_lines.running import FOR_A_SHELL, QUOTED
from tools.hostile.harm import Harm

PLACE = "tools.hostile.harm:harmed"
_BETWEEN = re.compile(r"""('[^']*'|"[^"]*")|&&|;""")
_LOOP = re.compile(r"(for .*?\bdone\b[^;]*);(.*)")
_BEFORE_PIPE = re.compile(r"""('[^']*'|"[^"]*"|[^|])*""")
_WITHIN_WORDS = re.compile(r"(?<=[\w=])#")  # what a shell takes as it is
_PATHS = re.compile(r"[^\s=:,|]+")
_PIPE = 1 << 20
_OF_USAGE = ("help", "usage", "global-options")  # groups of command lines that need not be tried
_ENOUGH = 4  # command lines of a verb that succeed and write nothing: it writes to standard output alone
_LONGEST = 120.0  # seconds of what prepares

Contents = dict[str, bytes]
"""What lies in a folder by path: the bytes of files, `-> target` of links."""


@dataclass(frozen=True)
class Outcome:
    """How a program has ended: its status, None if it was killed, and what it has printed."""

    status: int | None
    out: bytes
    err: str


@dataclass(frozen=True)
class Sample:
    """A command line: its words, and by path what lies in the folder before, and what it makes there.

    What it makes is None where two runs differ; `sizes` are the bytes of each.
    """

    words: tuple[str, ...]
    folder: Path
    made: Mapping[str, bytes | None] = field(default_factory=dict)
    outcome: Outcome = field(default_factory=lambda: Outcome(0, b"", ""))
    sizes: tuple[int, ...] = ()

    @property
    def verb(self) -> str:
        return self.words[0]

    def paths(self) -> list[str]:
        """Returns the paths that its words name, of what is there before and of what is made."""
        named = [path for word in self.words[1:] for path in _PATHS.findall(word)]
        folders = {str(parent) for path in self.made for parent in Path(path).parents} - {"."}
        return [path for path in dict.fromkeys(named) if path in self.made or path in folders or self.has(path)]

    def has(self, path: str) -> bool:
        return os.path.lexists(self.folder / path)


class Programs:
    """Runs `nnet3`, which a server has loaded already."""

    def __init__(self, programs: Path):
        self._address = str(programs.parent / "socket")

    def run(self, words: tuple[str, ...], folder: Path, harm: Harm, out: str = "") -> Outcome:
        """Runs it in a folder; its standard output goes to `out`, or into the outcome."""
        environment = {**os.environ, **harm.variables()}
        with open(os.devnull, "rb") as nothing, open(out, "wb") if out else _Pipe() as printed, _Pipe() as err:
            files: list[int | None] = [nothing.fileno(), printed.fileno(), err.fileno()]
            status = ask(self._address, PLACE, ["nnet3", *words], str(folder), environment, files)
            shown = printed.contents() if isinstance(printed, _Pipe) else b""
            return Outcome(status, shown, err.contents().decode(errors="replace"))


class _Pipe:
    """What is printed into it is of no file, whose size may be limited. A program waits that prints a megabyte."""

    def __enter__(self) -> _Pipe:
        self._end, self._begin = os.pipe()
        fcntl.fcntl(self._begin, fcntl.F_SETPIPE_SZ, _PIPE)
        os.set_blocking(self._end, False)
        return self

    def __exit__(self, *error: object) -> None:
        os.close(self._end)
        os.close(self._begin)

    def fileno(self) -> int:
        return self._begin

    def contents(self) -> bytes:
        try:
            return os.read(self._end, _PIPE)
        except BlockingIOError:
            return b""


def contents(folder: Path) -> Contents:
    """Returns what lies in a folder, empty folders left out."""
    places = [Path(place, name) for place, names, files in os.walk(folder) for name in (*names, *files)]
    return {str(path.relative_to(folder)): _bytes(path) for path in places if path.is_symlink() or not path.is_dir()}


def _bytes(path: Path) -> bytes:
    return b"-> " + os.fsencode(os.readlink(path)) if path.is_symlink() else path.read_bytes()


def find_samples(
    groups: Mapping[str, list[str]], wanted: set[str], shared: Path, programs: Programs, place: Path
) -> Iterator[Sample]:
    """Yields for each wanted verb the first command line that writes files; if there is none, the first to succeed."""
    others: dict[str, Sample] = {}
    missing, count, without = set(wanted), itertools.count(), Counter[str]()
    for name, lines in groups.items():
        if name in _OF_USAGE:
            continue
        with tempfile.TemporaryDirectory() as work:
            make_inputs(Path(work))
            Path(work, "golden").symlink_to(shared / "golden")
            for number, line in enumerate(lines):
                if not any(_verbs_of(later) & missing for later in lines[number:]):
                    break
                for part in _parts_of(line):
                    words = _words_of(part)
                    if not words or words[0] not in missing or len(words) < 2 or "--help" in words:
                        _shell(part, work)
                        continue
                    sample = _sample(words, Path(work), place / f"{name}-{next(count)}", programs)
                    if sample and sample.made:
                        others.pop(sample.verb, None)
                        yield sample
                    elif sample:
                        others.setdefault(sample.verb, sample)
                        without[sample.verb] += 1
                    if sample and (sample.made or without[sample.verb] == _ENOUGH):
                        missing.remove(sample.verb)
                    _shell(part, work)
    yield from others.values()


def _parts_of(line: str) -> list[str]:
    """Returns the commands of a command line; a loop is one."""
    if loop := _LOOP.fullmatch(line):
        return [loop[1], *_parts_of(loop[2])]
    return [part.strip() for part in _BETWEEN.sub(lambda found: found[1] or "\n", line).split("\n")]


def _words_of(part: str) -> tuple[str, ...]:
    """Returns the verb of `nnet3 VERB ...`, or of a program of Kaldi, and its words, without what its output goes to.

    There are none for other commands, and for what a shell has to read.
    """
    found = _BEFORE_PIPE.match(part)
    command = found[0].strip() if found else ""
    program, _, rest = command.partition(" ")
    verb = find_program(program)
    if (verb is None and program != "nnet3") or FOR_A_SHELL.search(_WITHIN_WORDS.sub("", QUOTED.sub("", command))):
        return ()
    return (*([verb.name or ""] if verb else []), *shlex.split(rest))


def _verbs_of(line: str) -> set[str]:
    return {words[0] for part in _parts_of(line) if "--help" not in (words := _words_of(part))[1:] and words}


def _shell(part: str, folder: str) -> None:
    subprocess.run(["bash", "-c", part], cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, timeout=_LONGEST)


def _sample(words: tuple[str, ...], work: Path, folder: Path, programs: Programs) -> Sample | None:
    """Returns the command line with a copy of the folder, if it succeeds in it; runs it twice."""
    shutil.copytree(work, folder, symlinks=True)
    _copy_golden(words, folder)
    before, ends = contents(folder), []
    for _ in range(2):
        with tempfile.TemporaryDirectory() as copy:
            shutil.copytree(folder, copy, symlinks=True, dirs_exist_ok=True)
            outcome = programs.run(words, Path(copy), Harm())
            after = contents(Path(copy))
        if outcome.status != 0 or before.keys() - after.keys():
            shutil.rmtree(folder)
            return None
        ends.append({path: data for path, data in after.items() if before.get(path) != data})
    made = {path: data if ends[1].get(path) == data else None for path, data in ends[0].items()}
    return Sample(words, folder, made, outcome, tuple(map(len, ends[0].values())))


def _copy_golden(words: tuple[str, ...], folder: Path) -> None:
    """Lets real files stand for golden data that the words and links of a folder name, without the rest."""
    link = folder / "golden"
    golden = link.resolve()
    link.unlink()
    links = [os.readlink(path) for path in folder.iterdir() if path.is_symlink()]
    for name in (*links, *(path for word in words for path in _PATHS.findall(word))):
        source = golden.parent / name
        if not name.startswith("golden/") or not source.exists() or (folder / name).exists():
            continue
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (shutil.copytree if source.is_dir() else shutil.copyfile)(source, folder / name)
