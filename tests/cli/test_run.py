"""Verbs, help, exit statuses, and that messages are one message."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from nnet3.cli.verb_table import FAMILIES, VERBS, verbs_of_family
from tests.cli.run_command import Cli


@pytest.mark.parametrize("verb", VERBS)
def test_help_shows_an_example(cli: Cli, verb: str) -> None:
    outcome = cli.good(verb, "--help")
    assert f"nnet3 {verb} " in outcome.out.partition("Example")[2]
    options = outcome.out.partition("Options:\n")[2]
    assert all(line.startswith(("  -", "    ", "Options of all verbs")) for line in options.splitlines() if line)
    assert "None" not in options
    assert outcome.err == ""


def test_help_lists_every_verb(cli: Cli) -> None:
    text = cli.good("help", "all").out
    assert [verb for verb in VERBS if not re.search(rf"^  {verb}(?: |$)", text, re.MULTILINE)] == []


def test_help_lists_families_on_a_page(cli: Cli) -> None:
    text = cli.good("--help").out
    assert cli.good("-h").out == cli.good("help").out == text
    assert len(text.splitlines()) < 50
    for family, heading in FAMILIES.items():
        assert re.search(rf"^  {family} +{heading}$".replace("(", r"\(").replace(")", r"\)"), text, re.MULTILINE)
        verbs = re.findall(r"^  (\S+)", cli.good("help", family).out, re.MULTILINE)
        assert verbs == [verb.name for verb in verbs_of_family(family)]


def test_help_explains_a_verb(cli: Cli) -> None:
    text = cli.good("copy", "--help").out
    assert cli.good("help", "copy").out == cli.good("help", "nnet3-copy").out == text


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("latices", "there is no verb 'latices'; did you mean 'lattices'?"),
        ("nnet3-none", "nor one for that program of Kaldi yet; 'nnet3 help all' lists the verbs"),
    ],
)
def test_help_of_what_is_not_there_is_wrong_usage(cli: Cli, word: str, message: str) -> None:
    outcome = cli("help", word)
    assert outcome.status == 2
    assert message in " ".join(outcome.err.split())


def test_version_is_printed(cli: Cli) -> None:
    assert cli.good("--version").out.startswith("nnet3, version ")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "Usage: nnet3"),
        (["inof", "net.raw"], "there is no verb 'inof'; did you mean 'info'?"),
        (["xyzzy"], "there is no verb 'xyzzy'"),
        (["chain"], "there is no verb 'chain'; 'nnet3 help chain' lists the verbs of that family"),
        (["--bogus"], "No such option '--bogus'"),
        (["info"], "Missing argument 'MODEL-OR-CONFIG'"),
        (["info", "net.raw", "more"], "unexpected extra argument"),
        (["copy", "--binry=true", "net.raw", "out"], "No such option '--binry'; did you mean '--binary'?"),
        (["copy", "--binary=perhaps", "net.raw", "out"], "'--binary': it must be true or false, got 'perhaps'."),
        (["copy", "--binary=", "net.raw", "out"], "it must be true or false, got ''."),
        (["copy", "--srand=x", "net.raw", "out"], "it must be an integer, got 'x'"),
        (["copy", "--learning-rate=-0.5", "net.raw", "out"], "it must be -1 (none) or >= 0, got -0.5"),
        (["copy", "--scale=nan", "net.raw", "out"], "it must be a finite number, got 'nan'"),
        (["copy", "--learning-rate=inf", "net.raw", "out"], "it must be a finite number, got 'inf'"),
        (["copy", "--learning-rates=1:x", "net.raw", "out"], "numbers >= 0 with colons between"),
        (["copy", "--learning-rates=-1", "net.raw", "out"], "numbers >= 0 with colons between"),
        (["init", "net.config"], "at least one config file and the file to write"),
        (["average", "net.raw"], "at least one network to read and the file to write"),
        (["average", "--weights=1:2", "net.raw", "out"], "one per network"),
        (["average", "--weights=a", "net.raw", "out"], "must be numbers"),
        (["average", "--weights=inf", "net.raw", "out"], "--weights must be 1 numbers, one per network, got 'inf'"),
        (["average", "--weights=1:2", "net.raw", "net.raw", "net.raw", "out"], "must be 3 numbers, one per network"),
        (["am-init", "net.raw", "out"], "give a transition model, or a tree and a topology; then a raw network"),
        (["am-init", "a", "b", "c", "net.raw", "out"], "give a transition model, or a tree and a topology"),
        (["compute", "--ivectors=ark:a", "--online-ivectors=ark:b", "net.raw", "ark:a", "ark:b"], "not both"),
        (["compute", "--frame-subsampling-factor=0", "net.raw", "ark:a", "ark:b"], "not in the range"),
        (["show-computation", "--output", "output", "net.raw"], "is not NAME=FIRST:LAST"),
        (["show-computation", "--output", "output=5:1", "net.raw"], "FIRST must not be after LAST"),
        (["show-computation", "--output=output=1", "--output=output=2", "net.raw"], "twice: output=1, output=2"),
        (["show-computation", "--num-sequences=10000000", "net.raw"], "110,000,000 rows are too many"),
        (["demo", "--seed=-1"], "not in the range"),
    ],
)
def test_wrong_usage_is_status_2(cli: Cli, arguments: list[str], message: str) -> None:
    outcome = cli(*arguments)
    assert outcome.status == 2
    assert message in outcome.err + outcome.out
    assert not Path("out").exists()


def test_a_real_process(cli: Cli, new_python: Path) -> None:
    Path("bad.config").write_text("input-node name=input dim=x\n")
    command = [new_python, "-c", "import sys; from nnet3.cli import main; main(sys.argv[1:])", "info", "bad.config"]
    process = subprocess.run(command, capture_output=True, text=True)
    assert process.returncode == 1
    assert process.stdout == ""
    assert process.stderr.splitlines() == [
        "nnet3: bad.config:1:27: input-node 'input': 'dim' must be an integer, got 'x'",
        "  input-node name=input dim=x",
        "                            ^",
    ]


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP"])
def test_a_signal_while_python_ends_changes_nothing(name: str) -> None:
    """PyTorch takes a while to end, and torchrun sends one to all processes when one has died."""
    end = f"import atexit, os, signal; atexit.register(os.kill, os.getpid(), signal.{name})"
    code = f"{end}; import sys; sys.argv = ['nnet3', '--version']; from nnet3.cli import main; main()"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout.startswith("nnet3, version ")


def test_an_interrupt_while_a_mistake_is_told_is_silent(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(message: str) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("nnet3.cli.run.say", interrupt)
    outcome = cli("info", "missing.raw")
    assert (outcome.status, outcome.out, outcome.err) == (130, "", "")
