"""Cases of the golden data beside `golden/`: lines of Kaldi's programs, which are run here, and the files they gave."""

from __future__ import annotations

import contextlib
import io
import re
import shlex
import shutil
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest

from nnet3.cli.run import run
from tests.shared_data import SHARED

ROAD = SHARED / "road"
needs_road = pytest.mark.skipif(not ROAD.is_dir(), reason=f"the golden data of programs are not at {ROAD}")


def road_cases(name: str) -> list[Path]:
    """The folders of one kind of cases."""
    return sorted(ROAD.glob(f"{name}_*"))


@dataclass
class RoadCase:
    """A case, whose lines run in the folder that is the current one. `compared` has the files that a test has used."""

    folder: Path
    compared: set[str] = field(default_factory=set)

    def take(self, *names: str) -> None:
        """Copies what lines begin with."""
        for name in names:
            shutil.copyfile(self.folder / name, name)
        self.compared |= set(names)

    def golden(self, name: str) -> Path:
        """Kaldi's file, which counts as compared."""
        self.compared.add(name)
        return self.folder / name

    def lines(self, name: str) -> list[str]:
        return [line for line in self.golden(name).read_text().splitlines() if line]

    def line(self, name: str, output: str) -> str:
        """The line of a file of lines that writes a file."""
        return next(line for line in self.lines(name) if re.search(rf"(:|\s){re.escape(output)}(\s|$)", line))

    def check_all_compared(self) -> None:
        """Asserts that there is no file that no test has looked at."""
        assert {path.name for path in self.folder.iterdir()} - self.compared == set()


@dataclass(frozen=True)
class Ran:
    status: int
    out: str
    err: str


def run_line(line: str) -> Ran:
    """Runs a program of Kaldi as a line calls it, maybe with `> FILE`, in this process."""
    command, _, target = line.partition(" > ")
    program, *arguments = shlex.split(command)
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        status = run(arguments, program)
    assert "Traceback" not in err.getvalue()
    if target:
        Path(target.strip()).write_text(out.getvalue())
    return Ran(status, out.getvalue(), err.getvalue())


def run_good(line: str) -> Ran:
    """Runs a line that is to succeed."""
    ran = run_line(line)
    assert ran.status == 0, f"{line}\n{ran.err}"
    return ran


def relative_error(values: np.ndarray, expected: np.ndarray) -> float:
    """The norm of the difference, by that of what is expected."""
    assert np.shape(values) == np.shape(expected)
    return float(np.linalg.norm(np.asarray(values, float) - expected) / np.linalg.norm(np.asarray(expected, float)))
