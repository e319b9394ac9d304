"""Kaldi's names of tables and files, such as `ark,scp:a.ark,a.scp` or `gunzip -c x.gz |`."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass

from nnet3.base.text import BLANKS
from nnet3.errors import TableError

_READ_OPTIONS = {
    "o": ("once", True),
    "no": ("once", False),
    "s": ("sorted", True),
    "ns": ("sorted", False),
    "cs": ("called_sorted", True),
    "ncs": ("called_sorted", False),
    "p": ("permissive", True),
    "np": ("permissive", False),
    "bg": ("background", True),
    "b": ("", True),
    "t": ("", True),
}
_WRITE_OPTIONS = {
    "b": ("binary", True),
    "t": ("binary", False),
    "f": ("flush", True),
    "nf": ("flush", False),
    "p": ("permissive", True),
}
_OFFSET = re.compile(r"(.*):([0-9]{1,18})", re.DOTALL)
#: The wspecifier of a table that nobody asked for.
NO_TABLE = f"ark:{os.devnull}"
_TABLE = re.compile(r"(?:[a-z]+[, ])*(?:ark|scp)(?:[, ][a-z]+)*:")


@dataclass(frozen=True)
class ReadSpecifier:
    """The source of a table. `background` is accepted, but changes nothing."""

    text: str
    archive: str | None = None
    script: str | None = None
    once: bool = False
    sorted: bool = False
    called_sorted: bool = False
    permissive: bool = False
    background: bool = False


@dataclass(frozen=True)
class WriteSpecifier:
    """The target of a table: an archive, maybe with a script of offsets in it, or files named by a script."""

    text: str
    archive: str | None = None
    script: str | None = None
    binary: bool = True
    flush: bool = False
    permissive: bool = False


@dataclass(frozen=True)
class FileName:
    """Kaldi's extended file name. `kind` is file, pipe or standard (input or output)."""

    kind: str
    name: str  # a path, or the command
    offset: int = 0


def parse_rspecifier(text: str) -> ReadSpecifier:
    """Parses `[options,]ark:NAME` or `[options,]scp:NAME`. Raises TableError for other texts."""
    kinds, options, name = _split(text, _READ_OPTIONS, "an rspecifier such as ark:feats.ark or scp:feats.scp")
    if len(kinds) != 1:
        raise TableError(f"'{text}': give either ark or scp when reading a table")
    archive, script = (name, None) if kinds == ["ark"] else (None, name)
    return ReadSpecifier(text, archive, script, **options)


def parse_wspecifier(text: str) -> WriteSpecifier:
    """Parses `[options,]ark[,scp]:NAMES`. Raises TableError for other texts."""
    kinds, options, name = _split(text, _WRITE_OPTIONS, "a wspecifier such as ark:out.ark or ark,scp:out.ark,out.scp")
    if kinds == ["scp", "ark"]:
        raise TableError(f"'{text}': write ark,scp, not scp,ark")
    if len(kinds) == 1:
        archive, script = (name, None) if kinds == ["ark"] else (None, name)
        return WriteSpecifier(text, archive, script, **options)
    archive, comma, script = name.partition(",")
    if not comma:
        raise TableError(f"'{text}': ark,scp takes two names, as in ark,scp:out.ark,out.scp")
    if _is_one_file(archive, script):
        raise TableError(f"'{text}': archive and script are one file: give two names, as in ark,scp:out.ark,out.scp")
    return WriteSpecifier(text, archive, script, **options)


def _is_one_file(one: str, other: str) -> bool:
    """Returns true if both names are of one file, existing or not; devices and pipes can take two outputs."""
    if any(
        name in ("", "-") or name.startswith("|") or (os.path.exists(name) and not os.path.isfile(name))
        for name in (one, other)
    ):
        return False
    return os.path.realpath(one) == os.path.realpath(other) or (
        os.path.exists(one) and os.path.exists(other) and os.path.samefile(one, other)
    )


def _split(text: str, known: dict[str, tuple[str, bool]], expected: str) -> tuple[list[str], dict[str, bool], str]:
    """Returns the ark and scp pieces in order, the options, and the text behind the colon."""
    before, colon, name = text.partition(":")
    if not colon or text != text.rstrip(BLANKS):
        raise TableError(f"'{text}' is not {expected}")
    kinds: list[str] = []
    options: dict[str, bool] = {}
    for piece in re.split("[, ]", before):
        if piece in ("ark", "scp") and piece not in kinds:
            kinds.append(piece)
        elif piece in known:
            field, value = known[piece]
            options.update({field: value} if field else {})
        else:
            raise TableError(f"'{text}' is not {expected}: '{piece}' is unknown, empty or repeated")
    if not kinds:
        raise TableError(f"'{text}' is not {expected}")
    return kinds, options, name


def is_table(name: str) -> bool:
    """Returns true for names that begin as tables do, such as ark:graphs.fsts, and not for names of files."""
    return _TABLE.match(name) is not None


def parse_rxfilename(name: str) -> FileName:
    """Parses a name to read from: a path, `path:offset`, `command |`, or `-`."""
    if name in ("", "-"):
        return FileName("standard", name)
    _check_name(name, "read")
    if name.endswith("|"):
        return FileName("pipe", name[:-1])
    match = _OFFSET.fullmatch(name)
    return FileName("file", match.group(1), int(match.group(2))) if match else FileName("file", name)


def parse_wxfilename(name: str) -> FileName:
    """Parses a name to write to: a path, `| command`, or `-`."""
    if name in ("", "-"):
        return FileName("standard", name)
    _check_name(name, "written")
    if name.startswith("|"):
        return FileName("pipe", name[1:])
    if _OFFSET.fullmatch(name):
        raise TableError(f"'{name}' cannot be written: a position in a file is only for reading")
    return FileName("file", name)


def _check_name(name: str, verb: str) -> None:
    if name != name.strip(BLANKS):
        raise TableError(f"'{name}' cannot be {verb}: white space at the ends of a file name")
    if is_table(name):
        raise TableError(f"'{name}' cannot be {verb}: a file name is expected here, not a table")
    pipe = name.rstrip("|") if verb == "read" else name.lstrip("|")
    wrong = name.startswith("|") if verb == "read" else name.endswith("|")
    if wrong or not pipe.strip(BLANKS):
        form = "'command |'" if verb == "read" else "'| command'"
        raise TableError(f"'{name}' cannot be {verb}: a command to be {verb} is given as {form}")


def check_different(*outputs: str) -> None:
    """Raises TableError if two tables would go to one file: only one table would be left. "" is no table."""
    seen: dict[str, str] = {}
    for output in filter(None, outputs):
        specifier = parse_wspecifier(output)
        for name in filter(None, (specifier.archive, specifier.script)):
            target = parse_wxfilename(name)
            path = os.path.realpath(target.name) if target.kind == "file" else name
            if path in seen and target.kind != "pipe" and path != os.devnull:
                raise TableError(f"{seen[path]} and {output} are one file: give each output a name of its own")
            seen[path] = output
