"""`nnet3 transcribe`: formats, sources, and recordings that cannot be read."""

from __future__ import annotations

import io
import json
import os
import signal
import struct
import subprocess
import sys
import wave
from pathlib import Path

import numpy as np
import pytest

from nnet3.asr import Model, Recognizer
from nnet3.cli.transcribing import _heard, _Interrupt, _Progress
from nnet3.speech.features.audio_file import open_raw
from tests.asr.small_recognizer import PIECE, RATE, audio, write_recognizer
from tests.asr.small_speakers import write_speaker_model
from tests.cli.run_command import Cli
from tests.effort import at_night
from tests.patience import PATIENCE

AUDIO = audio(1.5)


def wav_bytes(samples: np.ndarray, width: int = 2, rate: int = RATE) -> bytes:
    contents = io.BytesIO()
    with wave.open(contents, "wb") as file:
        file.setnchannels(1 if samples.ndim == 1 else samples.shape[1])
        file.setsampwidth(width)
        file.setframerate(rate)
        file.writeframes(samples.tobytes())
    return contents.getvalue()


@pytest.fixture
def folder(cli: Cli, tmp_path: Path) -> Path:
    write_recognizer(tmp_path / "model")
    (tmp_path / "a.wav").write_bytes(wav_bytes(AUDIO))
    return tmp_path


def expected(model: Path) -> list[str]:
    return heard_in(model, AUDIO)


def heard_in(model: Path, samples: np.ndarray) -> list[str]:
    recognizer = Recognizer(Model(model), RATE)
    parts = np.split(samples, range(PIECE, len(samples), PIECE))
    heard = [recognizer.result() for part in parts if recognizer.accept(part)]
    return [spoken.text for spoken in [*heard, recognizer.finish()] if spoken.words]


def test_formats(cli: Cli, folder: Path) -> None:
    texts = expected(folder / "model")
    words = " ".join(texts).split()
    outcome = cli.good("transcribe", "model", "a.wav")
    assert outcome.out == "".join(text + "\n" for text in texts)
    assert "1 recordings transcribed, 0 left out; 1.5 s of audio in " in outcome.err
    document = json.loads(cli.good("transcribe", "--json", "model", "a.wav").out)
    assert [result["text"] for result in document["results"]] == texts
    ctm = [line.split() for line in cli.good("transcribe", "--ctm", "model", "a.wav").out.splitlines()]
    assert [line[4] for line in ctm] == words
    assert all(line[:2] == ["a", "1"] and len(line) == 6 for line in ctm)
    srt, vtt = (cli.good("transcribe", each, "model", "a.wav").out for each in ("--srt", "--vtt"))
    assert srt.startswith("1\n00:00:00,")
    assert vtt.startswith("WEBVTT\n\n1\n00:00:00.")
    document = json.loads(cli.good("transcribe", "--json", "--alternatives=1", "model", "a.wav").out)
    assert list(document["results"][0]) == ["alternatives"]


def test_sources(cli: Cli, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = " ".join(expected(folder / "model"))
    stereo = np.stack([AUDIO, np.zeros_like(AUDIO)], axis=1)
    (folder / "wide.wav").write_bytes(wav_bytes(stereo.astype("<i4") << 16, width=4))
    (folder / "a.raw").write_bytes(AUDIO.tobytes())
    (folder / "wav.scp").write_text("one a.wav\nmissing b.wav\ntwo cat a.wav |\n")
    outcome = cli.good("transcribe", "--channel=0", "model", "a.wav", "wide.wav", "scp:wav.scp")
    assert outcome.out == f"a {text}\nwide {text}\none {text}\ntwo {text}\n"
    assert outcome.err.count("warning: ") == 1
    assert "the entry 'missing'" in outcome.err
    assert "4 recordings transcribed, 1 left out" in outcome.err
    assert cli.good("transcribe", "--raw", f"--sample-rate={RATE}", "model", "a.raw").out.split() == text.split()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(wav_bytes(AUDIO))))
    assert cli.good("transcribe", "model", "-").out.split() == text.split()
    outcome = cli.good("transcribe", "--srt", "--output-dir=out/here", "model", "a.wav", "wide.wav")
    assert outcome.out == ""
    assert sorted(path.name for path in (folder / "out/here").iterdir()) == ["a.srt", "wide.srt"]


