"""Files of types that only OpenFst's programs write, made by hand: look-ahead graphs, n-gram models, symbol tables."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from nnet3.base.kaldi_io.fst_const import write_const
from nnet3.kaldi_io import Fst, Writer

MAGIC = struct.pack("<i", 2125659606)
History = tuple[int, ...]
Ngrams = Mapping[History, Mapping[int, float]]
Intervals = Sequence[tuple[int, int]]


def header(kind: str, version: int, start: int = -1, states: int = 0, arcs: int = 0, flags: int = 0) -> bytes:
    names = b"".join(struct.pack("<i", len(name)) + name for name in (kind.encode(), b"standard"))
    return MAGIC + names + struct.pack("<iiQqqq", version, flags, 1, start, states, arcs)


def symbol_table(names: Mapping[int, str]) -> bytes:
    entries = [
        struct.pack("<i", len(text.encode())) + text.encode() + struct.pack("<q", key) for key, text in names.items()
    ]
    return struct.pack("<ii", 2125658996, 0) + struct.pack("<qq", len(names), len(names)) + b"".join(entries)


def const_bytes(fst: Fst) -> bytes:
    """An FST of type `const`, which programs map into memory as it is."""
    writer = Writer(binary=True)
    write_const(writer, fst)
    return writer.getvalue()


def lookahead_bytes(fst: Fst, intervals: Sequence[Intervals], final_label: int, keep: bool = False) -> bytes:
    """Of type olabel_lookahead: the intervals of the labels that each state reaches."""
    kept = struct.pack("<bq", 1, 1) + struct.pack("<ii", 7, 8) if keep else b"\0"
    records = [
        struct.pack("<q", len(each))
        + b"".join(struct.pack("<ii", *interval) for interval in each)
        + struct.pack("<i", sum(end - begin for begin, end in each))
        for each in intervals
    ]
    data = struct.pack("<iq", final_label, len(records)) + b"".join(records)
    add_on = struct.pack("<bbbb", 1, 0, 1, 0) + kept + data
    return header("olabel_lookahead", 1) + struct.pack("<i", 446681434) + const_bytes(fst) + add_on


def ngram_bytes(ngrams: Ngrams, finals: Mapping[History, float], back_offs: Mapping[History, float]) -> bytes:
    """Of type ngram: for each history (oldest word first, 0 the start of the sentence) the costs of words."""
    histories: list[tuple[int, ...]] = [()]
    for history in histories:  # breadth-first; a child has one older word more
        histories += sorted(h for h in ngrams if h and h[1:] == history)
    assert set(histories) == set(ngrams), "a history without its shorter one"
    children = [sum(bool(h) and h[1:] == history for h in histories) for history in histories]
    context = _bits([1, 0] + [bit for count in children for bit in [1] * count + [0]])
    future = _bits([0] + [bit for history in histories for bit in [1] * len(ngrams[history]) + [0]])
    ends = _bits([int(history in finals) for history in histories])
    words = [word for history in histories for word in sorted(ngrams[history])]
    costs = [ngrams[history][word] for history in histories for word in sorted(ngrams[history])]
    oldest = [-1] + [history[0] for history in histories[1:]] + [0]
    sizes = struct.pack("<QQQ", len(histories), len(words), len(finals))
    integers = np.array(oldest + words, "<i4").tobytes()
    reals = [0.0] + [back_offs[h] for h in histories[1:]] + [0.0] + [finals[h] for h in histories if h in finals]
    body = sizes + context + future + ends + integers + np.array([*reals, *costs, 0.0], "<f4").tobytes()
    return header("ngram", 4, min(1, len(histories) - 1), len(histories)) + body


def _bits(bits: Iterable[int]) -> bytes:
    packed = np.packbits(np.array(list(bits), np.uint8), bitorder="little").tobytes()
    return packed + bytes(-len(packed) % 8)
