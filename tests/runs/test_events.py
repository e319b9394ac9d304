"""The log: what is written can be searched and read again, also after a sudden end."""

from __future__ import annotations

import json
import os
import re
from datetime import datetime
from pathlib import Path

import pytest

from nnet3.errors import Nnet3Error
from nnet3.training.runs import events as module
from nnet3.training.runs.events import EventLog, read_events


def test_one_line_an_event(tmp_path: Path) -> None:
    log = EventLog(tmp_path)
    line = log.write("train", step=3, objective=-1.23456789, key="utt 1", keys=["a", "b"], best=None)
    log.close()
    assert line == 'train step=3 objective=-1.23457 key="utt 1" keys="[\\"a\\", \\"b\\"]" best=null'
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d (.*)\n", (tmp_path / "log.txt").read_text())[1] == line  # type: ignore[index]
    event = json.loads((tmp_path / "log.jsonl").read_text())
    assert event.pop("time") > 1e9
    assert event == {
        "event": "train",
        "step": 3,
        "objective": -1.23456789,
        "key": "utt 1",
        "keys": ["a", "b"],
        "best": None,
    }


@pytest.mark.parametrize(
    ("values", "line"),
    [
        ({}, "name"),
        ({"key": ""}, 'name key=""'),
        ({"key": "a\tb"}, 'name key="a\\tb"'),
        ({"key": 'a"b'}, 'name key="a\\"b"'),
        ({"key": "a-b", "whole": 1234567, "part": 1234567.8}, "name key=a-b whole=1234567 part=1.23457e+06"),
        ({"ends": "with  "}, 'name ends="with  "'),
    ],
)  # fmt: skip
def test_words_can_be_told_apart(tmp_path: Path, values: dict[str, object], line: str) -> None:
    log = EventLog(tmp_path)
    assert log.write("name", **values) == line
    log.close()


def test_times_are_those_of_the_clock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1_700_000_000.12345
    monkeypatch.setattr(module.time, "time", lambda: now)
    log = EventLog(tmp_path)
    log.write("train", step=1)
    log.close()
    stamp = datetime.fromtimestamp(now).strftime("%Y-%m-%d %H:%M:%S")
    assert (tmp_path / "log.txt").read_text() == f"{stamp} train step=1\n"
    assert json.loads((tmp_path / "log.jsonl").read_text())["time"] == 1_700_000_000.123


def test_lines_that_are_no_events_are_left_out(tmp_path: Path) -> None:
    lines = [
        "3",
        "[]",
        '{"step": 1}',
        '{"event": 3}',
        '{"event": "x", "step": 9}',
        "",
        '{"event": "resume", "step": 9}',
    ]
    (tmp_path / "log.jsonl").write_text("\n".join(lines))
    assert [event["event"] for event in read_events(tmp_path)] == ["x", "resume"]


def test_without_a_line_of_the_checkpoint_steps_count(tmp_path: Path) -> None:
    """What has no step is of the beginning; a checkpoint of another step is none."""
    log = EventLog(tmp_path)
    log.write("settings", epochs=3)
    for step in (1, 2, 3):
        log.write("train", step=step)
    log.write("checkpoint", step=3)
    log.write("resume", step=2)
    log.close()
    events = [(event["event"], event.get("step")) for event in read_events(tmp_path)]
    assert events == [("settings", None), ("train", 1), ("train", 2), ("resume", 2)]


def test_what_was_done_again_counts_once(tmp_path: Path) -> None:
    log = EventLog(tmp_path)
    for step in (1, 2, 3):
        log.write("train", step=step, run=1)
    log.write("resume", step=1)
    log.write("train", step=2, run=2)
    log.close()
    events = [(event["event"], event["step"], event.get("run")) for event in read_events(tmp_path)]
    assert events == [("train", 1, 1), ("resume", 1, None), ("train", 2, 2)]


def test_what_follows_a_checkpoint_at_the_same_step_counts_once(tmp_path: Path) -> None:
    log = EventLog(tmp_path)
    for name in ("skip", "skip", "checkpoint", "epoch", "combine", "combine", "resume", "epoch", "combine", "combine"):
        log.write(name, step=2)
    log.close()
    names = [event["event"] for event in read_events(tmp_path)]
    assert names == ["skip", "skip", "checkpoint", "resume", "epoch", "combine", "combine"]


def test_a_line_that_was_cut_short_is_left_out(tmp_path: Path) -> None:
    log = EventLog(tmp_path)
    log.write("train", step=1)
    log.close()
    for name in ("log.txt", "log.jsonl"):
        path = tmp_path / name
        path.write_bytes(path.read_bytes() + b'{"event": "tr\xc3')
    log = EventLog(tmp_path)
    log.write("train", step=2)
    log.close()
    EventLog(tmp_path).close()
    assert [event["step"] for event in read_events(tmp_path)] == [1, 2]
    for name in ("log.txt", "log.jsonl"):
        assert (tmp_path / name).read_bytes().count(b"\n") == 3
    assert (tmp_path / "log.txt").read_bytes().endswith(b"train step=2\n")


def test_others_may_read_it_as_they_may_any_file(tmp_path: Path) -> None:
    before = os.umask(0o002)
    try:
        EventLog(tmp_path).close()
    finally:
        os.umask(before)
    assert {(tmp_path / name).stat().st_mode & 0o777 for name in ("log.txt", "log.jsonl")} == {0o664}


def test_a_log_that_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(Nnet3Error, match=r"none/log.txt: the log cannot be written: No such file"):
        EventLog(tmp_path / "none")
    (tmp_path / "log.jsonl").symlink_to("/dev/full")
    with pytest.raises(Nnet3Error, match="the log cannot be written: No space left on device"):
        EventLog(tmp_path).write("train", step=1)


def test_names_stand_in_the_log_as_they_are(tmp_path: Path) -> None:
    """Also those of files whose bytes are no UTF-8."""
    names = ["Übung/模型.raw", "mit Leerzeichen ü", os.fsdecode(b"caf\xe9.raw")]
    log = EventLog(tmp_path)
    for name in names:
        log.write("final", path=name, keys=[name])
    log.close()
    lines = (tmp_path / "log.txt").read_bytes().splitlines()
    for name, line in zip(names, lines, strict=True):
        assert line.count(os.fsencode(name)) == 2
    assert [event["path"] for event in read_events(tmp_path)] == names
    assert "模型" in (tmp_path / "log.jsonl").read_text()


def test_what_belongs_to_no_step_stays_when_the_run_begins_again(tmp_path: Path) -> None:
    log = EventLog(tmp_path)
    log.write("settings", seed=1)
    log.write("train", step=1)
    log.write("resume", step=0)
    log.close()
    assert [event["event"] for event in read_events(tmp_path)] == ["settings", "resume"]


def test_lines_of_another_form_are_left_out(tmp_path: Path) -> None:
    steps = ("1e999", '"2"', "9" * 5000, "[]")
    lines = [*(f'{{"event": "a", "step": {step}}}' for step in steps), "[]", '{"event": 3}', "[" * 100_000]
    (tmp_path / "log.jsonl").write_text("\n".join([*lines, '{"event": "checkpoint"}', '{"event": "resume"}']))
    assert [event["event"] for event in read_events(tmp_path)] == ["checkpoint", "resume"]
