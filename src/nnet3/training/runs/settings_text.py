"""Reads TOML and YAML files as sections of keys whose values know their place."""

from __future__ import annotations

import functools
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nnet3.base.text import decode_config, did_you_mean
from nnet3.errors import ConfigError, Nnet3Error, Span, shown

if sys.version_info >= (3, 11):
    import tomllib
else:  # pragma: no cover
    import tomli as tomllib

try:
    import yaml
except ImportError:  # pragma: no cover
    yaml = None
else:

    class _YamlLoader(yaml.SafeLoader):  # type: ignore[misc]  # PyYAML says no types
        """Reads 1:16, which to YAML 1.1 is 76 to the base 60, as text: here it is a range."""

        def resolve(self, kind: type, value: Any, implicit: Any) -> Any:
            tag = super().resolve(kind, value, implicit)
            is_number = kind is yaml.ScalarNode and tag.endswith((":int", ":float"))
            return self.DEFAULT_SCALAR_TAG if is_number and ":" in value else tag

        def fetch_flow_collection_start(self, kind: type) -> None:
            """Refuses deeply nested brackets: PyYAML looks at all open brackets for every token."""
            if self.flow_level == _MOST_BRACKETS:
                raise yaml.scanner.ScannerError(None, None, _TOO_DEEP, self.get_mark())
            super().fetch_flow_collection_start(kind)

        def construct_object(self, node: Any, deep: bool = False) -> Any:
            """Returns a node's value. Raises ConstructorError where PyYAML trips over the value, as over `!!int ''`."""
            try:
                return super().construct_object(node, deep)
            except (ValueError, LookupError, TypeError, AttributeError, OverflowError) as error:
                reason = _reason(error) if isinstance(error, ValueError) else f"{shown(node.value)} is no {node.tag}"
                raise yaml.constructor.ConstructorError(None, None, reason, node.start_mark) from None


_TOML_NAME = r"""(?:[\w-]+|"[^"]*"|'[^']*')"""
_TOML_PATH = rf"({_TOML_NAME}(?:\s*\.\s*{_TOML_NAME})*)\s*"
_TOML_HEADER = re.compile(rf"\s*\[\[?\s*{_TOML_PATH}\]")
_TOML_KEY = re.compile(rf"\s*{_TOML_PATH}=")
_TOML_PLACE = re.compile(r"\s*\(at (?:line (\d+), column (\d+)|end of document)\)")
_TRIPLE_QUOTES = re.compile(r"'''|\"\"\"")
_SUFFIXES = (".toml", ".yaml", ".yml")
_MOST_BYTES = 1 << 18
_MOST_BRACKETS = 100  # of YAML, one in the other
_MOST_VALUES = 10_000  # of YAML, where what an alias stands for counts each time
_TOO_DEEP = "the values are nested too deeply"

#: The places of the values in the file, by (section, key) or (section, "").
Places = dict[tuple[str, str], Span]


@dataclass(frozen=True)
class SettingsText:
    """Values by section and key, with hyphens for underscores in both; `places` has the span of each in the file."""

    source: str
    sections: dict[str, dict[str, Any]]
    places: Places

    def error(self, section: str, key: str, message: str, hint: str = "") -> ConfigError:
        """Returns an error about a value, a key or (with key "") a section; without a place, about the whole file."""
        where = f"[{section}] {key}: " if key else f"[{section}]: " if section else ""
        span = self.places.get((section, key)) or self.places.get((section, ""))
        if span is None:
            return ConfigError(f"{self.source}: {where}{message}", None, hint)
        return ConfigError(f"{where}{message}", span, hint)


def read_settings_text(path: str) -> SettingsText:
    """Reads a settings file by its name's ending. Raises ConfigError for what is no table of tables."""
    suffix = Path(path).suffix.lower()
    if suffix not in _SUFFIXES:
        hint = did_you_mean(suffix, _SUFFIXES)
        raise Nnet3Error(
            f"{path}: a settings file is TOML or YAML, known by its ending: expected one of {', '.join(_SUFFIXES)}, "
            f"got '{suffix}'{'; ' + hint if hint else ''}"
        )
    try:
        with open(path, "rb") as file:
            contents = file.read(_MOST_BYTES + 1)
    except OSError as error:
        raise Nnet3Error(f"{path}: cannot read this settings file: {error.strerror}") from None
    if len(contents) > _MOST_BYTES:
        raise Nnet3Error(f"{path}: expected a settings file of at most {_MOST_BYTES} bytes, got more")
    text = decode_config(contents, path)
    return parse_toml(text, path) if suffix == ".toml" else parse_yaml(text, path)


def parse_toml(text: str, source: str) -> SettingsText:
    """Reads settings from TOML. Places are found by looking at the lines, since the parser keeps none."""
    try:
        values = tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # RecursionError: of brackets that are nested deep
        message = _reason(error) if isinstance(error, ValueError) else _TOO_DEEP
        place = _TOML_PLACE.search(message)
        line, column = (int(place[1]), int(place[2])) if place and place[1] else (text.count("\n") + 1, 1)
        raise ConfigError(
            f"this is not TOML: {_TOML_PLACE.sub('', message)}", _span(text, source, line, column)
        ) from None
    return _checked(values, _toml_places(text, source), source)


