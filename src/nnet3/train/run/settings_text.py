"""A TOML or YAML file as sections of keys whose values know their place."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nnet3.errors import ConfigError, Nnet3Error, Span
from nnet3.text import decode_config, did_you_mean

if sys.version_info >= (3, 11):
    import tomllib
else:  # pragma: no cover
    import tomli as tomllib

try:
    import yaml
except ImportError:  # pragma: no cover
    yaml = None

_TOML_HEADER = re.compile(r"""^\s*\[\s*["']?([\w-]+)["']?\s*\]""")
_TOML_KEY = re.compile(r"""^\s*["']?([\w-]+)["']?\s*=\s*(.*?)\s*$""")
_TOML_PLACE = re.compile(r"\s*\(at (?:line (\d+), column (\d+)|end of document)\)")
_TRIPLE_QUOTES = re.compile(r"'''|\"\"\"")
_SUFFIXES = (".toml", ".yaml", ".yml")

#: Where the values stand that a file gives: (section, key) or (section, "").
Places = dict[tuple[str, str], Span]


@dataclass(frozen=True)
class SettingsText:
    """Values by section and key, hyphens for underscores in both; `places` has the span of each that the file gives."""

    source: str
    sections: dict[str, dict[str, Any]]
    places: Places

    def error(self, section: str, key: str, message: str, hint: str = "") -> ConfigError:
        """An error about a value, a key or (with key "") a section; one that is not there is about the whole file."""
        where = f"[{section}] {key}: " if key else f"[{section}]: " if section else ""
        span = self.places.get((section, key)) or self.places.get((section, ""))
        if span is None:
            return ConfigError(f"{self.source}: {where}{message}", None, hint)
        return ConfigError(f"{where}{message}", span, hint)


def read_settings_text(path: str) -> SettingsText:
    """Read a settings file by its name's ending. Raises ConfigError for what is no table of tables."""
    suffix = Path(path).suffix.lower()
    if suffix not in _SUFFIXES:
        hint = did_you_mean(suffix, _SUFFIXES)
        raise Nnet3Error(
            f"{path}: a settings file is TOML or YAML, known by its ending: expected one of {', '.join(_SUFFIXES)}, "
            f"got '{suffix}'{'; ' + hint if hint else ''}"
        )
    try:
        text = decode_config(Path(path).read_bytes(), path)
    except OSError as error:
        raise Nnet3Error(f"{path}: cannot read this settings file: {error.strerror}") from None
    return parse_toml(text, path) if suffix == ".toml" else parse_yaml(text, path)


def parse_toml(text: str, source: str) -> SettingsText:
    """Settings from TOML: places are found by looking at the lines, since the parser keeps none."""
    try:
        values = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        message = str(error)
        place = _TOML_PLACE.search(message)
        line, column = (int(place[1]), int(place[2])) if place and place[1] else (text.count("\n") + 1, 1)
        raise ConfigError(
            f"this is not TOML: {_TOML_PLACE.sub('', message)}", _span(text, source, line, column)
        ) from None
    places = dict(_toml_places(text, source))
    return _checked(values, places, source)


def parse_yaml(text: str, source: str) -> SettingsText:
    """Settings from YAML, which needs PyYAML."""
    if yaml is None:
        raise Nnet3Error(f"{source}: reading YAML needs PyYAML: pip install pyyaml, or write the settings as TOML")
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
        values = yaml.safe_load(text)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line, column = (mark.line + 1, mark.column + 1) if mark else (1, 1)
        raise ConfigError(f"this is not YAML: {error.problem}", _span(text, source, line, column)) from None
    except (yaml.YAMLError, ValueError) as error:
        raise ConfigError(f"{source}: this is not YAML: {error}") from None
    places: Places = {}
    for section, key, span in _yaml_places(root, text, source):
        if (section, key) in places:
            raise ConfigError(f"'{key or section}' is given twice", span)
        places[section, key] = span
    return _checked({} if values is None else values, places, source)


def _checked(values: object, places: Places, source: str) -> SettingsText:
    settings = SettingsText(source, {}, places)
    if not isinstance(values, dict):
        raise ConfigError(f"{source}: expected sections such as [training], got {_shown(values)}")
    for name, section in values.items():
        if not isinstance(section, dict):
            raise settings.error(
                _normal(name), "", f"expected a section with keys, got {_shown(section)}", "keys stand in sections"
            )
        keys = settings.sections[_normal(name)] = {_normal(key): value for key, value in section.items()}
        if len(keys) < len(section):
            raise settings.error(_normal(name), "", "a key is given twice, with - and with _")
    return settings


def _toml_places(text: str, source: str) -> Iterator[tuple[tuple[str, str], Span]]:
    section, in_quotes = "", False
    for number, line in enumerate(text.splitlines(), 1):
        was_in_quotes = in_quotes
        in_quotes ^= len(_TRIPLE_QUOTES.findall(line)) % 2 == 1
        if was_in_quotes:
            continue
        if header := _TOML_HEADER.match(line):
            section = _normal(header[1])
            yield (section, ""), Span(source, number, header.start(1) + 1, len(header[1]), line)
        elif pair := _TOML_KEY.match(line):
            span = Span(source, number, pair.start(1) + 1, len(pair[1]), line)
            yield (section, _normal(pair[1])) if section else (_normal(pair[1]), ""), span


def _yaml_places(root: Any, text: str, source: str) -> Iterator[tuple[str, str, Span]]:
    if not isinstance(root, yaml.MappingNode):
        return
    for name, section in root.value:
        yield _normal(name.value), "", _mark_span(name, text, source)
        if isinstance(section, yaml.MappingNode):
            for key, _ in section.value:
                yield _normal(name.value), _normal(key.value), _mark_span(key, text, source)


def _mark_span(node: Any, text: str, source: str) -> Span:
    length = node.end_mark.index - node.start_mark.index
    return _span(text, source, node.start_mark.line + 1, node.start_mark.column + 1, length)


def _span(text: str, source: str, line: int, column: int, length: int = 1) -> Span:
    lines = text.split("\n")
    return Span(source, line, column, length, lines[line - 1] if line <= len(lines) else "")


def _normal(name: object) -> str:
    return str(name).replace("_", "-")


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) < 60 else f"a {type(value).__name__}"
