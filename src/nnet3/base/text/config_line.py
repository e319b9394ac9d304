"""A line of a config: `FIRSTTOKEN key=value key=value ...` (docs/config_language.md).

Every value remembers its place, for errors to point at.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from nnet3.base.text.other_formats import other_format
from nnet3.base.text.suggest import did_you_mean, misspelt
from nnet3.base.text.values import Boolean, Integer, Integers, Number, Value, bounds
from nnet3.errors import ConfigError, Span

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.\-]*")
_REQUIRED: object = object()


def is_valid_name(word: str) -> bool:
    """Returns True for a name of a node, component or key: a letter or `_`, then letters, digits, `_`, `-`, `.`."""
    return _NAME.fullmatch(word) is not None


class ConfigValue(NamedTuple):
    """The text of a value, from which the places of key and value follow."""

    text: str
    line: Span
    key_start: int
    key_length: int
    start: int

    @property
    def key_span(self) -> Span:
        return self.line.part(self.key_start, self.key_length)

    @property
    def span(self) -> Span:
        return self.line.part(self.start, max(1, len(self.text)))


@dataclass
class ConfigLine:
    """A parsed line. The getters mark their key as used; `finish()` complains about keys nobody asked for.

    `subject` ("component 'tdnn1.affine'") begins each message about the line.
    """

    first_token: str
    values: dict[str, ConfigValue]
    span: Span
    subject: str = ""
    repeated: list[ConfigValue] = field(default_factory=list, repr=False)  # of keys given before on the line
    _asked: set[str] = field(default_factory=set, repr=False)

    def has(self, key: str) -> bool:
        self._asked.add(key)
        return key in self.values

    def error(self, message: str, key: str | None = None, hint: str = "") -> ConfigError:
        """Returns an error at the value of `key`, or at the whole line."""
        value = self.values.get(key) if key else None
        prefix = f"{self.subject}: " if self.subject else ""
        return ConfigError(prefix + message, value.span if value else self.span, hint)

    def _take(self, key: str, default: object) -> str | None:
        self._asked.add(key)
        if key in self.values:
            return self.values[key].text
        if default is _REQUIRED:
            unasked = [k for k in self.values if k not in self._asked]
            raise self.error(f"'{key}=' is missing", hint=misspelt(key, unasked))
        return None

    def string(self, key: str, default: str | object = _REQUIRED) -> str:
        text = self._take(key, default)
        return str(default) if text is None else text

    def value(self, key: str, kind: Value, default: Any = _REQUIRED) -> Any:
        """Returns a value of a kind; its rule is not for the default."""
        text = self._take(key, default)
        if text is None:
            return default
        try:
            value = kind.read(text)
        except ValueError as error:
            raise self.error(f"'{key}' must be {error}, got '{text}'", key) from None
        if not kind.rule.holds(value):
            raise self.error(f"'{key}' must be {kind.rule.words}, got {text.strip()}", key)
        return value

    def integer(self, key: str, default: int | object = _REQUIRED, **limits: float) -> int:
        """Returns an int32; `limits` are those of `nnet3.base.text.values.bounds`."""
        value: int = self.value(key, Integer(bounds(**limits)), default)
        return value

    def number(self, key: str, default: float | object = _REQUIRED, **limits: float) -> float:
        """Returns a finite float; `limits` are those of `nnet3.base.text.values.bounds`."""
        value: float = self.value(key, Number(bounds(**limits)), default)
        return value

    def boolean(self, key: str, default: bool | object = _REQUIRED) -> bool:
        """Returns true or false by the first letter, as Kaldi has it."""
        return bool(self.value(key, Boolean(), default))

    def integers(self, key: str, default: Any = _REQUIRED, *, separators: str = ":,") -> list[int]:
        """Returns a list of ints separated by any of `separators`; empty pieces are dropped."""
        return list(self.value(key, Integers(separators=separators, with_gaps=True), default))

    def nested(self, key: str) -> ConfigLine:
        """Returns the value of `key` parsed as a config line of its own (as CompositeComponent's parts are)."""
        self.string(key)
        line = parse_config_line(self.values[key].span)
        line.repeated = self.repeated = [*self.repeated, *line.repeated]
        return line

    def repeated_warnings(self) -> list[str]:
        """Returns a warning for each repeated key of the line: the first value counts, as in Kaldi."""
        warnings = []
        for value in self.repeated:
            span = value.key_span
            warnings.append(
                f"{span.place}: '{span.words}' is given twice on this line\n{span.excerpt('the first one counts')}"
            )
        return warnings

    def finish(self) -> None:
        """Raises for the first key that no getter asked for."""
        for key, value in self.values.items():
            if key not in self._asked:
                prefix = f"{self.subject}: " if self.subject else ""
                known = sorted(k for k in self._asked if k not in self.values)
                hint = did_you_mean(key, known) or ("known keys: " + ", ".join(sorted(self._asked)))
                raise ConfigError(f"{prefix}unknown key '{key}'", value.key_span, hint)


def read_config_lines(text: str, source: str = "<config>") -> list[ConfigLine]:
    """Returns the non-empty lines of a config. A `#` starts a comment anywhere, even inside quotes (as in Kaldi)."""
    lines = []
    for number, raw in enumerate(text.split("\n"), start=1):
        content = raw.partition("#")[0].rstrip(" \t\r")
        start = len(content) - len(content.lstrip(" \t"))
        if start == len(content):
            continue
        lines.append(parse_config_line(Span(source, number, start + 1, len(content) - start, raw.rstrip("\r"))))
    return lines


def parse_config_line(span: Span) -> ConfigLine:
    """Parses the stretch of text that `span` marks."""
    text = span.words
    position = len(text) - len(text.lstrip())
    first = text[position:].split(None, 1)[0] if text.strip() else ""
    line = ConfigLine("", {}, span)
    if first and "=" not in first:
        if not is_valid_name(first):
            raise ConfigError(f"'{first}' is not a valid first word of a line", span.part(position, len(first)))
        line.first_token = first
        line.span = span.part(position, len(first))
        position += len(first)
    while text[position:].strip():
        position = _parse_pair(text, position, span, line)
    return line


def _parse_pair(text: str, position: int, span: Span, line: ConfigLine) -> int:
    """Parses a `key=value` at `position`; returns where the next pair may begin."""
    position += len(text[position:]) - len(text[position:].lstrip())
    equals = text.find("=", position)
    if equals < 0:
        rest = text[position:].rstrip()
        raise ConfigError(f"expected key=value, got '{rest}'", span.part(position, len(rest)))
    key = text[position:equals]
    if not is_valid_name(key):
        hint = "write key=value without spaces around '='" if key != key.strip() else ""
        raise ConfigError(f"'{key}' is not a valid key", span.part(position, max(1, len(key))), hint)
    start = equals + 1
    if text[start : start + 1] in ("'", '"'):
        end = text.find(text[start], start + 1)
        if end < 0:
            raise ConfigError(f"the quote {text[start]} is never closed", span.part(start, len(text) - start))
        value, value_start, after = text[start + 1 : end], start + 1, end + 1
    else:
        after = _end_of_unquoted(text, start)
        value = text[start:after].rstrip()
        leading = len(value) - len(value.lstrip())
        value, value_start = value.lstrip(), start + leading
    found = ConfigValue(value, span, position, len(key), value_start)
    if line.values.setdefault(key, found) is not found:
        line.repeated.append(found)  # the first one wins
    return after


def _end_of_unquoted(text: str, start: int) -> int:
    """Returns where an unquoted value ends: at the last blank before the next `=`, or at the end of the line."""
    equals = text.find("=", start)
    if equals < 0:
        return len(text)
    blank = max(text.rfind(" ", start, equals), text.rfind("\t", start, equals))
    return blank if blank >= 0 else len(text)


_SHOWN = 200


def decode_config(contents: bytes, source: str) -> str:
    """Returns the text of a config. Bytes outside UTF-8 may stand in comments, where they are read as Latin-1.

    Raises ConfigError at the first bad byte elsewhere, and for a recording and the like. A byte order mark is dropped.
    """
    try:
        return contents.decode("utf-8-sig")
    except UnicodeDecodeError:
        if other := other_format(contents):
            raise ConfigError(f"{source}: {other}, not a text file") from None
        lines = contents.removeprefix(b"\xef\xbb\xbf").split(b"\n")
    return "\n".join(_decode_line(line, source, number) for number, line in enumerate(lines, start=1))


def _decode_line(line: bytes, source: str, number: int) -> str:
    content, sign, comment = line.partition(b"#")
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        before = len(content[: error.start].decode())
        shown = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in line.decode(errors="replace"))
        if before >= _SHOWN or b"\0" in line:
            shown, before = "", 0
        span = Span(source, number, before + 1, 1, shown[: before + _SHOWN])
        raise ConfigError("not a text file: this byte is not UTF-8", span) from None
    try:
        return text + sign.decode() + comment.decode()
    except UnicodeDecodeError:
        return text + sign.decode() + comment.decode("latin-1")