def parse_yaml(text: str, source: str) -> SettingsText:
    """Reads settings from YAML, which needs PyYAML."""
    if yaml is None:
        raise Nnet3Error(f"{source}: reading YAML needs PyYAML: pip install pyyaml, or write the settings as TOML")
    try:
        root = yaml.compose(text, Loader=_YamlLoader)
        if _size(root, {}) > _MOST_VALUES:
            raise ConfigError(
                f"{source}: expected at most {_MOST_VALUES} values, each alias (*) counted as what it stands for", None
            )
        values = yaml.load(text, Loader=_YamlLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line, column = (mark.line + 1, mark.column + 1) if mark else (1, 1)
        raise ConfigError(f"this is not YAML: {error.problem}", _span(text, source, line, column)) from None
    except yaml.reader.ReaderError as error:
        before = text[: error.position].split("\n")
        raise ConfigError(
            f"this is not YAML: {error.reason}", _span(text, source, len(before), len(before[-1]) + 1)
        ) from None
    except RecursionError:  # also of an alias within what it stands for
        raise ConfigError(f"{source}: this is not YAML: {_TOO_DEEP}", None) from None
    places: Places = {}
    for section, key, span in _yaml_places(root, text, source):
        if (section, key) in places:
            raise ConfigError(f"'{key or section}' is given twice", span)
        places[section, key] = span
    if not isinstance(values, dict | None):
        raise ConfigError(f"expected sections such as [training], got {shown(values)}", _mark_span(root, text, source))
    return _checked(values or {}, places, source)


def _checked(values: dict[Any, Any], places: Places, source: str) -> SettingsText:
    settings = SettingsText(source, {}, places)
    for name, section in values.items():
        if not isinstance(section, dict):
            raise settings.error(
                _normal(name), "", f"expected a section with keys, got {shown(section)}", "keys stand in sections"
            )
        keys = settings.sections[_normal(name)] = {}
        for key, value in section.items():
            if _normal(key) in keys:
                raise settings.error(_normal(name), _normal(key), "this key is given twice, with - and with _")
            keys[_normal(key)] = value
    return settings


def _toml_places(text: str, source: str) -> Places:
    """Returns the places of sections and keys, under headers, as `section.key = value`, or `section = {...}`."""
    places: Places = {}
    header, in_quotes = list[str](), False
    for number, line in enumerate(text.split("\n"), 1):
        was_in_quotes = in_quotes
        in_quotes ^= len(_TRIPLE_QUOTES.findall(line)) % 2 == 1
        if was_in_quotes:
            continue
        if match := _TOML_HEADER.match(line):
            path = header = _toml_names(match[1])
        elif match := _TOML_KEY.match(line):
            path = header + _toml_names(match[1])
        else:
            continue
        span = Span(source, number, match.start(1) + 1, len(match[1].rstrip()), line.rstrip("\r"))
        places.setdefault((path[0], ""), span)
        if len(path) > 1:
            places.setdefault((path[0], path[1]), span)
    return places


def _toml_names(path: str) -> list[str]:
    return [_normal(name.strip("\"'")) for name in re.findall(_TOML_NAME, path)]


def _yaml_places(root: Any, text: str, source: str) -> Iterator[tuple[str, str, Span]]:
    if not isinstance(root, yaml.MappingNode):
        return
    for name, section in root.value:
        yield _normal(name.value), "", _mark_span(name, text, source)
        if isinstance(section, yaml.MappingNode):
            for key, _ in section.value:
                yield _normal(name.value), _normal(key.value), _mark_span(key, text, source)


def _size(node: Any, sizes: dict[int, int]) -> int:
    """Returns the number of values in a node of YAML, with all that aliases stand for."""
    if isinstance(node, yaml.ScalarNode) or node is None:
        return 1
    if id(node) not in sizes:
        parts = [part for pair in node.value for part in pair] if isinstance(node, yaml.MappingNode) else node.value
        sizes[id(node)] = 1 + sum(_size(part, sizes) for part in parts)
    return sizes[id(node)]


def _reason(error: ValueError) -> str:
    """Returns the message of an error; without Python's advice about numbers of more than 4,300 digits."""
    return str(error).partition("; use sys.")[0]


def _mark_span(node: Any, text: str, source: str) -> Span:
    length = node.end_mark.index - node.start_mark.index
    return _span(text, source, node.start_mark.line + 1, node.start_mark.column + 1, length)


def _span(text: str, source: str, line: int, column: int, length: int = 1) -> Span:
    lines = _lines(text)
    return Span(source, line, column, length, lines[line - 1] if line <= len(lines) else "")


@functools.lru_cache(maxsize=1)
def _lines(text: str) -> list[str]:
    return text.split("\n")


def _normal(name: object) -> str:
    return (shown(name) if isinstance(name, int) else str(name)).replace("_", "-")
