"""Kaldi's config files: one `--name=value` a line, read into declared options."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from nnet3.base.kaldi_io.files import contents_of
from nnet3.base.options.declaring import Option, Options, declared
from nnet3.base.text import decode_config, did_you_mean
from nnet3.base.text.values import Boolean
from nnet3.errors import ConfigError, Nnet3Error, Span

_LOG = logging.getLogger("nnet3")
_BOOLEANS = {"true": True, "t": True, "1": True, "": True, "false": False, "f": False, "0": False}


class _Setting(NamedTuple):
    value: str
    name: Span
    span: Span  # of the value, or of the name if there is no value


def read_conf(path: str | os.PathLike[str], sections: Mapping[str, Options], ignored: str = "") -> dict[str, Options]:
    """Returns the sections with the file's values; an option of section "endpoint" is `--endpoint.NAME` in the file.

    The text after "/" in a section's name tells apart sections with one prefix. In names case does not matter and `_`
    is `-`. Names matched by the pattern `ignored` have no effect, with a warning. Raises ConfigError for an unknown
    name, a line that is no setting, and a value that breaks the rule of its option; ModelFormatError for an unreadable
    file.
    """
    text = decode_config(bytes(contents_of(path)), os.fspath(path))
    known = {
        f"{section.partition('/')[0]}.{item.flag}".lstrip("."): (section, item)
        for section, options in sections.items()
        for item in declared(type(options))
    }
    values: dict[str, dict[str, Any]] = {section: {} for section in sections}
    spans: dict[tuple[str, str], Span] = {}
    without_effect = []
    for name, setting in _settings(text, os.fspath(path)).items():
        if name not in known:
            if re.fullmatch(ignored, name):
                without_effect.append("--" + name)
                continue
            raise ConfigError(f"there is no option '--{name}' here", setting.name, did_you_mean(name, known))
        section, item = known[name]
        values[section][item.name] = _read(item, setting)
        spans[section, item.name] = setting.span
    if without_effect:
        _LOG.warning("%s: this has no effect here: %s", path, ", ".join(without_effect))
    return {section: _with(options, values[section], section, spans) for section, options in sections.items()}


def _settings(text: str, source: str) -> dict[str, _Setting]:
    """Returns the last setting of each name."""
    settings = {}
    for number, raw in enumerate(text.split("\n"), start=1):
        line = raw.partition("#")[0].rstrip()
        start = len(line) - len(line.lstrip())
        if not line.strip():
            continue
        whole = Span(source, number, start + 1, len(line) - start, raw.rstrip("\r"))
        name, _, value = line[start:].partition("=")
        if not name.startswith("--") or not name[2:].strip():
            raise ConfigError("expected --name=value", whole)
        value = value.strip()
        place = whole.part(0, len(name.rstrip()))
        span = whole.part(whole.length - len(value), len(value)) if value else place
        settings[name[2:].strip().lower().replace("_", "-")] = _Setting(value, place, span)
    return settings


def _read(item: Option, setting: _Setting) -> Any:
    kind = item.kind
    try:
        if isinstance(kind, Boolean):
            if setting.value.lower() not in _BOOLEANS:
                raise ValueError(kind.kind)
            return _BOOLEANS[setting.value.lower()]
        value = kind.read(setting.value)
        if not kind.rule.holds(value):
            raise ValueError(kind.rule.words)
    except ValueError as error:
        raise ConfigError(f"--{item.flag} must be {error}, got '{setting.value}'", setting.span) from None
    return value


def _with(options: Options, values: dict[str, Any], section: str, spans: Mapping[tuple[str, str], Span]) -> Options:
    try:
        return replace(options, **values)
    except Nnet3Error as error:
        span = spans.get((section, error.option)) or next(iter(spans.values()))
        raise ConfigError(str(error), span) from None
