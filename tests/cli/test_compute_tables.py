"""However compute ends, what is finished is kept, what is wrong is named, and no file is half overwritten."""

from __future__ import annotations

import os
import signal
import struct
import subprocess
from pathlib import Path

import numpy as np
import pytest

from nnet3 import Nnet
from nnet3.kaldi_io import matrix_writer, open_matrix_table
from tests.cli.run_command import Cli, Outcome
from tests.effort import at_night
from tests.patience import PATIENCE

KEYS = ("utt1", "utt2", "utt3")
TABLES = ("ark:feats.ark", "ark:out.ark")


@pytest.fixture
def features(cli: Cli) -> Cli:
    with matrix_writer("ark,scp:feats.ark,feats.scp") as writer:
        for number, key in enumerate(KEYS):
            writer.write(key, np.full((4 + number, 3), number, np.float32))
    cli.good("compute", "net.raw", "ark:feats.ark", "ark,scp:expected.ark,expected.scp")
    return cli


def _read(rspecifier: str) -> dict[str, np.ndarray]:
    with open_matrix_table(rspecifier) as table:
        return {key: np.asarray(matrix) for key, matrix in table}


def _has(rspecifier: str, *keys: str) -> None:
    found, expected = _read(rspecifier), _read("ark:expected.ark")
    assert list(found) == list(keys)
    assert all(np.array_equal(found[key], expected[key]) for key in keys)


def _bad(outcome: Outcome, *messages: str) -> None:
    assert outcome.status == 1
    for message in messages:
        assert message in outcome.err


def _no_temporary_files() -> None:
    assert not [name for name in os.listdir() if name.startswith(".") or name.endswith(".tmp")]


def test_a_damaged_archive(features: Cli) -> None:
    Path("cut.ark").write_bytes(Path("feats.ark").read_bytes()[:-2])
    outcome = features("compute", "net.raw", "ark:cut.ark", "ark,scp:out.ark,out.scp")
    _bad(outcome, "warning: ark:cut.ark: the entry 'utt3': ", "2 finished utterances are kept in out.ark")
    _bad(outcome, "2 utterances computed, 1 left out", "nnet3: 1 records could not be read")
    _has("ark:out.ark", "utt1", "utt2")
    _has("scp:out.scp", "utt1", "utt2")


def test_a_missing_file_in_a_script(features: Cli) -> None:
    lines = Path("feats.scp").read_text().splitlines()
    lines[1] = "utt2 nofile.ark:5"
    Path("feats.scp").write_text("\n".join(lines) + "\n")
    outcome = features("compute", "net.raw", "scp:feats.scp", "ark:out.ark")
    _bad(outcome, "the entry 'utt2': cannot read nofile.ark", "2 utterances computed, 1 left out")
    _has("ark:out.ark", "utt1", "utt3")


@pytest.mark.parametrize("source", ["ark:text.ark", "ark:cat text.ark |"])
def test_a_record_of_text_that_cannot_be_read(features: Cli, source: str) -> None:
    with matrix_writer("ark,t:text.ark") as writer:
        for key, matrix in _read("ark:feats.ark").items():
            writer.write(key, matrix)
    good = Path("text.ark").read_text()
    for bad in (good.replace("1 1 1", "1 nan 1", 1), good.replace("1 1 1 ]", "1 1 1", 1)):
        Path("text.ark").write_text(bad)
        outcome = features("compute", "net.raw", source, "ark:out.ark")
        _bad(outcome, "the entry 'utt2'", "2 utterances computed, 1 left out", "1 records could not be read")
        _has("ark:out.ark", "utt1", "utt3")
        Path("out.ark").unlink()


def test_a_network_that_cannot_be_computed_for_one_utterance(features: Cli) -> None:
    config = """
        input-node name=input dim=3
        component name=sum type=NoOpComponent dim=3
        component-node name=sum component=sum input=Sum(input, Failover(Offset(input, 8), Offset(sum, 1)))
        output-node name=output input=sum
    """
    Nnet.from_config(config).save("sum.raw")
    outcome = features("compute", "sum.raw", "ark:feats.ark", "ark:out.ark")
    assert outcome.status in (0, 1)
    for key in set(KEYS) - set(_read("ark:out.ark") if Path("out.ark").exists() else ()):
        assert f"utterance '{key}' left out: " in outcome.err


def test_one_that_cannot_be_computed_is_counted_as_left_out(features: Cli) -> None:
    with matrix_writer("ark:feats.ark") as writer:
        writer.write("utt1", np.zeros((4, 3), np.float32))
        writer.write("utt2", np.full((5, 3), np.nan, np.float32))
    assert "1 utterances computed, 1 left out; 4 frames" in features.good("compute", "net.raw", *TABLES).err


@pytest.mark.parametrize(("dtype", "error"), [("float32", 0.0), ("bfloat16", 0.1), ("int8", 0.1)])
def test_the_numbers_that_are_multiplied_are_chosen(features: Cli, dtype: str, error: float) -> None:
    features.good("compute", f"--dtype={dtype}", "net.raw", *TABLES)
    largest = 0.0
    for key, rows in _read("ark:out.ark").items():
        largest = max(largest, float(np.abs(rows - _read("ark:expected.ark")[key]).max()))
    assert (largest > 0) == (error > 0)
    assert largest <= error


