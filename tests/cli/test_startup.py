"""What a command imports before it does its work, counted instead of timed; lazy modules; endings."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

import nnet3
from nnet3.cli import later
from nnet3.cli.verb_table import FAMILIES, VERBS
from tests.cli.run_command import Cli
from tests.effort import EFFORT, at_night, nightly
from tests.patience import PATIENCE
from tests.wings import room_of

CLI = Path(nnet3.__file__).parent / "cli"
PROGRAM = [sys.executable, "-m", "nnet3"]
# Runs the command after some statements; the last line of standard error names the modules that it has imported.
IMPORTS = """
import sys
{before}
before = set(sys.modules)
from nnet3.cli import main
try:
    main(sys.argv[1:])
finally:
    print("", *sorted(set(sys.modules) - before), file=sys.stderr)
"""
NO_TORCH = "sys.modules['torch'] = sys.modules['numpy'] = None"
TOP_LEVEL = {*sys.stdlib_module_names, "click", "nnet3"}


def _imports(arguments: list[str], before: str) -> tuple[int, set[str]]:
    """The exit status of a command, and what it imports."""
    command = [sys.executable, "-c", IMPORTS.format(before=before), *arguments]
    process = subprocess.run(command, capture_output=True, text=True)
    return process.returncode, set(process.stderr.splitlines()[-1].split())


def _rooms(modules: Iterable[str]) -> set[str]:
    return {room_of(name.split(".")[1:]) for name in modules if name.startswith("nnet3.")} - {""}


# The same for a line of commands, run one after the other in a child of one process that has imported what others
# wrote: the exit statuses and the modules, a line for each.
MANY_IMPORTS = """
import json, os, sys
import click
{before}
before = set(sys.modules)
for line in sys.stdin:
    sys.stdout.flush()
    if os.fork() == 0:
        result, statuses = os.dup(1), []
        for stream in (1, 2):
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream)
        from nnet3.cli import main
        folder, commands = json.loads(line)
        os.chdir(folder)
        for command in commands:
            try:
                main(command)
            except SystemExit as end:
                statuses.append(end.code or 0)
        os.write(result, json.dumps([statuses, sorted(set(sys.modules) - before)]).encode() + b"\\n")
        os._exit(0)
    os.wait()