def test_folders(cli: Cli, folder: Path) -> None:
    """A folder stands for its files, one of Kaldi's for the entries of its script."""
    text = " ".join(expected(folder / "model"))
    (folder / "talks/deep").mkdir(parents=True)
    for name in ("b.wav", "a.wav", ".hidden.wav"):
        (folder / "talks" / name).write_bytes(wav_bytes(AUDIO))
    (folder / "talks/notes.txt").write_text("no sound")
    outcome = cli.good("transcribe", "model", "talks")
    assert outcome.out == f"a {text}\nb {text}\n"
    assert "warning: talks/notes.txt: " in outcome.err
    (folder / "data").mkdir()
    (folder / "data/wav.scp").write_text("two talks/b.wav\none cat a.wav |\n")
    assert cli.good("transcribe", "model", "data", "a.wav").out == f"two {text}\none {text}\na {text}\n"
    cli.good("transcribe", "--srt", "--output-dir=out", "model", "data")
    assert sorted(path.name for path in (folder / "out").iterdir()) == ["one.srt", "two.srt"]
    outcome = cli("transcribe", "--srt", "model", "talks")
    assert (outcome.status, "subtitles of several recordings need --output-dir" in outcome.err) == (2, True)
    assert "talks/deep: there is no file in this folder" in cli("transcribe", "model", "talks/deep").err


