"""How soon the command answers, how it ends when nobody listens or somebody interrupts, and lazily imported modules."""

from __future__ import annotations

import ast
import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import nnet3
from cli.run_command import Cli
from nnet3.cli.run import VERBS

CLI = Path(nnet3.__file__).parent / "cli"
PROGRAM = [sys.executable, "-m", "nnet3"]
NO_TORCH = (
    "import sys; sys.modules['torch'] = sys.modules['numpy'] = None; from nnet3.cli import main; main(sys.argv[1:])"
)


@pytest.mark.parametrize(
    ("arguments", "status"),
    [(["--help"], 0), (["--version"], 0), (["inof"], 2), ([], 2)]
    + [([verb, "--help"], 0) for verb in VERBS]
    + [([verb, "--bogus"], 2) for verb in VERBS],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_help_and_wrong_usage_do_not_import_torch(arguments: list[str], status: int) -> None:
    process = subprocess.run([sys.executable, "-c", NO_TORCH, *arguments], capture_output=True, text=True)
    assert process.returncode == status, process.stderr


def _processor_seconds(command: list[str], environment: dict[str, str]) -> float:
    """What a process takes in processor time, start and end included: other programs run on this machine too."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, capture_output=True, env=environment)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


@pytest.mark.parametrize("arguments", [["--help"], ["copy", "--help"], ["copy", "--bogus"]], ids=" ".join)
def test_they_answer_at_once(arguments: list[str]) -> None:
    """The first run writes byte code."""
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": ""}
    assert min(_processor_seconds([*PROGRAM, *arguments], environment) for _ in range(4)) < 0.2


def test_a_verb_begins_soon_after_torch(cli: Cli, tmp_path: Path) -> None:
    """In processor time and at best: other programs run on this machine too. The first run writes byte code."""
    code = f"""if True:
        import sys, time
        import torch
        start = time.process_time()
        from nnet3.cli import main
        try:
            main({["info", str(tmp_path / "net.raw")]!r})
        except SystemExit:
            print(time.process_time() - start, file=sys.stderr)
    """
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": ""}
    command = [sys.executable, "-c", code]
    seconds = [float(subprocess.run(command, capture_output=True, env=environment).stderr) for _ in range(3)]
    assert min(seconds) < 0.3


def test_python_m_nnet3_is_the_command(cli: Cli) -> None:
    process = subprocess.run([*PROGRAM, "info", "net.raw"], capture_output=True, text=True)
    assert process.stdout == cli.good("info", "net.raw").out


def test_public_names_are_there_when_asked_for() -> None:
    assert set(nnet3._ROOM_OF) == set(nnet3.__all__)
    assert set(nnet3.__all__) <= set(dir(nnet3))
    assert all(getattr(nnet3, name) is not None for name in nnet3.__all__)
    with pytest.raises(AttributeError, match="module 'nnet3' has no attribute 'laod'"):
        nnet3.laod  # type: ignore[attr-defined]  # noqa: B018


def test_lazy_modules_are_what_the_type_checker_sees() -> None:
    for path in CLI.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if not (isinstance(node, ast.If) and getattr(node.test, "id", "") == "TYPE_CHECKING" and node.orelse):
                continue
            seen = {}
            for statement in node.body:
                for alias in statement.names:  # type: ignore[attr-defined]
                    prefix = f"{statement.module}." if isinstance(statement, ast.ImportFrom) else ""
                    seen[alias.asname or alias.name] = prefix + alias.name
            lazy = {s.targets[0].id: s.value.args[0].value for s in node.orelse}  # type: ignore[attr-defined]
            assert lazy == seen, path


PRINTING = [
    ["--help"],
    ["info", "--kaldi", "net.raw"],
    ["copy", "--binary=false", "net.raw", "-"],
    ["compute", "net.raw", "ark:feats.ark", "ark,t:-"],
    ["show-computation", "--output=output=0:3", "net.raw"],
]


@pytest.mark.parametrize("arguments", PRINTING, ids=" ".join)
def test_a_reader_that_stops_early_is_no_error(cli: Cli, tmp_path: Path, arguments: list[str]) -> None:
    """`true` reads nothing; the output may be small or beyond what a pipe holds."""
    reader = "head -n 1" if "--kaldi" in arguments else "true"
    Path("feats.ark").write_text("utt1 [ 1 2 3 ]\n" + "utt2 [\n" + "1 2 3\n" * 3000 + "]\n")
    words = " ".join(f"'{word}'" for word in (*PROGRAM, *arguments))
    script = f"set -o pipefail; ({words} 2>err) | {reader} >/dev/null"
    assert subprocess.run(["bash", "-c", script], cwd=tmp_path).returncode == 0, Path("err").read_text()
    assert "Error" not in Path("err").read_text()
    assert "Traceback" not in Path("err").read_text()


@pytest.mark.parametrize("delay", [0.2, 0.4, 0.8, 1.5])
def test_an_interrupt_is_silent_at_any_moment(cli: Cli, tmp_path: Path, delay: float) -> None:
    ready = (
        "import sys; from nnet3.cli import main; print('x', flush=True); sys.argv[1:] = ['copy', '-', 'out']; main()"
    )
    command = [sys.executable, "-c", ready]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()
    time.sleep(delay)
    process.send_signal(signal.SIGINT)  # it waits for its standard input if it has come so far
    try:
        _, err = process.communicate(timeout=60)
    finally:
        process.kill()
    assert err == b""
    assert process.returncode == 130
    assert sorted(os.listdir(tmp_path)) == ["net.config", "net.raw"]
