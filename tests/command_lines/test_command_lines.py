"""The recorder of command lines: it sees every change of behaviour, and nothing where there is none."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from nnet3.cli.verb_table import VERBS
from tests.cli.prepared_programs import installed_scripts
from tests.effort import nightly
from tools.command_lines.__main__ import LIST, differences, read_groups
from tools.command_lines.masking import Mask

ROOT = Path(__file__).resolve().parents[2]

LINES = [line for lines in read_groups(LIST.read_text()).values() for line in lines]


def test_every_verb_and_program_is_on_the_list() -> None:
    names = [*(f"nnet3 {verb}" for verb in VERBS), *installed_scripts()]
    assert [name for name in names if f"{name} --help" not in LINES] == []
    working = [line for line in LINES if "--help" not in line]
    assert [name for name in names if not any(f"{name} " in line for line in working)] == []


def test_groups_and_command_lines_are_told_apart() -> None:
    assert read_groups("# a\n== one\nx # y\n\n== two\nx # y\nz\n") == {"one": ["x # y"], "two": ["x # y", "z"]}
    for text in ("== one\n== one\n", "== one\nx\nx\n"):
        with pytest.raises(ValueError, match=r"two groups|twice"):
            read_groups(text)


def test_what_differs_between_two_runs_is_masked() -> None:
    mask = Mask({"/tmp/abc": "FOLDER"})
    assert mask.printed(b"graph: 142 cindexes (0.012 s)\nin /tmp/abc/x") == ["graph: 142 cindexes (# s)", "in FOLDER/x"]
    assert mask.text("   12.3 us  c1: x\n# 0.123 ms in all") == "# us  c1: x\n# # ms in all"
    event = '{"time": 179.5, "objective": -1.5, "frames_per_second": 61.1, "idle_share": 3.1e-05}'
    assert mask.text(event) == '{"time": #, "objective": -1.5, "frames_per_second": #, "idle_share": #}'
    line = "2026-11-22 02:14:50 epoch step=12 seconds_left=2"
    assert mask.text(line) == "DATE epoch step=12 seconds_left=#"
    for kept in ("objective=-0.976125 frames=128", "num-parameters: 155", "scale 0.5 sums to 3.25", "2026-11-22"):
        assert mask.text(kept) == kept


def test_bytes_that_are_no_text_are_summed_up(tmp_path: Path) -> None:
    mask = Mask({})
    assert mask.printed(b"") == []
    assert mask.printed(b"a\n") == ["a", ""]
    assert mask.printed(b"\0Ba") != mask.printed(b"\0Bb")
    for name, contents in (("a", b"in 0.10 s"), ("b", b"in 0.25 s"), ("c", b"\0in 0.10 s"), ("d", b"\0in 0.25 s")):
        (tmp_path / name).write_bytes(contents)
    a, b, c, d = (mask.file(tmp_path, name).split()[1] for name in "abcd")
    assert a == b
    assert len({a, c, d}) == 3


def test_a_difference_is_shown_and_so_is_a_line_that_one_tree_lacks() -> None:
    before = {"x": ["exit status 0", "stdout: a"], "y": ["exit status 0"], "z": ["exit status 0"]}
    now = {"x": ["exit status 0", "stdout: b"], "y": ["exit status 0"], "w": ["exit status 0"]}
    first, second, third = differences(before, now)
    assert first.startswith("$ x\n--- recorded\n+++ now\n")
    assert first.endswith(" exit status 0\n-stdout: a\n+stdout: b\n")
    assert second.endswith("-exit status 0\n")
    assert third.endswith("+exit status 0\n")


COMMANDS = """
== some
nnet3 average --help
nnet3 init net.config 0.raw
nnet3-info 0.raw | head -n 3 > info; rm 0.raw
nnet3 info 0.raw
nnet3 show-computation net.config
"""
CHANGES = {
    "Average parameters and": "Average parametres and",
    '"--srand", "seed", bits=64, default=0': '"--srand", "seed", bits=64, default=1',
}


@nightly
def test_a_changed_help_and_a_changed_default_are_found(tmp_path: Path) -> None:
    """In a copy of the tree. Command lines that these do not touch are the same in both runs."""
    for name in ("tests", "tools"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").touch()
    for name in ("src", "tools/command_lines", "tests/cli"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("*.egg-info"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    (tmp_path / "golden").mkdir()
    (tmp_path / "tools/command_lines/commands.txt").write_text(COMMANDS)

    def run(mode: str, *groups: str) -> subprocess.CompletedProcess[str]:
        words = ["-m", "tools.command_lines", "--shared", str(tmp_path), mode, str(tmp_path / "records")]
        return subprocess.run([sys.executable, *words, *groups], capture_output=True, text=True, cwd=tmp_path)

    assert "there is no recording in" in run("compare").stderr
    assert "there is no group copy; there are some" in run("record", "copy").stderr
    recorded = run("record")
    assert (recorded.returncode, recorded.stderr) == (0, "")
    assert f"5 command lines of {tmp_path} in" in recorded.stdout
    for old, new in CHANGES.items():
        (path,) = [path for path in (tmp_path / "src").rglob("*.py") if old in path.read_text()]
        path.write_text(path.read_text().replace(old, new))
    compared = run("compare", "some")
    assert (compared.returncode, compared.stderr) == (1, "")
    shown = [line for line in compared.stdout.splitlines() if line.startswith(("$", "-", "+")) and line[1:2] != line[0]]
    assert shown[:3] == [
        "$ nnet3 average --help",
        "-stdout:   Average parameters and statistics of raw networks of the same structure.",
        "+stdout:   Average parametres and statistics of raw networks of the same structure.",
    ]
    assert shown[3] == "$ nnet3 init net.config 0.raw"
    assert [line[:12] for line in shown[4:]] == ["-wrote 0.raw", "+wrote 0.raw"]
    assert ": 2 differ from " in compared.stdout
