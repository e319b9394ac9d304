"""Names of tables and files."""

from __future__ import annotations

import pytest

from nnet3.base.kaldi_io.specifiers import (
    FileName,
    is_table,
    parse_rspecifier,
    parse_rxfilename,
    parse_wspecifier,
    parse_wxfilename,
)
from nnet3.errors import TableError


def test_rspecifiers_are_parsed_with_their_options() -> None:
    plain = parse_rspecifier("ark:feats.ark")
    assert (plain.archive, plain.script) == ("feats.ark", None)
    assert (plain.once, plain.sorted, plain.called_sorted, plain.permissive) == (False,) * 4
    full = parse_rspecifier("s,cs,o,p,bg,t,scp:gunzip -c a:b.gz |")
    assert (full.archive, full.script) == (None, "gunzip -c a:b.gz |")
    assert full.once
    assert full.sorted
    assert full.called_sorted
    assert full.permissive
    assert full.background
    assert not parse_rspecifier("s,ns ark:-").sorted
    assert parse_rspecifier("ark,s:-").sorted


def test_wspecifiers_are_parsed_with_their_options() -> None:
    plain = parse_wspecifier("ark:out.ark")
    assert (plain.archive, plain.script, plain.binary, plain.flush) == ("out.ark", None, True, False)
    both = parse_wspecifier("t,f ark,scp:out.ark,out.scp")
    assert (both.archive, both.script, both.binary, both.flush) == ("out.ark", "out.scp", False, True)
    script = parse_wspecifier("p,scp:out.scp")
    assert (script.archive, script.script, script.permissive) == (None, "out.scp", True)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("feats.ark", "is not an rspecifier such as"),
        ("", "is not an rspecifier"),
        ("ark", "is not an rspecifier"),
        ("ark:x ", "is not an rspecifier"),
        ("ark, s:x", "unknown, empty or repeated"),
        ("ark,ark:x", "'ark' is unknown, empty or repeated"),
        ("ark,foo:x", "'foo' is unknown"),
        ("s:x", "is not an rspecifier"),
        ("ark,scp:x,y", "either ark or scp"),
        ("f,ark:x", "'f' is unknown"),
    ],
)
def test_bad_rspecifiers_are_refused(text: str, message: str) -> None:
    with pytest.raises(TableError, match=message):
        parse_rspecifier(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("out.ark", "is not a wspecifier such as"),
        ("scp,ark:x,y", "write ark,scp, not scp,ark"),
        ("ark,scp:x", "takes two names"),
        ("ark:x\n", "is not a wspecifier"),
        ("s,ark:x", "'s' is unknown"),
        ("t:x", "is not a wspecifier"),
    ],
)
def test_bad_wspecifiers_are_refused(text: str, message: str) -> None:
    with pytest.raises(TableError, match=message):
        parse_wspecifier(text)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("", FileName("standard", "")),
        ("-", FileName("standard", "-")),
        ("a.ark", FileName("file", "a.ark")),
        ("a.ark:123", FileName("file", "a.ark", 123)),
        ("a:b", FileName("file", "a:b")),
        ("gunzip -c a.gz |", FileName("pipe", "gunzip -c a.gz ")),
        ("cat a | sort |", FileName("pipe", "cat a | sort ")),
    ],
)
def test_names_to_read(name: str, expected: FileName) -> None:
    assert parse_rxfilename(name) == expected


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (" a", "white space"),
        ("a ", "white space"),
        ("| cat", "is given as 'command |'"),
        ("|", "is given as 'command |'"),
        ("ark:a", "not a table"),
        ("scp,p:a", "not a table"),
        ("s,ark:a", "not a table"),
    ],
)
def test_bad_names_to_read(name: str, message: str) -> None:
    with pytest.raises(TableError, match=message):
        parse_rxfilename(name)


def test_names_to_write() -> None:
    assert parse_wxfilename("-") == FileName("standard", "-")
    assert parse_wxfilename("| gzip -c > a.gz") == FileName("pipe", " gzip -c > a.gz")
    assert parse_wxfilename("a") == FileName("file", "a")


@pytest.mark.parametrize(
    ("name", "message"),
    [("a:12", "a position in a file"), ("cat |", r"'\| command'"), ("ark:a", "not a table"), ("a\t", "white")],
)
def test_bad_names_to_write(name: str, message: str) -> None:
    with pytest.raises(TableError, match=message):
        parse_wxfilename(name)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("ark:a.ark", True),
        ("p,scp:a.scp", True),
        ("ark,t:-", True),
        ("ark,scp:a.ark,a.scp", True),
        ("ark:gunzip -c a |", True),
        ("a.ark", False),
        ("C:a", False),
        ("t:a", False),
        ("-", False),
    ],
)
def test_tables_and_files_are_told_apart(name: str, expected: bool) -> None:
    assert is_table(name) == expected