"""


def test_help_and_wrong_usage_import_little() -> None:
    """No PyTorch, no room but the command line, and of the verbs the family that is asked for."""
    families = {name: [[each.name, "--help"] for each in VERBS.values() if each.family == name] for name in FAMILIES}
    assert sum(map(len, families.values())) == len(VERBS)
    firsts = [commands[0][0] for commands in families.values()]
    families["all"] = [[verb, "--bogus"] for verb in (VERBS if EFFORT > 1 else firsts)]
    families[""] = [["--help"], ["--version"], ["inof"], []]
    process = subprocess.run(
        [sys.executable, "-c", MANY_IMPORTS.format(before=NO_TORCH)],
        input="".join(json.dumps([".", commands]) + "\n" for commands in families.values()),
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    for (family, commands), line in zip(families.items(), process.stdout.splitlines(), strict=True):
        statuses, modules = json.loads(line)
        assert statuses == [0 if {"--help", "--version"} & {*command} else 2 for command in commands]
        assert {name.partition(".")[0] for name in modules} <= TOP_LEVEL, family
        assert _rooms(modules) <= {"cli", "errors", "options", "stubs", "text"}, family
        imported = [name for name in FAMILIES if f"nnet3.cli.verbs.{name}" in modules]
        assert imported == (list(FAMILIES) if family == "all" else [family] if family else []), family


@pytest.fixture(scope="module")
def only_torch() -> Iterator[subprocess.Popen[str]]:
    """Takes lines for MANY_IMPORTS, with PyTorch imported."""
    command = [sys.executable, "-c", MANY_IMPORTS.format(before="import torch")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield process


MODEL_ROOMS = {
    "cli",
    "components",
    "errors",
    "hmm",
    "index",
    "ir",
    "kaldi_io",
    "native",
    "lowering",
    "nnet",
    "options",
    "schedule",
    "structure",
    "stubs",
    "text",
}


@pytest.mark.parametrize(
    ("arguments", "rooms"),
    [
        (["info", "net.raw"], MODEL_ROOMS),
        (["copy", "net.raw", "out.raw"], MODEL_ROOMS | {"edits"}),
        (["init", "net.config", "out.raw"], MODEL_ROOMS | {"xconfig"}),
        (
            ["compute", "net.raw", "ark:feats.ark", "ark:out.ark"],
            MODEL_ROOMS | {"requests", "inference", "driver", "families", "runtime"},
        ),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_a_verb_imports_what_it_needs(
    cli: Cli, only_torch: subprocess.Popen[str], tmp_path: Path, arguments: list[str], rooms: set[str]
) -> None:
    """Beside PyTorch, and no more of PyTorch than everybody has."""
    Path("feats.ark").write_text("utt1 [ 1 2 3 ]\n")
    assert only_torch.stdin is not None
    assert only_torch.stdout is not None
    print(json.dumps([str(tmp_path), [arguments]]), file=only_torch.stdin, flush=True)
    statuses, modules = json.loads(only_torch.stdout.readline())
    assert statuses == [0]
    assert {name.partition(".")[0] for name in modules} <= TOP_LEVEL | {"numpy", "rich"}
    assert _rooms(modules) <= rooms
    assert "torch" not in {name.partition(".")[0] for name in modules}


def test_a_recognizer_imports_nothing_for_what_few_need() -> None:
    """No room for new networks, pictures or training, and no file for rescoring, pitch or vectors of speakers."""
    script = "import sys; from nnet3.asr import Model; print(*sys.modules)"
    process = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    modules = set(process.stdout.split())
    assert not _rooms(modules) & {"drawing", "xconfig", "train", "rnnlm", "runs", "cn", "cli"}
    assert "nnet3.speech.asr.recognizer" in modules
    assert not modules & {f"nnet3.speech.asr.{name}" for name in ("model_rescoring", "pitch_settings", "speakers")}


SETTINGS = (
    '[model]\nfile = "net.raw"\n[data]\ntrain = "ark:egs.ark"\n[training]\nepochs = {}\n[output]\nfolder = "exp"\n'
)


@pytest.mark.parametrize("name", ["run.toml", "run.yaml", "nofile.toml"])
def test_mistakes_in_settings_are_found_before_pytorch_is_loaded(cli: Cli, name: str) -> None:
    Path("run.toml").write_text(SETTINGS.format("[]"))
    Path("run.yaml").write_text("model: {fiel: net.raw}\n")
    status, modules = _imports(["train-model", name], "sys.modules['torch'] = None")
    assert status == 1
    assert "nnet3.training.runs.data_kinds" in modules


@nightly
def test_settings_without_mistakes_load_pytorch(cli: Cli) -> None:
    Path("run.toml").write_text(SETTINGS.format(1))
    assert _imports(["train-model", "run.toml"], "")[1] & {"torch"} == {"torch"}


def test_settings_are_described_without_pytorch(cli: Cli) -> None:
    assert _imports(["train-model", "--describe"], "sys.modules['torch'] = None")[0] == 0


def test_python_m_nnet3_is_the_command(cli: Cli) -> None:
    process = subprocess.run([*PROGRAM, "copy", "--help"], capture_output=True, text=True)
    assert process.stdout == cli.good("copy", "--help").out


def test_public_names_are_there_when_asked_for() -> None:
    assert set(dir(nnet3)) == set(nnet3.__all__)
    assert all(getattr(nnet3, name) is not None for name in nnet3.__all__)
    with pytest.raises(AttributeError, match="laod"):
        nnet3.laod  # type: ignore[attr-defined]  # noqa: B018


def test_modules_that_come_later_are_those_of_the_stub() -> None:
    assert len(later.__all__) > 40
    for name in later.__all__:
        assert getattr(later, name).__name__.rpartition(".")[2] == name
    with pytest.raises(AttributeError, match="has no attribute 'fiels'"):
        later.fiels  # type: ignore[attr-defined]  # noqa: B018


PRINTING = [
    ["--help"],
    ["info", "--kaldi", "net.raw"],
    ["copy", "--binary=false", "net.raw", "-"],
    ["compute", "net.raw", "ark:feats.ark", "ark,t:-"],
    ["show-computation", "--output=output=0:3", "net.raw"],
]


@pytest.mark.parametrize("arguments", PRINTING if EFFORT > 1 else PRINTING[1:4], ids=" ".join)
def test_a_reader_that_stops_early_is_no_error(
    cli: Cli, new_python: Path, tmp_path: Path, arguments: list[str]
) -> None:
    """`true` reads nothing; the output may be small or beyond what a pipe holds."""
    program = PROGRAM if arguments[0] == "--help" else [new_python, *PROGRAM[1:]]
    reader = "head -n 1" if "--kaldi" in arguments else "true"
    Path("feats.ark").write_text("utt1 [ 1 2 3 ]\n" + "utt2 [\n" + "1 2 3\n" * 3000 + "]\n")
    words = " ".join(f"'{word}'" for word in (*program, *arguments))
    script = f"set -o pipefail; ({words} 2>err) | {reader} >/dev/null"
    environment = {**os.environ, "PYTHONUNBUFFERED": ""}
    assert subprocess.run(["bash", "-c", script], cwd=tmp_path, env=environment).returncode == 0, Path(
        "err"
    ).read_text()
    assert "Error" not in Path("err").read_text()
    assert "Traceback" not in Path("err").read_text()


INTERRUPTED = """
import signal, sys
from nnet3.cli import main

class Interrupting:
    def find_spec(self, name, path, target=None):
        if name == {module!r}:
            signal.raise_signal(signal.SIGINT)

sys.meta_path.insert(0, Interrupting())
sys.argv[1:] = ["copy", "-", "out"]
main()
"""


@pytest.mark.parametrize(
    "module",
    ["nnet3.cli.run", "nnet3.cli.verbs.models", "torch", "nnet3.model.nnet", *at_night("click", "numpy", "torch.nn")],
)
def test_an_interrupt_while_a_module_is_imported_is_silent(cli: Cli, tmp_path: Path, module: str) -> None:
    command = [sys.executable, "-c", INTERRUPTED.format(module=module)]
    process = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True)
    assert (process.returncode, process.stdout, process.stderr) == (130, b"", b"")
    assert sorted(os.listdir(tmp_path)) == ["net.config", "net.raw"]


def test_an_interrupt_while_it_reads_is_silent(cli: Cli, new_python: Path, tmp_path: Path) -> None:
    command = [new_python, *PROGRAM[1:], "copy", "-", "out"]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdin is not None
    try:
        process.stdin.write(b"\0B" + bytes(1 << 20))  # more than a pipe holds: when this is written, it reads
        process.send_signal(signal.SIGINT)
        process.wait(timeout=PATIENCE)  # and its input has not ended
        out, err = process.communicate()
    finally:
        process.kill()
    assert (process.returncode, out, err) == (130, b"", b"")
    assert sorted(os.listdir(tmp_path)) == ["net.config", "net.raw"]
