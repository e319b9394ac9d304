"""Settings files as text: sections, places, what is no TOML or YAML."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from nnet3.errors import ConfigError, Nnet3Error
from nnet3.training.runs.settings_text import parse_toml, parse_yaml, read_settings_text
from tests.call_count import count_calls

TOML = """# a run
[training]
epochs = 3  # each
learning_rate = 1e-3
text = \"\"\"
key = not a key
\"\"\"

[data]
train = ["a", "b"]
"""
YAML = """# a run
training:
  epochs: 3
  learning_rate: 1e-3
  text: "key = not a key"
data:
  train: [a, b]
"""


def test_both_languages_give_the_same() -> None:
    toml, yaml = parse_toml(TOML, "run.toml"), parse_yaml(YAML, "run.yaml")
    assert toml.sections["data"] == yaml.sections["data"] == {"train": ["a", "b"]}
    assert toml.sections["training"]["epochs"] == yaml.sections["training"]["epochs"] == 3
    assert set(toml.places) == set(yaml.places)
    assert ("training", "key") not in toml.places
    assert toml.places["training", "learning-rate"][1:4] == (4, 1, 13)
    assert yaml.places["training", "learning-rate"][1:4] == (4, 3, 13)
    assert yaml.places["training", "learning-rate"].text == "  learning_rate: 1e-3"
    assert yaml.places["data", ""][1:4] == (6, 1, 4)
    assert toml.places["data", "train"].text == 'train = ["a", "b"]'


def test_a_range_in_yaml_is_no_number_to_the_base_60() -> None:
    values = {"1:16": "1:16", "1:30.5": "1:30.5", "!!int 1:16": 76, "64": 64, "1.5": 1.5, "[1:2, 3]": ["1:2", 3]}
    text = "data:\n" + "".join(f"  key{number}: {value}\n" for number, value in enumerate(values))
    assert list(parse_yaml(text, "run.yaml").sections["data"].values()) == list(values.values())


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("# a run\ntraining.epochs = 0\ntraining.seed = 1\n", (2, 1, 15)),
        ("training = {seed = 1, epochs = 0}\n", (1, 1, 8)),
        ("[ 'training' ]\n  \"epochs\"  = 0\nseed = 1\n", (2, 3, 8)),
        ("# a line\u2028that Python would end\r\n[training]\r\nseed = 1\r\nepochs = 0\r\n", (4, 1, 6)),
    ],
)
def test_a_place_however_it_is_written(text: str, place: tuple[int, int, int]) -> None:
    settings = parse_toml(text, "run.toml")
    assert settings.sections["training"] == {"seed": 1, "epochs": 0}
    span = settings.error("training", "epochs", "wrong").span
    assert span is not None
    assert (span.line, span.column, span.length) == place
    assert span.text == text.split("\n")[place[0] - 1].rstrip("\r")


def test_an_error_points_at_key_section_or_file() -> None:
    text = parse_toml(TOML, "run.toml")
    assert str(text.error("training", "epochs", "wrong")).splitlines() == [
        "run.toml:3:1: [training] epochs: wrong",
        "  epochs = 3  # each",
        "  ^^^^^^",
    ]
    assert str(text.error("training", "momentum", "wrong", "a hint")).splitlines()[0] == (
        "run.toml:2:2: [training] momentum: wrong"
    )
    assert str(text.error("output", "", "missing")) == "run.toml: [output]: missing"


@pytest.mark.parametrize(
    ("contents", "place"),
    [
        ("[a]\nx = = 1\n", "run.toml:2:5: this is not TOML"),
        ("[a]\nx = 1\nx = 2\n", "run.toml:3:"),
        ("x = 1\n", "run.toml:1:1: [x]: expected a section with keys, got 1"),
        ("[a]\nx-y = 1\nx_y = 2\n", "run.toml:2:1: [a] x-y: this key is given twice, with - and with _"),
        ("[a]\nx = 'y", "run.toml:2:1: this is not TOML"),
        ('[a]\nx = """\ny', "run.toml:3:1: this is not TOML"),
        (f"x = '{77 * 'y'}'\n", f"[x]: expected a section with keys, got '{77 * 'y'}'"),
        (f"x = '{78 * 'y'}'\n", "[x]: expected a section with keys, got a str"),
        (f"[a]\nx = {'9' * 5000}", "run.toml:2:1: this is not TOML: Exceeds the limit (4300 digits)"),
        (f"x = 0x{'f' * 5000}\n", "run.toml:1:1: [x]: expected a section with keys, got an int"),
        (f"[a]\nx = {'[' * 5000}{']' * 5000}", "run.toml:2:1: this is not TOML: the values are nested too deeply"),
        ("[[a]]\nx = 1\n", "run.toml:1:3: [a]: expected a section with keys, got [{'x': 1}]"),
    ],
)
def test_wrong_toml_is_refused_with_its_place(contents: str, place: str) -> None:
    with pytest.raises(ConfigError) as error:
        parse_toml(contents, "run.toml")
    assert place in str(error.value)


