"""Damage to Kaldi model files that keeps most of their structure: what a fuzzer feeds to the readers.

Each mutation takes the contents, a random generator and other files' contents, and returns new contents.
"""

from __future__ import annotations

import random
import re
import struct
from collections.abc import Callable, Sequence

Mutation = Callable[[bytes, random.Random, Sequence[bytes]], bytes]

_TOKEN = re.compile(rb"</?[A-Za-z][A-Za-z0-9_]*>")
_TAGGED = re.compile(rb"(?<=[VM>] )[\x04\x08]|(?<=> )[TF]", re.DOTALL)
_NUMBER = re.compile(rb"(?<=[ \[,=(])[-+]?[0-9][-+.0-9eE]*(?=[ \n,)\]])")
_WORD = re.compile(rb"[A-Za-z_][A-Za-z0-9_.-]*")
_ARRAY = re.compile(rb"(?<=> )(?:[FD][VM]|CM[23]?) ")
_NUMBER_WORDS = [b"0", b"1", b"-1", b"2", b"3", b"7", b"0.5", b"-0.0", b"1e-45", b"1e38", b"-1e39", b"1e999", b"nan"]
_NUMBER_WORDS += [b"-inf", b"infinity", b"2147483647", b"-2147483648", b"4294967296", b"1000000007", b"0x10", b"1_0"]
_NUMBER_WORDS += [b"", b"T", b"]", b"[", b"99999999999999999999999", b"1.5.5", b"65536", b"50000000"]
_INTEGERS = [0, 1, 2, 3, -1, -2, 255, 65535, 65536, 2**20, 10**6, 10**7, 2**30, 2**31 - 1, -(2**31), 46341, 10**9 + 7]
_REALS = [0.0, -0.0, 1.0, -1.0, float("nan"), float("inf"), float("-inf"), 1e-45, 1e-38, 1e30, 3.4e38, -3.4e38, 0.5]
_BYTES = [0, 1, 3, 4, 5, 8, 9, 10, 32, 0x3C, 0x5B, 0x5D, 127, 128, 254, 255]
_DESCRIPTORS = [b"Append", b"Sum", b"Failover", b"IfDefined", b"Switch", b"Offset", b"Round", b"Scale", b"Const", b"("]
_DESCRIPTORS += [b")", b",", b"ReplaceIndex", b"Offset(input, 1000000)", b"Round(input, 1000000007)", b"Const(1e30, 5)"]
_DESCRIPTORS += [
    b"input",
    b"output",
    b"ivector",
    b"name=input",
    b"dim=2147483647",
    b"#",
    b"'",
    b"component",
    b"\t",
    b"=",
]
_DESCRIPTORS += [b"Append(input, input)", b"ReplaceIndex(input, t, 0)", b"Offset(input, 0, 7)", b"Switch(input, input)"]


def mutate(contents: bytes, rng: random.Random, others: Sequence[bytes]) -> bytes:
    """One to four mutations, mostly one."""
    for _ in range(rng.choice((1, 1, 1, 2, 3, 4))):
        contents = rng.choice(SUBTLE if rng.random() < 0.5 else MUTATIONS)(contents, rng, others)
    return contents


def _place(contents: bytes, rng: random.Random) -> int:
    return rng.randrange(len(contents) + 1)


def _replace(contents: bytes, span: tuple[int, int], new: bytes) -> bytes:
    return contents[: span[0]] + new + contents[span[1] :]


def _some(pattern: re.Pattern[bytes], contents: bytes, rng: random.Random) -> re.Match[bytes] | None:
    """A random match; in a large file one of those after a random place."""
    start = rng.randrange(len(contents)) if len(contents) > 20000 and rng.random() < 0.5 else 0
    matches = []
    for match in pattern.finditer(contents, start):
        matches.append(match)
        if len(matches) == 2000:
            break
    return rng.choice(matches) if matches else None


