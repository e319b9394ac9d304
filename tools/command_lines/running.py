"""Runs command lines in groups, each in a folder of its own that begins with the inputs and a link to golden data.

The programs are those of the tree in which this file lies, forked from one process that has loaded all they need. A
shell runs only lines that need one.
"""

from __future__ import annotations

import os
import re
import shlex
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from tests.cli.prepared_programs import ask, installed_scripts, prepared_programs
from tools.command_lines.inputs import make_inputs
from tools.command_lines.masking import Mask

ROOT = Path(__file__).resolve().parents[2]

# The same for everybody: widths of help, one thread, no GPU, no colours; a variable that is not here is not passed on.
ENVIRONMENT = {
    "COLUMNS": "80",
    "CUDA_VISIBLE_DEVICES": "",
    "LC_ALL": "C.UTF-8",
    "OMP_NUM_THREADS": "1",
    "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}",
    "TERM": "dumb",
    "TZ": "UTC",
}
PASSED_ON = ("HOME", "PATH", "TMPDIR")
QUOTED = re.compile(r"'[^']*'")
FOR_A_SHELL = re.compile(r"""[|&;<>()$`\\"'*?\[\]#~{}!]|^\w+=""")
_LONGEST = 300.0  # seconds of one command line

Record = list[str]
"""All that is kept of a command line, as lines of text."""


def run_groups(groups: Mapping[str, list[str]], shared: Path, workers: int) -> Iterator[tuple[str, dict[str, Record]]]:
    """Runs groups, so many at once, and gives the records of each by command line."""
    passed_on = {name: os.environ[name] for name in PASSED_ON if name in os.environ}
    os.environ.clear()
    os.environ.update({**passed_on, **ENVIRONMENT})
    socket.setdefaulttimeout(_LONGEST)
    with prepared_programs(installed_scripts(), "nnet3") as programs, ThreadPoolExecutor(workers) as pool:
        os.environ["PATH"] = f"{programs}:{Path(sys.executable).parent}:{os.environ['PATH']}"
        yield from zip(groups, pool.map(partial(_run_group, programs, shared), groups.values()), strict=True)


def _run_group(programs: Path, shared: Path, lines: list[str]) -> dict[str, Record]:
    with tempfile.TemporaryDirectory() as folder:
        make_inputs(Path(folder))
        Path(folder, "golden").symlink_to(shared / "golden")
        mask = Mask({folder: "FOLDER", str(programs): "PROGRAMS", str(shared): "SHARED"})
        return {line: _record(line, Path(folder), programs, mask) for line in lines}


def _record(line: str, folder: Path, programs: Path, mask: Mask) -> Record:
    before, places = _states(folder), installed_scripts()
    with open(os.devnull, "rb") as nothing, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        words = [] if FOR_A_SHELL.search(QUOTED.sub("", line)) else shlex.split(line)
        if words and words[0] in places:
            place, words[0] = places[words[0]], str(programs / words[0])
            address = str(programs.parent / "socket")
            files: list[int | None] = [file.fileno() for file in (nothing, out, err)]
            status = ask(address, place, words, str(folder), dict(os.environ), files)
        else:
            command = ["bash", "-o", "pipefail", "-c", line]
            status = subprocess.run(
                command, cwd=folder, stdin=nothing, stdout=out, stderr=err, timeout=_LONGEST
            ).returncode
        printed = [(file.seek(0), file.read())[1] for file in (out, err)]
    after = _states(folder)
    written = sorted(name for name, state in after.items() if before.get(name) != state)
    return [
        f"exit status {status}",
        *(f"stdout: {text}" for text in mask.printed(printed[0])),
        *(f"stderr: {text}" for text in mask.printed(printed[1])),
        *(f"wrote {mask.file(folder, name)}" for name in written),
        *(f"removed {mask.text(name)}" for name in sorted(before.keys() - after.keys())),
    ]


def _states(folder: Path) -> dict[str, tuple[int, int, int]]:
    """The files in a folder; one that is written anew has another state, whatever it contains."""
    paths = [Path(place, name) for place, _, names in os.walk(folder) for name in names]
    stats = {str(path.relative_to(folder)): path.lstat() for path in paths}
    return {name: (stat.st_ino, stat.st_mtime_ns, stat.st_size) for name, stat in stats.items()}