def test_other_numbers_are_refused(features: Cli) -> None:
    outcome = features("compute", "--dtype=float16", "net.raw", *TABLES)
    assert outcome.status == 2
    assert "'--dtype': it must be one of float32, bfloat16, int8, got float16" in outcome.err


def test_an_old_output_stays_when_the_new_one_is_not_complete(features: Cli) -> None:
    features.good("compute", "net.raw", "ark:feats.ark", "ark,scp:out.ark,out.scp")
    before = Path("out.ark").read_bytes(), Path("out.scp").read_bytes()
    Path("cut.ark").write_bytes(Path("feats.ark").read_bytes()[:-2])
    outcome = features("compute", "net.raw", "ark:cut.ark", "ark,scp:out.ark,out.scp")
    _bad(outcome, "2 finished utterances are kept in out.ark.partial")
    assert (Path("out.ark").read_bytes(), Path("out.scp").read_bytes()) == before
    _has("scp:out.scp.partial", "utt1", "utt2")
    Path("out.ark").unlink()  # then the script alone is old: both parts of the new one are beside it
    features("compute", "net.raw", "ark:cut.ark", "ark,scp:out.ark,out.scp")
    _has("scp:out.scp.partial", "utt1", "utt2")
    assert not Path("out.ark").exists()


def test_nothing_finished_leaves_nothing(features: Cli) -> None:
    Path("cut.ark").write_bytes(Path("feats.ark").read_bytes()[:20])
    _bad(features("compute", "net.raw", "ark:cut.ark", "ark,scp:out.ark,out.scp"), "no utterance was computed (1 left")
    assert not Path("out.ark").exists()
    assert not Path("out.scp").exists()


@pytest.mark.parametrize("options", ["", "t,"])
def test_a_resumed_table_is_as_if_never_interrupted(features: Cli, options: str) -> None:
    output = f"{options}ark,scp:out.ark,out.scp"
    features.good("compute", "--resume", "net.raw", "ark:feats.ark", output)
    complete = Path("out.ark").read_bytes(), Path("out.scp").read_bytes()
    Path("cut.ark").write_bytes(Path("feats.ark").read_bytes()[:-2])
    Path("out.ark").unlink()
    Path("out.scp").unlink()
    features("compute", "net.raw", "ark:cut.ark", output)
    with open("out.ark", "ab") as file:
        file.write(b"utt3 half an ent")  # as a power cut might leave it
    outcome = features.good("compute", "--resume", "net.raw", "ark:feats.ark", output)
    assert "2 were there already, 1 utterances computed, 0 left out; 6 frames" in outcome.err
    assert (Path("out.ark").read_bytes(), Path("out.scp").read_bytes()) == complete
    outcome = features.good("compute", "--resume", "net.raw", "ark:feats.ark", output)
    assert "3 were there already, 0 utterances computed" in outcome.err
    assert (Path("out.ark").read_bytes(), Path("out.scp").read_bytes()) == complete


def test_resume_only_what_belongs_together(features: Cli) -> None:
    features.good("compute", "net.raw", "ark:feats.ark", "ark,scp:out.ark,out.scp")
    Path("out.scp").write_text("utt1 other.ark:5\n")
    outcome = features("compute", "--resume", "net.raw", "ark:feats.ark", "ark,scp:out.ark,out.scp")
    _bad(outcome, "cannot resume, since the script says 'utt1 other.ark:5', which is not in that archive")
    Path("out.scp").write_text("utt1 out.ark:99999999\n")
    outcome = features("compute", "--resume", "net.raw", "ark:feats.ark", "ark,scp:out.ark,out.scp")
    _bad(outcome, "cannot resume, ")


@pytest.mark.parametrize(
    ("number", "status", "old"),
    [(signal.SIGINT, 130, False), (signal.SIGHUP, 129, True), *at_night((signal.SIGTERM, 143, True))],
)
def test_a_signal_keeps_finished_utterances(
    features: Cli, programs: Path, number: signal.Signals, status: int, old: bool
) -> None:
    if old:
        Path("out.ark").write_bytes(b"old")
    # The third entry does not end: what has come before it is computed meanwhile.
    whole = Path("feats.ark").read_bytes()
    third = b"utt3 \0BFM " + struct.pack("<bibi", 4, 1 << 20, 4, 3)
    Path("cut.ark").write_bytes(whole[: whole.index(b"utt3 ")] + third)
    source = "ark:cat cut.ark - |"
    command = [programs / "nnet3", "compute", "--verbose=1", "net.raw", source, "ark,scp:out.ark,out.scp"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stderr is not None
        while b"utterance 'utt2' computed" not in process.stderr.readline():
            assert process.poll() is None
        process.send_signal(number)
        process.wait(timeout=PATIENCE)
        process.stdin.close()  # this ends the command that it reads
        err = process.stderr.read()
    assert process.returncode == status
    suffix = ".partial" if old else ""
    assert err.decode() == f"nnet3: 2 finished utterances are kept in out.ark{suffix}\n"
    _no_temporary_files()
    _has(f"scp:out.scp{suffix}", "utt1", "utt2")
    assert not old or Path("out.ark").read_bytes() == b"old"