def test_tasks(cli: Cli, folder: Path) -> None:
    """Transcripts come in the order of the recordings, whatever ends first."""
    (folder / "long.wav").write_bytes(wav_bytes(np.tile(AUDIO, 2)))
    (folder / "short.wav").write_bytes(wav_bytes(AUDIO[: len(AUDIO) // 3]))
    (folder / "wav.scp").write_text("x short.wav\nmissing none.wav\ny a.wav\nz cat short.wav |\n")
    names = ["long.wav", "a.wav", "nothing.wav", "scp:wav.scp", *["short.wav"] * 2]
    alone, side_by_side = (cli.good("transcribe", *more, "model", *names) for more in ((), ("--tasks=3",)))
    assert side_by_side.out == alone.out
    assert len(alone.out.splitlines()) == 7
    warnings = [sorted(line for line in each.err.splitlines() if "warning" in line) for each in (alone, side_by_side)]
    assert warnings[0] == warnings[1] != []
    assert "7 recordings transcribed, 2 left out" in side_by_side.err


def test_segments(cli: Cli, folder: Path) -> None:
    half = len(AUDIO) // 2 / RATE
    texts = [" ".join(heard_in(folder / "model", part)) for part in np.split(AUDIO, 2)]
    (folder / "segments").write_text(f"second a {half} -1\nfirst a 0 {half}\nlate a 100 200\nother b 0 1\n")
    outcome = cli.good("transcribe", "--segments=segments", "model", "a.wav")
    assert outcome.out == f"second {texts[1]}\nfirst {texts[0]}\n"
    assert "warning: late: a.wav: there is no sample in this recording; left out" in outcome.err
    (folder / "data").mkdir()
    (folder / "data/wav.scp").write_text("a a.wav\n")
    (folder / "data/segments").write_text(f"s a {half} {2 * half}\n")
    document = json.loads(cli.good("transcribe", "--json", "--tasks=2", "model", "data").out)
    assert {result["recording"] for result in document["results"]} == {"s"}
    assert document["results"][0]["result"][0]["start"] < half  # times count from the begin of the part
    for lines, of in (("", "none"), ("first b 0 1\n", "b")):
        (folder / "segments").write_text(lines)
        outcome = cli("transcribe", "--segments=segments", "model", "a.wav")
        assert (outcome.status, outcome.out) == (1, "")
        assert outcome.err == f"nnet3: no recording has a segment in segments, whose segments are of {of}\n"
    (folder / "segments").write_text("first a 1 0.5\n")
    outcome = cli("transcribe", "--segments=segments", "model", "a.wav")
    assert (outcome.status, "expected KEY RECORDING BEGIN END, in seconds, got 'first a 1 0.5'" in outcome.err) == (
        1,
        True,
    )


def test_speakers(cli: Cli, folder: Path) -> None:
    write_speaker_model(folder / "spk")
    long = np.tile(AUDIO, 2)
    (folder / "a.wav").write_bytes(wav_bytes(long))
    document = json.loads(cli.good("transcribe", "--json", "--spk-model=spk", "model", "a.wav", "a.wav").out)
    found = [result for result in document["results"] if "spk" in result]
    assert found
    assert all(len(result["spk"]) == 3 and result["spk_frames"] >= 50 and "recording" in result for result in found)
    assert (
        "a speaker model is a folder with mfcc.conf"
        in cli("transcribe", "--json", "--spk-model=x", "model", "a.wav").err
    )


def test_a_model_by_its_name_or_language(cli: Cli, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "models").mkdir()
    (folder / "model").rename(folder / "models/vosk-model-small-xx-0.1")
    monkeypatch.setenv("VOSK_MODEL_PATH", str(folder / "models"))
    texts = [cli.good("transcribe", name, "a.wav").out for name in ("vosk-model-small-xx-0.1", "xx")]
    assert texts[0] == texts[1] != ""
    assert "no such model directory" in cli("transcribe", "yy", "a.wav").err


@pytest.mark.parametrize("header", [False, *at_night(True)])
def test_words_come_out_of_standard_input_before_it_ends(folder: Path, programs: Path, header: bool) -> None:
    """Also with silence of zeros at the beginning."""
    sound = np.concatenate([np.zeros(RATE // 10, "<i2"), AUDIO, np.zeros(2 * RATE, "<i2")])
    texts = heard_in(folder / "model", np.tile(sound, 2))
    contents = wav_bytes(np.tile(sound, 2)) if header else np.tile(sound, 2).tobytes()
    options = [] if header else ["--raw", f"--sample-rate={RATE}"]
    command = [programs / "nnet3", "transcribe", *options, folder / "model", "-"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(contents[: len(contents) // 2])
        begin = process.stdout.readline().decode()
        process.stdin.write(contents[len(contents) // 2 :])
        process.stdin.close()
        assert (begin + process.stdout.read().decode()).splitlines() == texts


def test_a_command_whose_output_is_no_recording(cli: Cli, folder: Path) -> None:
    outcome = cli("transcribe", "model", "head -c 999 a.wav; exit 3 |", "true |", "cat nothing 2>/dev/null |")
    assert outcome.status == 1
    lines = outcome.err.splitlines()
    assert lines[0].endswith("the command failed with status 3; left out")
    assert lines[1].endswith("there is no sample in this recording; left out")
    assert lines[2].endswith("the command failed with status 1; left out")


def test_empty_and_cut_samples_without_a_header(cli: Cli, folder: Path) -> None:
    silent = np.concatenate([np.zeros(800, np.int16), AUDIO])
    (folder / "silent.raw").write_bytes(silent.tobytes())
    (folder / "raw.scp").write_text("piped cat silent.raw |\nfile silent.raw\n")
    texts = cli.good("transcribe", "--raw", f"--sample-rate={RATE}", "model", "scp:raw.scp").out.splitlines()
    assert [line.split()[1:] for line in texts] == [" ".join(heard_in(folder / "model", silent)).split()] * 2
    (folder / "empty.raw").write_bytes(b"\0")
    (folder / "cut.raw").write_bytes(AUDIO.tobytes()[:-1])
    outcome = cli.good("transcribe", "--raw", f"--sample-rate={RATE}", "model", "empty.raw", "cut.raw")
    assert "warning: empty: empty.raw: there is no sample in this recording; left out" in outcome.err
    assert "warning: cut: the last sample is cut" in outcome.err
    assert outcome.out.split() == ["cut", *" ".join(expected(folder / "model")).split()]


def test_recordings_of_one_name_do_not_overwrite_each_other(cli: Cli, folder: Path) -> None:
    (folder / "b").mkdir()
    (folder / "b/a.wav").write_bytes(wav_bytes(AUDIO[: len(AUDIO) // 2]))
    outcome = cli.good("transcribe", "--output-dir=out", "model", "a.wav", "b/a.wav")
    assert sorted(path.name for path in (folder / "out").iterdir()) == ["a-2.txt", "a.txt"]
    assert "warning: there is a recording a before this one: its words are in a-2.txt" in outcome.err
    assert (folder / "out/a.txt").read_text().split() == " ".join(expected(folder / "model")).split()


def test_bad_recordings(cli: Cli, folder: Path) -> None:
    (folder / "cut.wav").write_bytes(wav_bytes(AUDIO)[:-999])
    (folder / "empty.wav").write_bytes(wav_bytes(AUDIO[:0]))
    (folder / "fast.wav").write_bytes(wav_bytes(AUDIO, rate=2 * RATE))
    (folder / "noise.wav").write_bytes(b"RIFF" + struct.pack("<I", 99) + b"nonsense")
    outcome = cli("transcribe", "model", "empty.wav", "noise.wav", "none.wav", "model")
    assert outcome.status == 1
    lines = outcome.err.splitlines()
    assert lines[0] == "nnet3: warning: empty: empty.wav: there is no sample in this recording; left out"
    assert lines[1].startswith("nnet3: warning: noise.wav: ")
    assert lines[2] == "nnet3: warning: cannot read none.wav: No such file or directory; left out"
    assert lines[-1] == "nnet3: no recording was transcribed (4 left out)"
    outcome = cli.good("transcribe", "model", "cut.wav", "fast.wav")
    assert "warning: cut: the file is cut: " in outcome.err
    assert "fast: resampled from 16000 to 8000 Hz" in outcome.err
    assert "no such model directory" in cli("transcribe", "nothing", "a.wav").err
    assert "a.wav: --output-dir takes a folder" in cli("transcribe", "--output-dir=a.wav", "model", "b.wav").err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--raw"], "--raw needs --sample-rate"),
        (["--sample-rate=8000"], "--sample-rate is for --raw"),
        (["--alternatives=2"], "--alternatives are for --json"),
        (["--spk-model=spk"], "--spk-model is for --json"),
        (["--json", "--alternatives=2", "--spk-model=spk"], "results of Vosk have one of both"),
        (["--tasks=0"], "Invalid value for '--tasks'"),
        (["--srt", "b.wav"], "subtitles of several recordings need --output-dir"),
    ],
)
def test_wrong_usage(cli: Cli, arguments: list[str], message: str) -> None:
    outcome = cli("transcribe", "model", "a.wav", *arguments)
    assert outcome.status == 2
    assert message in outcome.err


def test_a_table_with_options_has_several_recordings(cli: Cli) -> None:
    outcome = cli("transcribe", "--vtt", "model", "scp,p:wav.scp")
    assert (outcome.status, "subtitles of several recordings need --output-dir" in outcome.err) == (2, True)


def test_a_warning_begins_with_the_key(cli: Cli, folder: Path) -> None:
    """Also where the key is a word of the message."""
    (folder / "empty.raw").write_bytes(b"")
    (folder / "wav.scp").write_text("sample empty.raw\nthere cat empty.raw |\nno none.raw\n")
    outcome = cli("transcribe", "--raw", f"--sample-rate={RATE}", "model", "scp:wav.scp")
    assert outcome.err.splitlines()[:3] == [
        "nnet3: warning: sample: empty.raw: there is no sample in this recording; left out",
        "nnet3: warning: there: cat empty.raw |: there is no sample in this recording; left out",
        "nnet3: warning: the entry 'no': cannot read none.raw: No such file or directory; left out",
    ]


def test_pcm_of_commands_in_a_table(cli: Cli, folder: Path) -> None:
    """It may begin with any bytes, also with those of Kaldi's binary data, or with a zero."""
    for begin in ([0, 66], [0, 1], [7, 0]):
        samples = AUDIO[: len(AUDIO) // 2].copy()
        samples[:1] = np.frombuffer(bytes(begin), "<i2")
        (folder / "a.pcm").write_bytes(samples.astype("<i2").tobytes())
        (folder / "pcm.scp").write_text("file a.pcm\npipe cat a.pcm |\n")
        outcome = cli.good("transcribe", "--raw", f"--sample-rate={RATE}", "model", "scp:pcm.scp")
        text = " ".join(heard_in(folder / "model", samples))
        assert outcome.out == f"file {text}\npipe {text}\n"


class _Interrupted(io.BytesIO):
    """Behind its end somebody interrupts who would wait for more."""

    def read(self, count: int | None = -1, /) -> bytes:
        contents = super().read(count)
        if not contents:
            os.kill(os.getpid(), signal.SIGINT)
        return contents


def test_what_was_said_before_ctrl_c_is_written(folder: Path) -> None:
    recognizer = Recognizer(Model(folder / "model"), RATE)
    recording = open_raw(_Interrupted(AUDIO.tobytes()), "pipe", RATE, 1)
    before = signal.getsignal(signal.SIGINT)
    with _Interrupt() as interrupt:
        heard = [each.text for each in _heard(recognizer, recording, "pipe", _Progress(quiet=True), interrupt)]
    assert interrupt.came
    assert heard == expected(folder / "model")
    assert signal.getsignal(signal.SIGINT) is before


def test_ctrl_c_waits_for_what_is_being_done_and_a_second_one_does_not() -> None:
    parts = (np.full(1, number) for number in range(5))
    with _Interrupt() as interrupt:
        for part in interrupt.until(parts):
            if part[0] == 2:
                os.kill(os.getpid(), signal.SIGINT)
        assert part[0] == 2
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)


def test_ctrl_c_ends_the_program(folder: Path, programs: Path) -> None:
    """It waits for the last third of a recording."""
    command = [programs / "nnet3", "transcribe", "model", "-"]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, cwd=folder, stdin=pipe, stdout=pipe, stderr=pipe) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(wav_bytes(np.tile(AUDIO, 3))[: len(wav_bytes(np.tile(AUDIO, 2)))])
        process.stdin.flush()
        assert process.stdout.readline().decode().strip() == expected(folder / "model")[0]
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE) == 130
        assert process.stderr is not None
        assert b"Traceback" not in process.stderr.read()
