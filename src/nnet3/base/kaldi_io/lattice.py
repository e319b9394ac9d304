"""Lattices as arrays, and tables of them: Kaldi's types `lattice4` and `compactlattice44`, text or binary."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from nnet3.base.index import entries_of_rows
from nnet3.base.kaldi_io.fst import NOT_FINAL, Fst
from nnet3.base.kaldi_io.fst_header import MAGIC, VECTOR, FstHeader, read_fst_header
from nnet3.base.kaldi_io.fst_lines import FstLines, read_lines
from nnet3.base.kaldi_io.parse_numbers import parse_integer
from nnet3.base.kaldi_io.reader import Reader
from nnet3.base.kaldi_io.tables import TableReader
from nnet3.errors import ArgumentError, ModelFormatError

Integers = npt.NDArray[np.integer]
PLAIN, COMPACT = "lattice4", "compactlattice44"
_COUNT, _LENGTH = struct.Struct("<q"), struct.Struct("<i")
_PLAIN_ARC_WORDS, _COMPACT_ARC_WORDS = 5, 6  # of 4 bytes, without the string: labels, costs, its length, next state


@dataclass(frozen=True, eq=False)
class Strings:
    """Concatenated lists of integers: list k is values[offsets[k] : offsets[k + 1]]."""

    offsets: npt.NDArray[np.int64]
    values: npt.NDArray[np.int32]

    @classmethod
    def of(cls, lengths: npt.ArrayLike, values: npt.NDArray[Any]) -> Strings:
        """Returns lists of the given lengths, cut from consecutive values."""
        counts = np.asarray(lengths)
        offsets = np.zeros(len(counts) + 1, np.int64)
        counts.cumsum(out=offsets[1:])
        return cls(offsets, values.astype(np.int32, copy=False))

    @classmethod
    def joined(cls, parts: Sequence[Strings]) -> Strings:
        """Returns the lists of all parts, part by part."""
        return cls.of(*(np.concatenate([getattr(part, name) for part in parts]) for name in ("lengths", "values")))

    @property
    def lengths(self) -> npt.NDArray[np.int64]:
        return self.offsets[1:] - self.offsets[:-1]

    def __getitem__(self, which: npt.NDArray[Any]) -> Strings:
        """Lists selected by numbers, in the order given, or by a mask."""
        numbers = np.flatnonzero(which) if which.dtype == bool else which
        return Strings.of(self.lengths[numbers], self.values[entries_of_rows(self.offsets, numbers)])


@contextmanager
def within_float32(what: str) -> Iterator[None]:
    """Raises ArgumentError where NumPy would warn of an overflow or of an invalid value."""
    try:
        with np.errstate(over="raise", invalid="raise"):
            yield
    except FloatingPointError:
        raise ArgumentError(f"costs would be beyond float32 with {what}: give smaller numbers") from None


class Stretched(NamedTuple):
    """Arcs cut into parts of at most one value, (n,) each: the whole arc of a part, its ends, True for a first part."""

    arc: Integers
    src: Integers
    dst: Integers
    is_first: npt.NDArray[np.bool_]

    @classmethod
    def of(cls, lengths: Integers, src: Integers, dst: Integers, first: int) -> Stretched:
        """Returns arcs with strings of the given lengths, part by part; states from `first` on come between the parts.

        An arc with a `dst` below 0 leads to a further new state.
        """
        parts = np.maximum(lengths, 1)
        arc, begin = np.repeat(np.arange(len(parts)), parts), np.cumsum(parts) - parts
        part = np.arange(len(arc)) - begin[arc]
        states = parts - (dst >= 0)
        inner = first + np.cumsum(states) - states  # the first state within each arc
        is_first, is_last = part == 0, part == parts[arc] - 1
        return cls(
            arc,
            np.where(is_first, src[arc], inner[arc] + part - 1),
            np.where(is_last & (dst[arc] >= 0), dst[arc], inner[arc] + part),
            is_first,
        )


def no_strings(count: int) -> Strings:
    """Returns `count` empty lists."""
    return Strings(np.zeros(count + 1, np.int64), np.zeros(0, np.int32))


@dataclass(frozen=True, eq=False)
class Lattice:
    """A decoder's lattice: an acceptor of words or phones whose arcs carry transition-ids.

    fst: labels and the graph's part of the costs. acoustic_cost: (arcs,) and final_acoustic_cost: (states,) float32.
    transition_ids: of each arc; final_transition_ids: of each state, for final states. `is_plain`: the lattice is a
    transducer from transition-ids to words, as a search leaves it: arcs have at most one transition-id, and ends none.
    """

    fst: Fst
    acoustic_cost: npt.NDArray[np.float32]
    final_acoustic_cost: npt.NDArray[np.float32]
    transition_ids: Strings
    final_transition_ids: Strings
    is_plain: bool = False

    def __post_init__(self) -> None:
        for costs in (self.acoustic_cost, self.final_acoustic_cost[self.fst.final < np.inf]):
            if not np.isfinite(costs).all():
                raise ModelFormatError("an acoustic cost of a lattice is not a finite number")
        if self.transition_ids.values.min(initial=1) < 1 or self.final_transition_ids.values.min(initial=1) < 1:
            raise ModelFormatError("a transition-id of a lattice is below 1")

    def with_costs(
        self, graph: tuple[float, float] = (1.0, 0.0), acoustic: tuple[float, float] = (0.0, 1.0)
    ) -> Lattice:
        """Returns the lattice with new graph and acoustic costs, each a weighted sum of the old ones.

        `graph`, `acoustic`: the weights of the old graph and acoustic costs in the new graph and acoustic costs.
        Raises ArgumentError if a new cost is beyond float32.
        """
        is_final = self.fst.final < np.inf
        final = np.where(is_final, self.fst.final, 0), np.where(is_final, self.final_acoustic_cost, 0)
        costs = self.fst.cost, self.acoustic_cost

        def mixed(factors: tuple[float, float], of: tuple[npt.NDArray[np.float32], ...]) -> npt.NDArray[np.float32]:
            with within_float32(f"{factors[0]:g} * graph cost + {factors[1]:g} * acoustic cost"):
                return (factors[0] * of[0] + factors[1] * of[1]).astype(np.float32)

        ends = (np.where(is_final, mixed(factors, final), NOT_FINAL) for factors in (graph, acoustic))
        fst = replace(self.fst, cost=mixed(graph, costs), final=next(ends))
        return replace(self, fst=fst, acoustic_cost=mixed(acoustic, costs), final_acoustic_cost=next(ends))

    def with_word_penalty(self, penalty: float) -> Lattice:
        """Returns the lattice with a cost added to the graph cost of each word. Raises ArgumentError beyond float32."""
        with within_float32(f"{penalty:g} for each word"):
            cost = (self.fst.cost + penalty * (self.fst.ilabel > 0)).astype(np.float32)
        return replace(self, fst=replace(self.fst, cost=cost))

    def plain(self) -> Lattice:
        """Returns the lattice with an arc for each transition-id; the first arc of a string has its word and costs.

        New states are numbered in the order of their source states; at a state, states of its end come before states of
        arcs.
        """
        if self.is_plain:
            return self
        fst, ends = self.fst, np.flatnonzero((self.fst.final < np.inf) & (self.final_transition_ids.lengths > 0))
        is_end = np.arange(fst.num_arcs + len(ends)) >= fst.num_arcs
        src: Integers = np.append(fst.src, ends)
        dst: Integers = np.append(fst.dst, -np.ones_like(ends))
        order = np.lexsort((~is_end, src))
        strings = Strings.joined([self.transition_ids, self.final_transition_ids[ends]])[order]
        of, src, dst, is_first = Stretched.of(strings.lengths, src[order], dst[order], fst.num_states)
        by_state = np.argsort(src, kind="stable")

        def of_first(values: npt.NDArray[Any], behind: npt.NDArray[Any] | int = 0) -> npt.NDArray[Any]:
            every = np.append(values, np.broadcast_to(behind, len(ends)))[order][of]
            return np.where(is_first, every, 0).astype(values.dtype)

        last_of_ends = (np.cumsum(np.maximum(strings.lengths, 1)) - 1)[is_end[order]]
        final, final_acoustic = np.full((2, max(fst.num_states, dst.max(initial=-1) + 1)), NOT_FINAL, np.float32)
        final[: fst.num_states], final_acoustic[: fst.num_states] = fst.final, self.final_acoustic_cost
        final[ends] = NOT_FINAL
        final[dst[last_of_ends]] = final_acoustic[dst[last_of_ends]] = 0
        made = Fst.from_arcs(fst.start, final, src, dst, of_first(fst.ilabel), of_first(fst.cost, fst.final[ends]))
        acoustic = of_first(self.acoustic_cost, self.final_acoustic_cost[ends])[by_state]
        ids = Strings.of(strings.lengths[of] > 0, strings.values)[by_state]
        return Lattice(made, acoustic, final_acoustic, ids, no_strings(len(final)), is_plain=True)


def read_lattice(reader: Reader) -> Lattice:
    """Reads a lattice: text, which begins with white space, or binary. Raises ModelFormatError."""
    first = reader.raw_byte_peek()
    if first is not None and bytes([first]).isspace():
        return _read_text(reader)
    if first not in (None, MAGIC[0]):
        raise reader.error("expected a lattice: text, on the lines behind the key, or binary, with d6 fd b2 7e first")
    binary, reader.binary = reader.binary, True
    start = reader.position
    header = read_fst_header(reader, (VECTOR,), (COMPACT, PLAIN))
    try:
        lattice = _read_compact(reader, header) if header.arc_type == COMPACT else _read_plain(reader, header)
    except ModelFormatError as error:
        raise error if error.place else reader.error_at(start, f"a damaged lattice: {error.message}") from None
    reader.binary = binary
    return lattice


def open_lattice_table(rspecifier: str) -> TableReader[Lattice]:
    """Iterates over (key, lattice)."""
    return TableReader(rspecifier, read_lattice)


class _Walk:
    """Walks over raw data whose records tell the position of the next record."""

    def __init__(self, reader: Reader):
        self.reader, self.start, self.position = reader, reader.position, reader.position

    def skip(self, count: int, unit: int, what: str) -> int:
        """Skips `count` things of `unit` bytes; returns where they begin, in words of 4 bytes."""
        if count < 0 or self.position + count * unit > self.start + self.reader.left:
            raise self.reader.truncated(f"{what} cannot have {count} elements")
        word = (self.position - self.start) // 4
        self.position += count * unit
        return word

    def number(self, layout: struct.Struct, what: str) -> int:
        self.skip(1, layout.size, what)
        (value,) = layout.unpack_from(self.reader.data, self.position - layout.size)
        return int(value)

    def words(self) -> Integers:
        """Returns the walked data, (words,) int32, and moves the reader behind it."""
        return self.reader.raw_array((self.position - self.start) // 4, "<i4", "a lattice")


def _read_plain(reader: Reader, header: FstHeader) -> Lattice:
    """Reads for each state two final costs, the number of arcs, and the arcs: input label, output label, costs, dst."""
    reader.need(16 * header.states, f"{header.states} states of a lattice")
    walk = _Walk(reader)
    offsets, state_at = np.zeros(header.states + 1, np.int64), np.empty(header.states, np.int64)
    for state in range(header.states):
        state_at[state] = walk.skip(2, 4, "a final weight")
        count = walk.number(_COUNT, "a state")
        walk.skip(count, 4 * _PLAIN_ARC_WORDS, "a state")
        offsets[state + 1] = offsets[state] + count
    words = walk.words()
    behind = np.repeat(state_at + 4, np.diff(offsets)) - _PLAIN_ARC_WORDS * np.repeat(offsets[:-1], np.diff(offsets))
    arc_at = behind + _PLAIN_ARC_WORDS * np.arange(offsets[-1])
    ids = words[arc_at]
    if ids.min(initial=0) < 0:
        raise ModelFormatError(f"a transition-id of a lattice is {ids.min()}")
    strings = Strings.of(ids > 0, ids[ids > 0])
    none = no_strings(header.states)
    return replace(
        _lattice(header.start, offsets, words, state_at, arc_at + 1, arc_at + 4, strings, none), is_plain=True
    )


def _read_compact(reader: Reader, header: FstHeader) -> Lattice:
    """Reads for each state final weight (costs and a string), number of arcs, and weighted arcs."""
    reader.need(20 * header.states, f"{header.states} states of a lattice")
    walk = _Walk(reader)
    offsets, state_at = np.zeros(header.states + 1, np.int64), np.empty(header.states, np.int64)
    final_lengths = np.zeros(header.states, np.int64)
    arc_at: list[int] = []
    lengths: list[int] = []
    for state in range(header.states):
        state_at[state] = walk.skip(2, 4, "a final weight")
        final_lengths[state] = walk.number(_LENGTH, "a final weight")
        walk.skip(int(final_lengths[state]), 4, "a final weight")
        count = walk.number(_COUNT, "a state")
        reader.need(4 * _COMPACT_ARC_WORDS * count if count > 0 else 0, f"{count} arcs of a lattice")
        for _ in range(count):
            arc_at.append(walk.skip(4, 4, "an arc"))
            lengths.append(walk.number(_LENGTH, "an arc"))
            walk.skip(lengths[-1] + 1, 4, "an arc")
        offsets[state + 1] = len(arc_at)
    words = walk.words()
    at, length = np.array(arc_at, np.int64), np.array(lengths, np.int64)
    strings, finals = _strings(words, at + 5, length), _strings(words, state_at + 3, final_lengths)
    if not np.array_equal(words[at], words[at + 1]):
        raise ModelFormatError("a compact lattice must be an acceptor: both labels of each arc the same")
    return _lattice(header.start, offsets, words, state_at, at + 1, at + 5 + length, strings, finals)


def _strings(words: Integers, starts: Integers, lengths: Integers) -> Strings:
    offsets = np.append(0, np.cumsum(lengths))
    return Strings.of(lengths, words[np.arange(offsets[-1]) + np.repeat(starts - offsets[:-1], lengths)])


def _lattice(
    start: int,
    offsets: npt.NDArray[np.int64],
    words: Integers,
    state_at: Integers,
    label_at: Integers,
    dst_at: Integers,
    strings: Strings,
    final_strings: Strings,
) -> Lattice:
    """Makes a lattice of words and positions in it: final weights, labels before two costs, next states."""
    reals = words.view("<f4")
    label, dst = words[label_at].astype(np.int32), words[dst_at].astype(np.int32)
    final, final_acoustic = reals[state_at].astype(np.float32), reals[state_at + 1].astype(np.float32)
    fst = Fst(start, final, offsets, label, label, reals[label_at + 1].astype(np.float32), dst)
    return Lattice(fst, reals[label_at + 2].astype(np.float32), final_acoustic, strings, final_strings)


def _read_text(reader: Reader) -> Lattice:
    """`src dst label [weight]` and `state [weight]`, or with two labels (the first one a transition-id) as the plain
    type has them; a weight is `graph cost,acoustic cost`, and in the compact type also `,id_id_id`."""
    lines = read_lines(reader, (1, 2, 3, 4, 5))
    with lines.naming(reader):
        if not len(lines.fields):
            empty = np.empty(0, np.float32)
            return Lattice(Fst.empty(), empty, empty, no_strings(0), no_strings(0))
        compact = not any(word and b"," not in word for word in lines.arcs[:, 3].tolist())
        labels = lines.whole_numbers(lines.arcs[:, 2 if compact else 3])
        costs, strings = _weights(lines, lines.arcs[:, 3 if compact else 4])
        final_costs, final_strings = _weights(lines, lines.ends[:, 1])
        if not compact:
            ids = lines.whole_numbers(lines.arcs[:, 2])
            strings = Strings.of(ids > 0, ids[ids > 0])
        order = np.argsort(lines.src, kind="stable")
        final = lines.by_state(final_costs, NOT_FINAL)
        fst = Fst.from_arcs(lines.start, final[:, 0], lines.src, lines.dst, labels, costs[:, 0])
        in_order = final_strings[np.argsort(lines.ending)]
        finals = Strings.of(lines.by_state(final_strings.lengths, 0), in_order.values)
        return Lattice(fst, costs[order, 1], final[:, 1], strings[order], finals, is_plain=not compact)


def _weights(lines: FstLines, words: npt.NDArray[Any]) -> tuple[npt.NDArray[np.float32], Strings]:
    """Parses weights into costs, (words, 2), and strings; an empty word is 0,0 without a string."""
    pieces = [(word or b"0,0").split(b",") for word in words.tolist()]
    bad = next((b",".join(piece) for piece in pieces if len(piece) not in (2, 3)), None)
    if bad is not None:
        shown = bad[:40].decode("utf-8", "replace")
        raise ModelFormatError(f"a weight of a lattice must be such as 3.5,20.25,7_7_8, got '{shown}'")
    costs = np.array([piece[:2] for piece in pieces], object).reshape(-1, 2)
    lists = [piece[2].split(b"_") if len(piece) == 3 and piece[2] else [] for piece in pieces]
    ids = [parse_integer(word) for words_of_one in lists for word in words_of_one]
    if None in ids:
        raise ModelFormatError("the transition-ids of a lattice must be integers")
    return lines.costs(costs), Strings.of([len(words_of_one) for words_of_one in lists], np.array(ids, np.int32))
