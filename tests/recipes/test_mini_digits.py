"""The whole recipe on a few made-up recordings: words are heard, stages resume, a second run is kept out."""

from __future__ import annotations

import fcntl
import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from nnet3.errors import Nnet3Error
from nnet3.kaldi_io import write_atomically
from nnet3.speech.language_models.arpa import parse_arpa
from nnet3.training.runs import reports
from recipes.mini_digits import dictionary, speech, training
from recipes.mini_digits.__main__ import main
from recipes.mini_digits.lines import Lines
from recipes.mini_digits.recipe import MiniDigitsRun
from recipes.mini_digits.settings import LanguageModel, Lattices, MiniDigits, Network
from recipes.spoken_digits.recordings import read_recordings
from tests.effort import EFFORT, nightly
from tests.recipes.shallow import shallow
from tests.recipes.synthetic_recordings import write_recordings

pytest.importorskip("kaldi_native_fbank", reason="features of speech need kaldi-native-fbank")
pytest.importorskip("matplotlib", reason="the report needs matplotlib")
pytest.importorskip("kaldifst", reason="graphs need kaldifst")

TINY = MiniDigits(
    strings=(12, 2, 2), width=32, bottleneck=8, min_count=8, beams=(6.0, 2.0), lm_weights=(10,),
    word_penalties=(0.0, 1.0),
    flat=Network(1, "1:8", 0.004, 0.002, 1), chain=Network(1, "1:16", 0.004, 0.002, 1),
    lattices=Lattices(epochs=1, minibatch="1:16", beam=6.0, lattice_beam=1.0),
    numbers=LanguageModel((60, 2, 2), epochs=1),
)  # fmt: skip
STAGES = (
    *("lang", "data", "lang_test", "flat_graphs", "flat_start", "ali", "tree", "egs", "chain"),
    *("ali_again", "egs_again", "chain_again", "lang_degs", "ali_degs", "degs", "degs_model"),
    *("numbers", "lang_numbers", "rnnlm"),
)
DECODED = (
    *("decode_flat_start", "decode_chain", "decode_chain_again", "decode_degs_model"),
    *("decode_numbers", "decode_numbers_rnnlm"),
)
_OTHERS = (  # of kinds that come before
    *("ali_again", "egs_again", "chain_again", "decode_chain", "decode_chain_again", "decode_degs_model"),
    *("decode_numbers", "decode_numbers_rnnlm"),
)


@pytest.fixture(scope="module", autouse=True)
def _small_by_day(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A network of fewer layers than the recipe's, strings of three digits and of few lengths, no curves of runs."""
    with pytest.MonkeyPatch.context() as patch:
        if EFFORT == 1:
            network = shallow(training.XCONFIG, tmp_path_factory.mktemp("network"), without="2345")
            patch.setattr(training, "XCONFIG", network)
            patch.setattr(speech, "MOST", speech.FEWEST)
            patch.setattr(speech, "_STEP", 1.5)
            patch.setattr(reports, "can_draw", lambda: False)
        yield


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_recordings(tmp_path_factory.mktemp("recordings") / "recordings.zip", ["ann", "bob"], 9)


def _run(archive: Path, out: Path) -> Path:
    return MiniDigitsRun(archive, out, TINY, Lines(jobs=2, in_process=True)).run()


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory, archive: Path) -> Path:
    folder = tmp_path_factory.mktemp("mini") / "out"
    folder.mkdir()
    _run(archive, folder)
    return folder


def test_all_stages_and_the_report(out: Path) -> None:
    assert all((out / name / "done.json").exists() for name in (*STAGES, *DECODED))
    text = (out / "report.md").read_text()
    assert all(f"| {name} |" in text for name in ("flat start", "TDNN-F", *STAGES, "all"))
    for picture in ("training.png", "alignment.png", "rates.png"):
        assert (out / picture).read_bytes().startswith(b"\x89PNG")
        assert f"({picture})" in text
    for name in DECODED:
        assert (out / name / "test" / "wer").read_text().startswith("%WER ")
        assert len(json.loads((out / name / "valid" / "rates.json").read_text())) == 2
        assert len(json.loads((out / name / "test" / "rates.json").read_text())) == 1  # nothing is chosen by the test


