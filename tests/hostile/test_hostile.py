"""Verbs on full disks, killed, over their inputs, in read-only folders, as `make hostile` tries all of them."""

from __future__ import annotations

import contextlib
import subprocess
from pathlib import Path

import pytest

from tests.effort import nightly
from tools.hostile.harm import Harm
from tools.hostile.samples import Outcome, Programs, Sample, _parts_of, _words_of
from tools.hostile.trials import CASES, Disk, Trials, Verdict, _damage, _told_wrong

ROOT = Path(__file__).resolve().parents[2]
LIST = """
== some
nnet3 init net.config net.raw
nnet3 copy-feats ark:feats ark,scp:feats.ark,feats.scp
"""


@nightly
def test_some_verbs(tmp_path: Path, programs: Path) -> None:
    (tmp_path / "golden").mkdir()
    (tmp_path / "list").write_text(LIST)
    command = [programs / "python", "-m", "tools.hostile", "--shared", tmp_path, "--list", tmp_path / "list"]
    verbs = ["copy-feats", "init"]
    result = subprocess.run([*command, *verbs], cwd=ROOT, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr
    title, *rows, left, counts = result.stdout.splitlines()
    assert all(case in title for case in CASES)
    assert sorted(row.split()[0] for row in rows) == verbs
    assert all(row.count("ok (") == len(CASES) for row in rows)
    assert left.endswith(f"temporary files of: {', '.join(verbs)}")
    assert counts.startswith("0 wrong; ")


SAMPLE = Sample(("copy", "a", "b"), Path(), {"b": b"whole", "log": None}, Outcome(0, b"", "nnet3: 3 done in 0.5 s\n"))


@pytest.mark.parametrize(
    ("sizes", "bytes_free", "pages_free"), [((9000, 1), [0, 4500, 8999], [0, 2, 3]), ((0,), [0], [0])]
)
def test_disks_are_too_small_for_what_differs_in_each_run(
    tmp_path: Path, sizes: tuple[int, ...], bytes_free: list[int], pages_free: list[int]
) -> None:
    (tmp_path / "folder").mkdir()
    limits, free = list[int | None](), list[int]()

    class NoRoom(Disk):
        def full(self, bytes_free: int) -> contextlib.nullcontext[None]:
            free.append(bytes_free // 4096)
            return contextlib.nullcontext()

    class Failing(Programs):
        def __init__(self) -> None:
            pass

        def run(self, words: tuple[str, ...], folder: Path, harm: Harm, out: str = "") -> Outcome:
            limits.append(harm.largest)
            return Outcome(1, b"", "nnet3: log: no room\n")

    made = {f"log{number}": None for number in range(len(sizes))}
    sample = Sample(("copy", "a", "b"), tmp_path / "folder", made, sizes=sizes)
    verdict = Verdict()
    Trials(Failing(), NoRoom(tmp_path, True))._full_disk(sample, verdict)
    assert (limits, free) == ([*bytes_free, *(None for _ in pages_free)], pages_free)
    assert str(verdict) == f"ok ({len(limits)})"


@pytest.mark.parametrize(
    ("after", "wrong"),
    [
        ({"a": b"input"}, []),
        ({"a": b"input", "b": b"whole", "log": b"any"}, []),
        ({"a": b"inp"}, ["changed a"]),
        ({}, ["changed a"]),
        ({"a": b"input", "b": b"who"}, ["left b (3 bytes)"]),
        ({"a": b"input", ".b.0.tmp": b""}, ["left .b.0.tmp (0 bytes)"]),
    ],
)
def test_damage_is_seen(after: dict[str, bytes], wrong: list[str]) -> None:
    assert _damage({"a": b"input"}, after, SAMPLE) == wrong


@pytest.mark.parametrize(
    ("status", "said", "is_wrong"),
    [
        (1, "nnet3: b: cannot write this file\n", False),
        (1, "nnet3: 4 done in 0.6 s\nnnet3: warning: x\nnnet3: b: cannot write this file\n", False),
        (2, "Usage: nnet3 copy\nTry it\n\nError: no such option\n", False),
        (1, "", True),
        (1, "nnet3: b: no\nnnet3: c: no\n", True),
        (1, "nnet3: b: no\nTraceback (most recent call last):\nOSError\n", True),
        (120, "nnet3: b: no\n", True),
        (None, "nnet3: b: no\n", True),
    ],
)
def test_what_is_told_wrong_is_seen(status: int | None, said: str, is_wrong: bool) -> None:
    assert bool(_told_wrong(Outcome(status, b"", said), SAMPLE)) == is_wrong


def test_commands_of_a_line() -> None:
    line = "for k in 1 2; do echo $k; done > x; nnet3 copy 'a; b |' c && nnet3-info c | head -n 1"
    parts = ["for k in 1 2; do echo $k; done > x", "nnet3 copy 'a; b |' c", "nnet3-info c | head -n 1"]
    assert _parts_of(line) == parts
    assert [_words_of(part) for part in parts] == [(), ("copy", "a; b |", "c"), ("info", "c")]
    assert _words_of("nnet3 info - < c") == ()
