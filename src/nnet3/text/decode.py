"""The text in the bytes of a config file: UTF-8, with comments in whatever encoding their author used."""

from __future__ import annotations

from nnet3.errors import ConfigError, Span

_SHOWN = 200


def decode_config(contents: bytes, source: str) -> str:
    """The text of a config. Bytes that are not UTF-8 may stand in comments, where they are read as Latin-1.

    Raises ConfigError at the first one elsewhere. A byte order mark is dropped.
    """
    try:
        return contents.decode("utf-8-sig")
    except UnicodeDecodeError:
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