def test_what_is_done_is_not_done_again_and_the_rest_goes_on(
    out: Path, archive: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("recipes.mini_digits.report.write_report", lambda *_: None)
    copy = shutil.copytree(out, tmp_path / "out")
    heard = (out / "decode_chain" / "test" / "heard.txt").read_text()
    for name in ("lang_test", "decode_chain"):
        (copy / name / "done.json").unlink()  # as if killed before its end
    shutil.rmtree(copy / "decode_chain" / "graph")
    _run(archive, copy)
    said = capsys.readouterr().out.splitlines()
    assert [line for line in said if line.endswith("...")] == ["lang_test ...", "decode_chain ..."]
    assert (copy / "decode_chain" / "test" / "heard.txt").read_text() == heard


class Killed(Exception):
    """What ends a run, as a signal would."""


def _kind(stage: str) -> str:
    """What the stages have in common that run the same lines on other models."""
    return "decode" if stage.startswith("decode") else stage.removesuffix("_again")


class _Stopping(Lines):
    """The run is killed behind the first line of each kind of stage."""

    def run(self, folder: Path, *lines: str) -> None:
        for line in lines:
            super().run(folder, line)
            mark = folder.parent / f".{_kind(folder.name)}.killed"
            if not mark.exists():
                mark.touch()
                raise Killed


@nightly
def test_a_run_that_is_killed_in_each_stage_ends_as_one_that_is_not(
    out: Path, archive: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Behind the first line of each kind of stage, and at its end, before it is noted. Others of the kind are there."""
    for name in _OTHERS:
        shutil.copytree(out / name, tmp_path / name)
    noted = set[str]()

    def note(path: Path, contents: bytes) -> None:
        if (kind := _kind(path.parent.name)) not in noted:
            noted.add(kind)
            raise Killed
        write_atomically(path, contents)

    monkeypatch.setattr("recipes.spoken_digits.stages.write_atomically", note)
    monkeypatch.setattr("recipes.mini_digits.report.write_report", lambda *_: None)
    kills = 0
    while True:
        try:
            MiniDigitsRun(archive, tmp_path, TINY, _Stopping(jobs=2, in_process=True)).run()
            break
        except Killed:
            kills += 1
    assert kills == 2 * len({_kind(stage) for stage in (*STAGES, *DECODED)}) - 2  # no line makes data, or numbers
    for name in ("flat_start/final.mdl", "tree/tree", "chain/final.mdl", "decode_flat_start/test/heard.txt"):
        assert (tmp_path / name).read_bytes() == (out / name).read_bytes(), name


def test_a_line_that_fails_is_shown(tmp_path: Path) -> None:
    for lines in (Lines(), Lines(in_process=True)):
        with pytest.raises(Nnet3Error, match=r"(?s)this line has failed with status 1:.*tree-info .*nofile"):
            lines.run(tmp_path, f"tree-info {tmp_path}/nofile")
    assert "nofile" in (tmp_path / "log.txt").read_text()


def test_jobs_and_what_lines_print(tmp_path: Path) -> None:
    for job in (1, 2):
        (tmp_path / f"{job}.txt").write_text(f"u{job} a b\n")
    for lines in (Lines(), Lines(in_process=True)):
        lines.run(tmp_path, f"compute-wer --text ark:{tmp_path}/JOB.txt ark:{tmp_path}/JOB.txt > JOB.wer")
        assert all((tmp_path / f"{job}.wer").read_text().startswith("%WER 0.00 [ 0 / 2") for job in (1, 2))
        (tmp_path / "1.wer").unlink()


def test_several_processes_train_by_torchrun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Here, that it is told to go on with what is there; what torchrun then does is tested in tests/runs."""
    started: list[list[str]] = []

    def start(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        started.append(command)
        return subprocess.CompletedProcess(command, len(started) - 1, "", "lost")

    monkeypatch.setattr(subprocess, "run", start)
    lines = Lines(processes=2)
    lines.train(tmp_path, tmp_path / "run.toml")
    assert started[0][1:4] == ["-m", "torch.distributed.run", "--standalone"]
    assert started[0][-5:] == ["-m", "nnet3", "train-model", "--resume", f"{tmp_path}/run.toml"]
    assert "--nproc-per-node=2" in started[0]
    with pytest.raises(Nnet3Error, match=r"(?s)failed with status 1:.*torch.distributed.run.*lost"):
        lines.train(tmp_path, tmp_path / "run.toml")


def test_a_second_run_is_kept_out(archive: Path, tmp_path: Path) -> None:
    arguments = ["--recordings", str(archive), "--out", str(tmp_path)]
    with (tmp_path / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 1
    assert "another run is at work in this folder" in result.output
    result = CliRunner().invoke(main, ["--recordings", "nofile", "--out", str(tmp_path)])
    assert result.exit_code == 1
    assert "nofile" in result.output


def test_strings_do_not_depend_on_jobs(archive: Path, tmp_path: Path) -> None:
    recordings = [each for each in read_recordings(archive) if each.part == "train"]
    keys = []
    for jobs in (1, 2):
        folder = tmp_path / str(jobs)
        folder.mkdir()
        found = speech.write_features(recordings, 6, True, True, 0, folder, jobs, at_once=False)
        assert len(found) == jobs
        keys.append(sorted(key for part in found for key in part))
    assert keys[0] == keys[1]
    strings = list(speech.join(recordings, [0, 1], 6, False, True, 0))
    assert all(len(each.samples) // (each.rate // 100) in speech.lengths() for each in strings)


def test_the_language_model_sums_to_one(tmp_path: Path) -> None:
    texts = [["one", "two"], ["two", "two", "one"]]
    dictionary.write_arpa(texts, tmp_path / "lm.arpa")
    model = parse_arpa((tmp_path / "lm.arpa").read_text(), "lm.arpa")
    single = {ngram[0]: 10**value for ngram, value in model.log10.items() if len(ngram) == 1 and ngram != ("<s>",)}
    assert sum(single.values()) == pytest.approx(1, abs=1e-4)
    for word in ("<s>", "one", "two"):
        seen = {ngram[1]: 10**value for ngram, value in model.log10.items() if len(ngram) == 2 and ngram[0] == word}
        rest = 10 ** model.back_off[word,] * sum(p for each, p in single.items() if each not in seen)
        assert sum(seen.values()) + rest == pytest.approx(1, abs=1e-4)
