"""Components from and to text without files, and the errors that a config or a file should give."""

from __future__ import annotations

import pytest

from nnet3 import components
from nnet3.base.text.config_line import ConfigLine, parse_config_line
from nnet3.components import Component
from nnet3.errors import ConfigError, ModelFormatError, Span
from nnet3.kaldi_io import Reader, Writer


def from_text(text: str) -> Component:
    """The component in Kaldi's text form."""
    return from_bytes(text.encode())


def from_bytes(contents: bytes, *, binary: bool = False) -> Component:
    reader = Reader(contents, "<test>", binary=binary)
    component = components.read_from(reader)
    reader.finish()
    return component


def to_bytes(component: Component, *, binary: bool) -> bytes:
    writer = Writer(binary)
    component.write_to(writer)
    return writer.getvalue()


def to_text(component: Component) -> str:
    return to_bytes(component, binary=False).decode()


def config_line(text: str) -> ConfigLine:
    """Returns the keys and values of a text."""
    return parse_config_line(Span("<test>", 1, 1, len(text), text))


def check_round_trip(component: Component) -> None:
    """What is written is read back and written the same again, in both forms."""
    for binary in (False, True):
        written = to_bytes(component, binary=binary)
        again = from_bytes(written, binary=binary)
        assert to_bytes(again, binary=binary) == written
        assert again.info() == component.info()


def check_config_error(type_name: str, config: str, message: str, caret: str = "") -> None:
    """The config must fail with this message, its caret under the text `caret`."""
    with pytest.raises(ConfigError) as caught:
        components.create(type_name, config)
    assert message in str(caught.value)
    if caret:
        span = caught.value.span
        assert span is not None
        assert span.text[span.column - 1 : span.column - 1 + span.length] == caret


def check_file_error(text: str, message: str) -> None:
    """The text form must be rejected with this message, which says where."""
    with pytest.raises(ModelFormatError) as caught:
        from_text(text)
    assert message in str(caught.value)
    assert "<test>: line " in str(caught.value)
