"""Settings: defaults, every kind of mistake, what counts as arithmetic, the page that describes them all."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from nnet3.base.text.values import Text, Texts
from nnet3.errors import ConfigError
from nnet3.options import Options, option
from nnet3.training.runs.settings import RunSettings, describe_settings, read_settings
from nnet3.training.runs.settings_text import parse_toml


@dataclass(frozen=True)
class _Data(Options):
    """Of a test."""

    train: tuple[str, ...] = option((), Texts(), "examples")
    size: str = option("64", Text(description="a number of examples", parse=int), "of a minibatch")


@dataclass(frozen=True)
class _Other(Options):
    """Of another kind."""


KINDS: dict[str, type[Options]] = {"frames": _Data, "chain": _Other}
OBJECTIVES: dict[str, type[Options]] = {"by-node": _Other}
LEAST = '[model]\nfile = "net.config"\n[output]\nfolder = "exp"\n'


def _read(text: str) -> RunSettings:
    return read_settings(parse_toml(text, "run.toml"), KINDS, OBJECTIVES)


def test_defaults_and_values() -> None:
    settings = _read(
        LEAST + "[data]\ntrain = 'ark:a'\nsize = 32\n[training]\nepochs = 3\ninitial_learning_rate = '2e-2'\n"
    )
    assert settings.training.epochs == 3
    assert _read(LEAST + "[training]\nmin-deriv-time = 4\nmax-deriv-time = 4\n").training.max_deriv_time == 4
    assert settings.training.initial_learning_rate == 0.02
    assert settings.training.max_param_change == 2.0
    assert (settings.data_kind, settings.objective_kind) == ("frames", "by-node")
    assert settings.data == _Data(("ark:a",), "32")
    assert _read(LEAST + "[data]\nkind = 'chain'\n").data == _Other()


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ("[training]\nepoch = 3", "run.toml:6:1: [training] epoch: there is no such key in this section|'epochs'?"),
        ("[trainning]\nepochs = 3", "run.toml:5:2: [trainning]: there is no such section|did you mean 'training'?"),
        ("[training]\nepochs = 0", "epochs: expected an integer >= 1, got 0"),
        ("[training]\nepochs = 1.5", "epochs: expected an integer >= 1, got 1.5"),
        ("[training]\nepochs = true", "epochs: expected an integer >= 1, got True"),
        ("[training]\nmomentum = 1.5", "momentum: expected a number >= 0 and < 1, got 1.5"),
        ("[training]\nmin-deriv-time = 0.5", "min-deriv-time: expected an integer, got 0.5"),
        ("[training]\nmin-deriv-time = 5\nmax-deriv-time = 4", "min_deriv_time is 5, after max_deriv_time, 4"),
        ("[training]\nmin-deriv-time = 5\nderiv-truncate-margin = 8", "deriv-truncate-margin says it too"),
        ("[training]\nmomentum = nan", "momentum: expected a number >= 0 and < 1, got nan"),
        ("[training]\ninitial-learning-rate = 'fast'", "expected a number > 0, got 'fast'"),
        ("[training]\nfinal-learning-rate = 0", "expected a number > 0, got 0"),
        ("[training]\ninitial-learning-rate = 1e-4", "expected at least final-learning-rate, which is 0.001"),
        ("[training]\nmomentum = 0.5\nbackstitch-training-scale = 1", "backstitch needs momentum = 0, got 0.5"),
        ("[distributed]\nmode = 'allreduce'", "expected one of all-reduce, averaging, got 'allreduce'"),
        ("[data]\nkind = 'frame'", "expected a kind of data, got 'frame'|did you mean 'frames'?"),
        ("[data]\nkind = 3", "expected a kind of data, got 3|known: frames, chain"),
        ("[data]\nsize = 'many'", "size: expected a number of examples, got 'many'"),
        ("[data]\ntrain = [1]", "train: expected text or a list of texts, got [1]"),
        ("[data]\nkind = 'chain'\ntrain = 'x'", "train: there is no such key"),
        ("[objective]\nkind = 'x'", "expected a kind of objective, got 'x'"),
    ],
)
def test_mistakes_say_place_and_what_was_expected(lines: str, message: str) -> None:
    with pytest.raises(ConfigError) as error:
        _read(LEAST + lines)
    for part in message.split("|"):
        assert part in str(error.value)


@pytest.mark.parametrize(("length", "shown"), [(77, "'" + 77 * "x" + "'"), (78, "a str")])
def test_long_values_are_shown_by_their_type(length: int, shown: str) -> None:
    with pytest.raises(ConfigError) as error:
        _read(LEAST + f"[training]\nepochs = '{length * 'x'}'")
    assert f"expected an integer >= 1, got {shown}\n" in str(error.value)


def test_what_is_missing() -> None:
    with pytest.raises(
        ConfigError, match=r"run.toml: \[output\]: the key 'folder' is missing: expected where all goes"
    ):
        _read('[model]\nfile = "x"')


def test_arithmetic_is_what_changes_parameters() -> None:
    before = _read(LEAST).arithmetic()
    after = _read(LEAST + "[training]\nepochs = 3\nmax-skipped = 7\n[checkpoints]\nevery = 3\n").arithmetic()
    assert {key for key in before if before[key] != after[key]} == {"training.epochs"}
    assert before["data.train"] == []


def test_arithmetic_has_plain_values_and_the_kinds() -> None:
    values = _read(LEAST + "[data]\ntrain = ['ark:a', 'ark:b']\n").arithmetic()
    assert values["data.train"] == ["ark:a", "ark:b"]
    assert (values["data.kind"], values["objective.kind"]) == ("frames", "by-node")
    assert values["training.initial-learning-rate"] == 0.01
    assert _read(LEAST + "[data]\nkind = 'chain'\n").arithmetic()["data.kind"] == "chain"


@pytest.mark.parametrize(
    ("lines", "hint"),
    [
        (
            "[zzzz]\n",
            "known: model, lda, training, validation, combination, priors, checkpoints, distributed, output, data",
        ),
        ("[validation]\nzzzz = 1\n", "known: every"),
        ("[data]\nzzzz = 1\n", "known: kind, train, size"),
        ("[data]\nkid = 1\n", "did you mean 'kind'?"),
        ("[data]\nsize = [1]\n", "expected a number of examples, got [1]"),
    ],
)
def test_near_names_are_suggested(lines: str, hint: str) -> None:
    with pytest.raises(ConfigError) as error:
        _read(LEAST + lines)
    assert hint in str(error.value)


@pytest.mark.parametrize(
    "lines",
    [
        "momentum = 0.5",
        "backstitch-training-scale = 1",
        "deriv-truncate-margin = 0\nmax-deriv-time = 2147483647",
        "max-deriv-time-relative = 5",
        "initial-learning-rate = 0.001",
        "initial-learning-rate = 1e-4\nfinal-learning-rate = 1e-3",
    ],
)
def test_what_goes_together(lines: str) -> None:
    training = _read(LEAST + "[training]\n" + lines).training
    for line in lines.splitlines():
        key, value = line.split(" = ")
        expected = None if value == "2147483647" else float(value)  # Kaldi's number for no time
        assert getattr(training, key.replace("-", "_")) == expected


@pytest.mark.parametrize("key", ["min-deriv-time", "max-deriv-time", "max-deriv-time-relative"])
@pytest.mark.parametrize("margin", [0, 8])
def test_derivative_times_are_said_once(key: str, margin: int) -> None:
    with pytest.raises(ConfigError, match=rf"run.toml:6:1: \[training\] {key}: deriv-truncate-margin says it too"):
        _read(LEAST + f"[training]\n{key} = 5\nderiv-truncate-margin = {margin}\n")


def test_what_the_description_looks_like() -> None:
    lines = describe_settings(KINDS, OBJECTIVES).splitlines()
    begin = lines.index("[data]  # Of a test.")
    assert lines[begin - 1 : begin + 11] == [
        "",
        "[data]  # Of a test.",
        'kind = "frames"',
        "train = []                            # examples",
        'size = "64"                           # of a minibatch',
        "",
        "# [data]  # Of another kind.",
        '# kind = "chain"',
        "",
        "[objective]  # Of another kind.",
        'kind = "by-node"',
        "",
    ]
    assert lines[begin + 11].startswith("[lda]")
    assert "curves = true                         # curves.png, if matplotlib is installed" in lines
    assert "momentum = 0.0                        # 0 <= momentum < 1." in lines


def test_the_description_is_a_settings_file_with_the_defaults() -> None:
    text = describe_settings(KINDS, OBJECTIVES)
    described = text.replace('file = ""  ', 'file = "x"').replace('folder = ""  ', 'folder = "y"')
    settings, defaults = _read(described), _read(LEAST)
    assert settings.training == defaults.training
    assert settings.data == defaults.data
    assert '# kind = "chain"' in text
    assert "# times that all examples are seen" in text
