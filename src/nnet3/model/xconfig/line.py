"""One line of an xconfig: `LAYER-TYPE name=NAME key=value ...` (docs/xconfig.md). Every value knows its place."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NamedTuple

from nnet3.base.text import misspelt
from nnet3.errors import ConfigError, Span

_ALLOWED = re.compile(r'[A-Za-z0-9\s.\-()@_=,/+:"\[\]]')
_TYPE = re.compile(r"[a-z][-a-z0-9]+")
_KEY_CHARACTER = re.compile(r"[A-Za-z0-9_-]")
_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.\-]*")


class _Character(NamedTuple):
    """A character of the line, the column (from 0) in the text, and whether the character is quoted."""

    text: str
    column: int
    quoted: bool


@dataclass(frozen=True)
class XconfigValue:
    """A value as typed, runs of blanks made one, and the columns (from 0) of its characters in the line."""

    text: str
    columns: tuple[int, ...]
    line: Span
    after_key: int  # where the value would stand: the column after the `=`
    key: Span

    def part(self, start: int, length: int) -> Span:
        """Returns the place of some characters of the value, or the place after the key if the value is empty."""
        columns = self.columns[start : start + length] or self.columns[-1:] or (self.after_key,)
        return Span(self.line.source, self.line.line, columns[0] + 1, columns[-1] + 1 - columns[0], self.line.text)

    @property
    def span(self) -> Span:
        return self.part(0, max(1, len(self.text)))


@dataclass(frozen=True)
class XconfigLine:
    """A parsed line: the layer's type and its keys, with `name` among the keys. `span` marks the type."""

    type: str
    values: dict[str, XconfigValue]
    span: Span

    @property
    def name(self) -> str:
        return self.values["name"].text


def read_xconfig_lines(text: str, source: str = "<xconfig>") -> list[XconfigLine]:
    """Returns all lines of an xconfig that are not empty. A `#` starts a comment anywhere, even inside quotes."""
    lines = []
    for number, raw in enumerate(text.split("\n"), start=1):
        content = raw.partition("#")[0]
        if content.strip():
            lines.append(_parse(content, Span(source, number, 1, len(content.rstrip()), raw.rstrip("\r"))))
    return lines


def first_words(text: str) -> list[str]:
    """Returns the first word of every non-empty line."""
    contents = (raw.partition("#")[0].split(None, 1) for raw in text.split("\n"))
    return [words[0] for words in contents if words]


def _parse(content: str, line: Span) -> XconfigLine:
    for column, character in enumerate(content):
        if not _ALLOWED.fullmatch(character):
            hint = 'letters, digits, blanks and . - ( ) @ _ = , / + : " are'
            raise ConfigError(f"the character {character!r} is not allowed here", line.part(column, 1), hint)
    start = len(content) - len(content.lstrip())
    word = content[start:].split(None, 1)[0]
    type_span = line.part(start, len(word))
    if not _TYPE.fullmatch(word):
        hint = "a line begins with a layer's type, such as relu-batchnorm-layer"
        raise ConfigError(f"'{word}' is not a layer type", type_span, hint)
    characters = _characters(content, start + len(word), line)
    values = _split(characters, line)
    if "name" not in values:
        raise ConfigError(f"{word}: 'name=' is missing", type_span, misspelt("name", values))
    name = values["name"]
    if not _NAME.fullmatch(name.text):
        hint = "a letter or '_', then letters, digits, '_', '-', '.'"
        raise ConfigError(f"'{name.text}' is not a valid name", name.span, hint)
    return XconfigLine(word, values, type_span)


def _characters(content: str, start: int, line: Span) -> list[_Character]:
    """Returns the characters after the type: white space and quotes as blanks, runs of blanks as one."""
    found: list[_Character] = []
    quoted, quote_column = False, 0
    for column in range(start, len(content)):
        text = content[column]
        if text == '"':
            quoted, quote_column = not quoted, column
        if text.isspace() or text == '"':
            if found and found[-1].text != " ":
                found.append(_Character(" ", column, quoted))
        else:
            found.append(_Character(text, column, quoted))
    if quoted:
        raise ConfigError('the quote " is never closed', line.part(quote_column, 1))
    return found


def _split(characters: list[_Character], line: Span) -> dict[str, XconfigValue]:
    """Splits into values by key: a key is the word before an unquoted `=`, its value all up to the next key."""
    keys: list[tuple[int, int]] = []  # where a key begins, where its `=` is
    for position, (text, column, quoted) in enumerate(characters):
        if text != "=" or quoted:
            continue
        start = position
        while start and _KEY_CHARACTER.fullmatch(characters[start - 1].text):
            start -= 1
        key = "".join(c.text for c in characters[start:position])
        if not _KEY.fullmatch(key):
            hint = "write key=value without blanks around '='; values that contain a '=' go in double quotes"
            message = f"'{key}' is not a key" if key else "expected a key before '='"
            raise ConfigError(message, line.part(column - len(key), len(key) + 1), hint)
        keys.append((start, position))
    first = keys[0][0] if keys else len(characters)
    stray = "".join(c.text for c in characters[:first]).strip()
    if stray:
        raise ConfigError(f"expected key=value, got '{stray}'", line.part(characters[0].column, len(stray)))
    values: dict[str, XconfigValue] = {}
    if not keys:
        return values
    ends = [start for start, _ in keys[1:]] + [len(characters)]
    for (start, equals), end in zip(keys, ends, strict=True):
        key = "".join(c.text for c in characters[start:equals])
        key_span = line.part(characters[start].column, len(key))
        if key in values:
            raise ConfigError(f"'{key}' is given twice on this line", key_span)
        values[key] = _value(characters[equals + 1 : end], characters[equals].column + 1, key_span, line)
    return values


def _value(characters: list[_Character], after_key: int, key: Span, line: Span) -> XconfigValue:
    while characters and characters[0].text == " ":
        characters = characters[1:]
    while characters and characters[-1].text == " ":
        characters = characters[:-1]
    text = "".join(c.text for c in characters)
    return XconfigValue(text, tuple(c.column for c in characters), line, after_key, key)