def _section(contents: bytes, rng: random.Random) -> tuple[int, int]:
    """From one token to one of the few that follow it."""
    first = _some(_TOKEN, contents, rng)
    if first is None:
        return _place(contents, rng), len(contents)
    last = first
    for _ in range(rng.choice((1, 1, 1, 2, 3, 8, 20))):
        following = _TOKEN.search(contents, last.end())
        if following is None:
            return first.start(), len(contents)
        last = following
    return first.start(), last.start() if rng.random() < 0.8 else last.end()


def flip_bytes(contents: bytes, rng: random.Random, others: Sequence[bytes]) -> bytes:
    damaged = bytearray(contents)
    for _ in range(rng.choice((1, 1, 2, 4, 16)) if damaged else 0):
        damaged[rng.randrange(len(damaged))] = rng.choice(_BYTES) if rng.random() < 0.5 else rng.randrange(256)
    return bytes(damaged)


def flip_bit(contents: bytes, rng: random.Random, others: Sequence[bytes]) -> bytes:
    damaged = bytearray(contents)
    if damaged:
        damaged[rng.randrange(len(damaged))] ^= 1 << rng.randrange(8)
    return bytes(damaged)


def truncate(contents: bytes, rng: random.Random, others: Sequence[bytes]) -> bytes:
    return contents[: _place(contents, rng)]


def insert_bytes(contents: bytes, rng: random.Random, others: Sequence[bytes]) -> bytes:
    place = _place(contents, rng)
    new = rng.choice((rng.randbytes(rng.randrange(1, 20)), b" ", b"\n", b"\0", b"\0B", b"\r", b"]\n", b" [ ", b"\n\n"))
    return _replace(contents, (place, place), new * rng.choice((1, 1, 1, 2, 1000)))


def delete_bytes(contents: bytes, rng: random.Random, others: Sequence[bytes]) -> bytes:
    place = _place(contents, rng)
    return _replace(contents, (place, place + rng.choice((1, 2, 4, 5, 100))), b"")


def delete_section(contents: bytes, rng: random.Random, others: Sequence[bytes]) -> bytes:
    return _replace(contents, _section(contents, rng), b"")


def duplicate_section(contents: bytes, rng: random.Random, others: Sequence[bytes]) -> bytes:
    start, end = _section(contents, rng)
    return _replace(contents, (end, end), contents[start:end] * rng.choice((1, 1, 2, 50)))


def move_section(contents: bytes, rng: random.Random, others: Sequence[bytes]) -> bytes:
    start, end = _section(contents, rng)
    rest = _replace(contents, (start, end), b"")
    target = _some(_TOKEN, rest, rng)
    place = target.start() if target else len(rest)
    return _replace(rest, (place, place), contents[start:end])


def splice(contents: bytes, rng: random.Random, others: Sequence[bytes]) -> bytes:
    """A section of another file in place of one of this, before one, or all the rest."""
    other = rng.choice(others)
    start, end = _section(other, rng)
    here = _section(contents, rng)
    if rng.random() < 0.3:
        here = (here[0], here[0])
    if rng.random() < 0.1:
        return contents[: here[0]] + other[start:]
    return _replace(contents, here, other[start:end])


def swap_token(contents: bytes, rng: random.Random, others: Sequence[bytes]) -> bytes:
    """A token of this or another file in the place of one."""
    here = _some(_TOKEN, contents, rng)
    there = _some(_TOKEN, contents if rng.random() < 0.5 else rng.choice(others), rng)
    return _replace(contents, here.span(), there.group()) if here and there else contents


def misspell_token(contents: bytes, rng: random.Random, others: Sequence[bytes]) -> bytes:
    match = _some(_TOKEN, contents, rng)
    if match is None:
        return contents
    place = rng.randrange(match.start(), match.end())
    new = rng.choice((b"", b"x", b" ", b"</", b"Component", bytes([rng.choice(_BYTES)]), b"y" * 600))
    return _replace(contents, (place, place + 1), new)


def change_word(contents: bytes, rng: random.Random, others: Sequence[bytes]) -> bytes:
    """A name of a node or component, a key or a descriptor becomes another."""
    end = max(contents.find(b"<NumComponents>"), 0)
    match = _some(_WORD, contents[:end] if end and rng.random() < 0.8 else contents, rng)
    if match is None:
        return contents
    new = rng.choice(_DESCRIPTORS)
    if rng.random() < 0.4:
        other = _some(_WORD, contents[: end or None], rng)
        new = other.group() if other else new
    return _replace(contents, match.span(), new * rng.choice((1, 1, 1, 1, 2, 300)))


