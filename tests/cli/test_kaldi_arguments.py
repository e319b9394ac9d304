"""Command lines as Kaldi's programs read them, made ready for click."""

from __future__ import annotations

from pathlib import Path

import click
import pytest

from nnet3.cli.kaldi_arguments import explain_unknown, read_arguments
from nnet3.cli.options import KALDI_BOOL
from nnet3.errors import Nnet3Error

COMMAND = click.Command(
    "some",
    params=[
        click.Option(["--flag"], type=KALDI_BOOL),
        click.Option(["--other-flag", "-o"], type=KALDI_BOOL),
        click.Option(["--name"]),
        click.Option(["--scale"], type=float),
    ],
)


def _read(*words: str) -> list[str]:
    return read_arguments(COMMAND, [*words]).arguments


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("", ""),
        ("a -x b", "a -x b"),
        ("--FLAG=A_b --Other_Flag=true A_B", "--flag=A_b --other-flag=true A_B"),
        ("--flag a", "--flag=true a"),
        ("--flag", "--flag=true"),
        ("--flag false a", "--flag false a"),
        ("--flag No a", "--flag No a"),
        ("--flag --other-flag", "--flag=true --other-flag=true"),
        ("-o a", "-o=true a"),
        ("--scale 2 a", "--scale 2 a"),
        ("--name=x --name= a", "a"),
        ("--name=x --name=y --name=", ""),
        ("--name= --name=y", "--name=y"),
        ("--scale= a", "--scale= a"),
        ("--flag= a", "--flag= a"),
        ("--flag -- --flag --name= --A_B", "--flag=true -- --flag --name= --A_B"),
    ],
)
def test_words_become_click_arguments(words: str, expected: str) -> None:
    assert _read(*words.split()) == expected.split()


def test_negative_numbers_are_arguments() -> None:
    read = _read("-2", "--scale", "-3", "--flag", "-.5e-3", "-o", "-x")
    assert read == [" -2", "--scale", "-3", "--flag=true", " -.5e-3", "-o=true", "-x"]


def test_config_files_come_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a.conf").write_text("# all of it\n  --Some_Name=A  # why\n\n--flag\n")
    Path("b.conf").write_text("--scale=2\n")
    expected = ["--some-name=A", "--flag=true", "--scale=2", "x", "y"]
    assert _read("x", "--config=a.conf", "y", "--config", "b.conf") == expected
    assert _read("--config=", "x") == ["x"]
    assert _read("x", "--", "--config=a.conf") == ["x", "--", "--config=a.conf"]
    with pytest.raises(click.UsageError, match="Option '--config' requires an argument"):
        _read("x", "--config")


def test_what_is_no_config_file(tmp_path: Path) -> None:
    path = tmp_path / "x.conf"
    for text, message in (
        (f"\n{'x' * 70}\n", f"x.conf:2: expected an option such as --scale=0.5, got '{'x' * 60}'$"),
        ("--a=1\nb=2  # c\n", "x.conf:2: expected an option such as --scale=0.5, got 'b=2'; did you mean '--b=2'"),
    ):
        path.write_text(text)
        with pytest.raises(Nnet3Error, match=message):
            _read(f"--config={path}")
    path.write_bytes(b"--name=\xe9\n")
    with pytest.raises(Nnet3Error, match=r"not a text file; --config takes a file of options such as --scale=0\.5"):
        _read(f"--config={path}")
    with pytest.raises(Nnet3Error, match="/dev/zero: this is a device, not a file"):
        _read("--config=/dev/zero")


@pytest.mark.parametrize(
    ("word", "name", "value"),
    [
        ("--optimization.optimize=False", "optimization.optimize", False),
        ("--optimization.optimize", "optimization.optimize", True),
        ("--Optimization.Snip_Row_Ops=1", "optimization.snip-row-ops", True),
        ("--compiler.cache-capacity=64", "compiler.cache-capacity", 64),
        ("--optimization.min-deriv-time=-5", "optimization.min-deriv-time", -5),
        ("--optimization.max-deriv-time=+5", "optimization.max-deriv-time", 5),
        ("--cuda-memory-proportion=0.7", "cuda-memory-proportion", 0.7),
        ("--cuda-cache-memory=false", "cuda-cache-memory", False),
    ],
)
def test_what_steers_internals_is_set_apart(word: str, name: str, value: object) -> None:
    read = read_arguments(COMMAND, ["a", word, "b"])
    assert read.arguments == ["a", "b"]
    assert read.internals == {name: value}
    assert _read(word.removeprefix("--")) == [word.removeprefix("--")]


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("--computation.debug=2", "Invalid value for '--computation.debug': it takes true or false, got '2'"),
        ("--compiler.cache-capacity", "it takes an integer, got 'true'"),
        ("--compiler.cache-capacity=1.5", "it takes an integer, got '1.5'"),
        ("--optimization.level=9", "it takes an integer from 0 to 4, got '9'"),
    ],
)
def test_values_of_internals(word: str, message: str) -> None:
    with pytest.raises(click.UsageError, match=message):
        _read(word)


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("--flg", "No such option '--flg'; did you mean '--flag'?"),
        ("--flg=true", "No such option '--flg'; did you mean '--flag'?"),
        ("--othr-flag", "No such option '--othr-flag'; did you mean '--other-flag'?"),
        ("--something", "No such option '--something'"),
        ("--optimise", "No such option '--optimise'"),  # a known option that is not ours is not proposed
        ("--computation.debg", "No such option '--computation.debg'; did you mean '--computation.debug'?"),
        ("--raw", "No such option '--raw': Kaldi has it, but it is for other programs, or not supported here yet"),
        ("-f", "No such option '-f'"),
    ],
)
def test_unknown_options_are_explained(option: str, message: str) -> None:
    of_verbs = {"flag", "other-flag", "name", "scale", "raw", "optimize"}
    assert explain_unknown(option, COMMAND, of_verbs) == message
