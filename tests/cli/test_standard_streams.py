"""Standard streams that the caller has closed, or that lie on a full disk: one message and a status, in every verb."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from nnet3.cli.verb_table import FAMILIES, verbs_of_family
from nnet3.kaldi_io import matrix_writer
from tests.cli.run_command import Cli, Shell
from tests.effort import EFFORT

CLOSED, FULL = "Bad file descriptor", "No space left on device"
_EVERY = 3 if EFFORT == 1 else 1
SOME_VERBS = ["compute", "copy", "train-model", "chain-get-egs"]
#: The first verb of each family, by day of each third one, and some.
EACH_KIND = sorted({verbs_of_family(family)[0].name for family in [*FAMILIES][::_EVERY]} | {*SOME_VERBS})
#: What writes to standard output, each in its own way.
WRITERS = [
    "copy net.raw -",
    "copy --binary=false net.raw -",
    "init net.config -",
    "average net.raw net.raw -",
    "info net.raw",
    "describe net.raw",
    "draw net.raw -",
    "compute net.raw ark:feats.ark ark:-",
    "compute net.raw ark:feats.ark ark,t:-",
    "show-computation net.raw",
    "profile --repeats=1 net.raw",
    "train-model --describe",
    "xconfig-help",
]


def _statuses(shell: Shell, verbs: list[str], commands: str) -> dict[str, tuple[str, str]]:
    """The status of each verb with what the second word of the commands says, and what it said."""
    script = "for verb in " + " ".join(verbs) + f"; do status=0; {commands} || status=$?; echo $verb $status"
    result = shell(script + " >> statuses; done; touch errors")
    assert result.returncode == 0, result.stderr
    assert result.stderr == ""
    statuses = dict(line.split() for line in Path("statuses").read_text().splitlines())
    said = Path("errors").read_text()
    return {verb: (status, said) for verb, status in statuses.items()}


@pytest.mark.parametrize(("to", "reason", "verbs"), [(">&-", CLOSED, EACH_KIND), ("> /dev/full", FULL, SOME_VERBS)])
def test_help_that_cannot_be_printed(shell: Shell, to: str, reason: str, verbs: list[str]) -> None:
    found = _statuses(shell, verbs, f"nnet3 $verb --help 2>> errors {to}")
    assert {status for status, _ in found.values()} == {"1"}
    assert found.keys() == set(verbs)
    assert Path("errors").read_text().splitlines() == [f"nnet3: standard output: {reason}"] * len(found)


@pytest.mark.parametrize(("to", "verbs"), [("2>&-", EACH_KIND), ("2> /dev/full", SOME_VERBS)])
def test_messages_that_cannot_be_printed_are_lost(shell: Shell, to: str, verbs: list[str]) -> None:
    found = _statuses(shell, verbs, f"nnet3 $verb --bogus >> errors {to}")
    assert found == dict.fromkeys(verbs, ("2", ""))


@pytest.fixture
def features(shell: Shell) -> Shell:
    with matrix_writer("ark:feats.ark") as writer:
        writer.write("utt", np.ones((5, 3), np.float32))
    return shell


@pytest.mark.parametrize(
    ("command", "to", "reason"),
    [(command, "> /dev/full", FULL) for command in WRITERS] + [(command, ">&-", CLOSED) for command in WRITERS[::4]],
)
def test_data_that_cannot_be_written(features: Shell, command: str, to: str, reason: str) -> None:
    result = features(f"nnet3 {command} {to}")
    assert result.returncode == 1
    assert "Traceback" not in result.stderr
    *others, last = result.stderr.splitlines()
    assert last.startswith("nnet3: ")
    assert last.endswith(f"standard output: {reason}")
    assert not any("standard output" in line for line in others)


@pytest.mark.parametrize("to", ["2>&-", "2> /dev/full"])
def test_messages_do_not_get_among_data(features: Shell, to: str) -> None:
    """Nor does a closed stream lead to its number being given to a file."""
    result = features(f"nnet3 copy --print-args net.raw - {to} > out.raw; nnet3 copy net.raw good.raw")
    assert result.returncode == 0
    assert Path("out.raw").read_bytes() == Path("good.raw").read_bytes()
    assert features(f"nnet3 compute --verbose=1 net.raw ark:feats.ark ark:out.ark {to}").returncode == 0
    features("nnet3 compute net.raw ark:feats.ark ark:good.ark")
    assert Path("out.ark").read_bytes() == Path("good.ark").read_bytes()


def test_a_closed_standard_input(features: Shell) -> None:
    for command in ("copy - out.raw", "info -", "compute net.raw ark:- ark:out.ark"):
        result = features(f"nnet3 {command} <&-")
        assert result.returncode == 1
        (line,) = [line for line in result.stderr.splitlines() if "warning" not in line]
        assert line.startswith("nnet3: ")
        assert CLOSED in line


def test_with_all_streams_closed_files_are_the_same(features: Shell) -> None:
    result = features("nnet3 copy net.raw out.raw <&- >&- 2>&-; nnet3 copy net.raw good.raw")
    assert result.returncode == 0
    assert Path("out.raw").read_bytes() == Path("good.raw").read_bytes()


@pytest.mark.skipif(not Path("/proc/self/mem").exists(), reason="there is no file that opens and cannot be read")
@pytest.mark.parametrize(
    "arguments",
    ["info FILE", "describe FILE", "train-model FILE", "copy-feats FILE out", "copy-feats ark:FILE ark:out",
     "copy-feats scp:FILE ark:out", "init FILE out", "arpa2fst FILE out", "explore FILE out.html",
     "lattice-copy --include=FILE ark:net.raw ark:out"],
)  # fmt: skip
def test_errors_of_other_files_have_their_names(cli: Cli, arguments: str) -> None:
    """The system tells no name of a file that is open already and cannot be read."""
    Path("broken.toml").symlink_to("/proc/self/mem")
    outcome = cli(*arguments.replace("FILE", "broken.toml").split())
    assert outcome.status == 1
    assert "broken.toml" in outcome.err
    assert "standard output" not in outcome.err