def change_line(contents: bytes, rng: random.Random, others: Sequence[bytes]) -> bytes:
    """Drop, repeat or move one of the first lines, or nest its descriptor."""
    lines = contents.split(b"\n", 60)
    number = rng.randrange(len(lines))
    kind = rng.randrange(4)
    if kind == 0:
        del lines[number]
    elif kind == 1:
        lines.insert(rng.randrange(len(lines)), lines[number])
    elif kind == 2:
        lines.insert(rng.randrange(len(lines)), lines.pop(number))
    else:
        depth = rng.choice((1, 2, 5, 50, 99, 101, 3000))
        before, equals, value = lines[number].rpartition(b"input=")
        operator = rng.choice((b"Sum(", b"Append(", b"IfDefined(", b"Switch("))
        lines[number] = before + equals + operator * depth + value + b")" * depth
    return b"\n".join(lines)


def change_size(contents: bytes, rng: random.Random, others: Sequence[bytes]) -> bytes:
    """An integer or number behind a token of a binary file takes another value."""
    match = _some(_TAGGED, contents, rng)
    if match is None:
        return change_number(contents, rng, others)
    place = match.start() + (5 if rng.random() < 0.3 else 0)  # perhaps the second of two
    old = contents[place : place + 5]
    if old[:1] != b"\x04" or len(old) < 5:
        return _replace(contents, (place, place + 1), rng.choice((b"T", b"F", b"x", b"\x04", b"\x08", b"\xfc")))
    value = rng.choice(_INTEGERS)
    if rng.random() < 0.3:
        value = struct.unpack("<i", old[1:])[0] + rng.choice((-1, 1, 2, -2)) & 0x7FFFFFFF
    new = struct.pack("<i", value) if rng.random() < 0.6 else struct.pack("<f", rng.choice(_REALS))
    return _replace(contents, (place + 1, place + 5), new)


def change_number(contents: bytes, rng: random.Random, others: Sequence[bytes]) -> bytes:
    match = _some(_NUMBER, contents, rng)
    return _replace(contents, match.span(), rng.choice(_NUMBER_WORDS)) if match else flip_bytes(contents, rng, others)


def change_element(contents: bytes, rng: random.Random, others: Sequence[bytes]) -> bytes:
    """Four bytes somewhere become an extreme number."""
    place = _place(contents, rng)
    new = struct.pack("<f", rng.choice(_REALS)) if rng.random() < 0.7 else struct.pack("<i", rng.choice(_INTEGERS))
    return _replace(contents, (place, place + 4), new)


def change_type(contents: bytes, rng: random.Random, others: Sequence[bytes]) -> bytes:
    """A vector or matrix gets another tag."""
    match = _some(_ARRAY, contents, rng)
    tags = (b"FV ", b"FM ", b"DV ", b"DM ", b"CM ", b"CM2 ", b"CM3 ", b"SM ", b"FP ", b"XX ")
    return _replace(contents, match.span(), rng.choice(tags)) if match else contents


def change_header(contents: bytes, rng: random.Random, others: Sequence[bytes]) -> bytes:
    return contents[2:] if contents[:2] == b"\0B" else b"\0B" + contents


MUTATIONS: list[Mutation] = [
    flip_bytes,
    flip_bit,
    truncate,
    insert_bytes,
    delete_bytes,
    delete_section,
    duplicate_section,
    move_section,
    splice,
    splice,
    swap_token,
    swap_token,
    misspell_token,
    change_word,
    change_word,
    change_line,
    change_size,
    change_size,
    change_size,
    change_number,
    change_number,
    change_element,
    change_element,
    change_type,
    change_header,
]

#: Those that the readers often accept.
SUBTLE: list[Mutation] = [change_size, change_number, change_element, change_word, change_line, flip_bit]