@pytest.mark.parametrize(
    ("contents", "place"),
    [
        ("a: [1\nb: 2\n", "run.yaml:2:"),
        ("a:\n  x: 1\n  x: 2\n", "run.yaml:3:3: 'x' is given twice"),
        ("\n- a\n- b\n", "run.yaml:2:1: expected sections such as [training], got ['a', 'b']"),
        ("a:\n  - 1\n  - 2001-13-45\n", "run.yaml:3:5: this is not YAML: month must be in 1..12"),
        ("a:\n  x: !!bool abc\n", "run.yaml:2:6: this is not YAML: 'abc' is no tag:yaml.org,2002:bool"),
        ("a:\n  x: !!int ''\n", "run.yaml:2:6: this is not YAML: '' is no tag:yaml.org,2002:int"),
        ("a:\n  x: !!float _\n", "run.yaml:2:6: this is not YAML: '_' is no tag:yaml.org,2002:float"),
        ("a:\n  x: !!timestamp now\n", "run.yaml:2:6: this is not YAML: 'now' is no tag:yaml.org,2002:timestamp"),
        ("a:\n  x: 2001-01-01 01:01:01 +99:99\n", "run.yaml:2:6: this is not YAML: offset must be"),
        (f"a:\n  x: {'9' * 5000}\n", "run.yaml:2:6: this is not YAML: Exceeds the limit (4300 digits)"),
        (f"a: 0x{'f' * 5000}\n", "run.yaml:1:1: [a]: expected a section with keys, got an int"),
        (f"a: {'[' * 5000}", "run.yaml:1:104: this is not YAML: the values are nested too deeply"),
        (
            "a:\n" + "".join(f"{' ' * k}- \n" for k in range(1, 500)),
            "run.yaml: this is not YAML: the values are nested",
        ),
        ("a: !!python/object:os.system {}\n", "run.yaml:1:4: this is not YAML"),
        ("a: 1\n", "run.yaml:1:1: [a]: expected a section"),
        ("a:\n  x: 1\n  y: \0\n", "run.yaml:3:6: this is not YAML: special characters are not allowed"),
    ],
)
def test_wrong_yaml_is_refused_with_its_place(contents: str, place: str) -> None:
    with pytest.raises(ConfigError) as error:
        parse_yaml(contents, "run.yaml")
    assert place in str(error.value)


def test_files_are_known_by_their_ending(tmp_path: Path) -> None:
    path = tmp_path / "run.toml"
    path.write_text(TOML)
    assert read_settings_text(str(path)).sections["training"]["epochs"] == 3
    for name in ("run.yaml", "run.yml", "RUN.YML"):
        (tmp_path / name).write_text(YAML)
        assert read_settings_text(str(tmp_path / name)).sections == parse_yaml(YAML, "").sections
    with pytest.raises(Nnet3Error, match=r"expected one of .toml, .yaml, .yml, got '.tom'; did you mean '.toml'"):
        read_settings_text(str(tmp_path / "run.tom"))
    with pytest.raises(Nnet3Error, match=r"none.toml: cannot read this settings file: No such file"):
        read_settings_text(str(tmp_path / "none.toml"))
    assert parse_yaml("", "run.yaml").sections == {}


def bomb(levels: int, form: str) -> str:
    """Returns YAML of which each line has several times what the line before stands for."""
    lines = ["a0: &a0 {k: [1, 2]}"]
    for level in range(1, levels):
        lines.append(f"a{level}: &a{level} " + form.replace("*", f"*a{level - 1}"))
    return "\n".join(lines)


@pytest.mark.parametrize("form", ["{x: [*, *, *, *, *, *]}", "{<<: [*, *, *, *, *, *]}", "{x: *, y: *, z: {<<: *}}"])
def test_aliases_take_no_time(form: str) -> None:
    """A kilobyte of them would be millions of values; few are what they stand for."""
    with pytest.raises(ConfigError, match=r"a\.yaml: expected at most 10000 values"):
        parse_yaml(bomb(25, form), "a.yaml")
    assert parse_yaml(bomb(2, form), "a.yaml").sections["a0"] == {"k": [1, 2]}
    merged = parse_yaml("base: &base {rate: 1}\ntraining: {<<: *base, steps: 2}", "a.yaml")
    assert merged.sections["training"] == {"rate": 1, "steps": 2}


@pytest.mark.parametrize(
    ("parse", "text"),
    [
        (parse_yaml, "a: " + "[" * 5000 + "]" * 5000),
        (parse_yaml, "a: &a [*a]"),
        (parse_yaml, "a: &a {<<: *a}"),
        (parse_yaml, "a: {b: " + "9" * 5000 + "}"),
        (parse_yaml, "a: {b: !!bool abc}"),
        (parse_yaml, "a: {b: !!int ''}"),
        (parse_yaml, "a: {b: !!timestamp x}"),
        (parse_toml, "a = " + "[" * 5000 + "]" * 5000),
        (parse_toml, "[a]\nb = " + "9" * 5000),
    ],
)
def test_values_that_cannot_be_made(parse: Callable[[str, str], object], text: str) -> None:
    with pytest.raises(ConfigError, match=r"this is not (TOML|YAML): "):
        parse(text, "a")


@pytest.mark.parametrize("opened", ["[", "{", "[a,", "{a: ", "[{a: [b, {"])
def test_the_work_grows_as_the_brackets_that_are_open(opened: str) -> None:
    """Not as their square."""

    def refused(text: str) -> None:
        with pytest.raises(ConfigError, match="the values are nested too deeply"):
            parse_yaml(text, "a")

    calls = [count_calls(refused, "a: " + opened * count) for count in (1000, 10000)]
    assert calls[1] < 1.1 * calls[0]
    assert parse_yaml("a: {b: " + "[" * 90 + "]" * 90 + "}", "a").sections.keys() == {"a"}


@pytest.mark.parametrize("suffix", ["toml", "yaml"])
def test_a_file_that_is_too_long(tmp_path: Path, suffix: str) -> None:
    """Also one that has no end."""
    (tmp_path / f"long.{suffix}").write_bytes(b"#" * (1 << 20))
    (tmp_path / f"endless.{suffix}").symlink_to("/dev/zero")
    for name in ("long", "endless"):
        with pytest.raises(Nnet3Error, match="expected a settings file of at most 262144 bytes, got more"):
            read_settings_text(str(tmp_path / f"{name}.{suffix}"))
