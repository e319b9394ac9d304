"""GrammarGraph: a top graph and the graphs of its nonterminals, stitched together while they are searched.

Files are written by Kaldi's make-grammar-fst. The input label of an arc that leaves a graph names a nonterminal and the
phone before. The start state of the entered graph, and the state to which a nonterminal returns, have an arc for each
phone that may come before. An arc out of a graph and the arc into the next become one arc without an input label.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from nnet3.base.kaldi_io.fst import Fst
from nnet3.base.kaldi_io.fst_const import read_const, write_const
from nnet3.base.kaldi_io.fst_header import CONST, read_fst_header
from nnet3.base.kaldi_io.reader import Reader
from nnet3.base.kaldi_io.writer import Writer
from nnet3.errors import ModelFormatError
from nnet3.speech.arrays.aliases import Flags, Integers
from nnet3.speech.arrays.arcs import arcs_leaving
from nnet3.speech.arrays.number_of_key import NumberOfKey
from nnet3.speech.search.growing_graph import GrowingGraph, put

_FORMAT = 1
CROSSES = np.float32(4096.0)  # the final cost of a state from where arcs lead to other graphs
FIRST_LABEL, _MULTIPLE = 10_000_000, 1000  # of labels of nonterminals: the first, and what a nonterminal counts
BEGIN, END, REENTER, FIRST_NONTERMINAL = 1, 2, 3, 4  # symbols, counted from the first one
_TOP, _NOBODY = 0, -1
_MIX = np.uint64(0x9E3779B97F4A7C15)


def encoding_multiple(first_symbol: int) -> int:
    """Returns by how much the labels of a nonterminal are above those of the nonterminal before."""
    return _MULTIPLE * ((first_symbol + _MULTIPLE) // _MULTIPLE)


class Grammar(NamedTuple):
    """A top graph, graphs by their nonterminals, and the symbol #nonterm_bos, the first one behind the phones."""

    first_symbol: int
    top: Fst
    parts: dict[int, Fst]


def read_grammar(reader: Reader) -> Grammar:
    """Reads a grammar up to the end of the file. Raises ModelFormatError."""
    if not reader.binary:
        raise reader.error("expected a grammar in Kaldi's binary form, which begins with 00 42 and <GrammarFst>")
    reader.expect("<GrammarFst>")
    if (version := reader.int32()) != _FORMAT:
        raise reader.error(f"expected a grammar of format {_FORMAT}, got {version}")
    count, first_symbol = reader.size("graphs of a grammar"), reader.int32()
    if first_symbol < 2:
        raise reader.error(f"expected the symbol #nonterm_bos behind the phones, got {first_symbol}")
    top = read_const(reader, read_fst_header(reader, (CONST,)))
    if not top.num_states:
        raise reader.error("the top graph of the grammar is empty")
    parts: dict[int, Fst] = {}
    for _ in range(count):
        nonterminal = reader.int32()
        if nonterminal < first_symbol + FIRST_NONTERMINAL or nonterminal in parts:
            raise reader.error(f"expected a graph of another nonterminal, got that of {nonterminal}")
        parts[nonterminal] = read_const(reader, read_fst_header(reader, (CONST,)))
    reader.expect("</GrammarFst>")
    reader.finish()
    return Grammar(first_symbol, top, parts)


def write_grammar(writer: Writer, grammar: Grammar) -> None:
    """Writes a grammar in binary, for `read_grammar`."""
    writer.token("<GrammarFst>")
    for number in (_FORMAT, len(grammar.parts), grammar.first_symbol):
        writer.int32(number)
    write_const(writer, grammar.top)
    for nonterminal, fst in grammar.parts.items():
        writer.int32(nonterminal)
        write_const(writer, fst)
    writer.token("</GrammarFst>")


class _Entries:
    """Finds the arcs by which graphs are entered and returned to, by source state and preceding phone."""

    def __init__(self, src: Integers, arc: Integers, phone: Integers, states: int):
        key = src << 32 | phone
        order = np.argsort(key, kind="stable")
        self._keys, self._arcs = key[order], arc[order]
        self.count = np.bincount(src, minlength=states)  # (states,)
        if (np.diff(self._keys) == 0).any():
            raise ModelFormatError("the grammar has two ways into a graph behind the same phone")

    def find(self, state: Integers, phone: Integers) -> Integers:
        """Returns each state's arc for the phone before, (n,). Raises ModelFormatError for a state without an arc."""
        key = state << 32 | phone
        at = np.minimum(np.searchsorted(self._keys, key), max(len(self._keys) - 1, 0))
        if len(key) and not (len(self._keys) and (self._keys[at] == key).all()):
            raise ModelFormatError("the grammar has no way into a graph, or back from it, behind a phone that comes")
        return self._arcs[at] if len(key) else key


class GrammarGraph(GrowingGraph):
    """A grammar as one graph. A state is a pair: an instance of a graph, and a state of this graph.

    An instance is a graph with a return state: the instance that it was entered from, and a state there. So
    graphs may enter each other and themselves. What phones before do not come in a sum of probabilities that the
    graphs were made for is added to the costs of entering and returning.
    """

    def __init__(self, grammar: Grammar, column_of_label: npt.ArrayLike):
        fsts = [grammar.top, *grammar.parts.values()]
        sizes, arcs = [fst.num_states for fst in fsts], [fst.num_arcs for fst in fsts]
        self._first_state = np.append(0, np.cumsum(sizes))
        offsets = [fst.offsets[:-1] + first for fst, first in zip(fsts, np.append(0, np.cumsum(arcs)), strict=False)]
        self._offsets = np.append(np.concatenate(offsets), sum(arcs))
        self._labels, self._words, self._costs = (
            np.concatenate([getattr(fst, name) for fst in fsts]) for name in ("ilabel", "olabel", "cost")
        )
        shifted = zip(fsts, self._first_state, strict=False)
        self._targets = np.concatenate([fst.dst.astype(np.int64) + first for fst, first in shifted])
        final = np.concatenate([fst.final for fst in fsts])
        self._crosses: Flags = final == CROSSES
        self._finals = np.where(self._crosses, np.inf, final).astype(np.float32)
        self._starts = np.array([fst.start for fst in fsts], np.int64) + self._first_state[:-1]
        self._number_of = {nonterminal: number for number, nonterminal in enumerate(grammar.parts, 1)}
        self._is_empty = np.array(sizes) == 0
        self._decode_labels(grammar.first_symbol)
        ordinary = self._labels[self._symbol < 0]
        super().__init__(column_of_label, int(ordinary.max(initial=0)))
        self._number, self._instance, self._state = NumberOfKey(), np.zeros(0, np.int64), np.zeros(0, np.int64)
        self._parents, self._returns = np.array([_NOBODY]), np.array([_NOBODY])  # of instances; the first is the top
        self._instances: dict[tuple[int, int, int], int] = {}
        self._numbers(np.array([_TOP]), self._starts[:1])

    def _decode_labels(self, first_symbol: int) -> None:
        """Splits labels of nonterminals into symbol, from `first_symbol` on, and phone; symbol -1: a plain label."""
        multiple = encoding_multiple(first_symbol)
        symbol, self._phone = np.divmod(self._labels.astype(np.int64) - FIRST_LABEL, multiple)
        self._symbol = np.where(self._labels >= FIRST_LABEL, symbol - first_symbol, -1)
        self._first_symbol = first_symbol
        arc = np.flatnonzero((self._symbol == BEGIN) | (self._symbol == REENTER))
        src = np.repeat(np.arange(len(self._offsets) - 1), np.diff(self._offsets))
        self._entries = _Entries(src[arc], arc, self._phone[arc], len(self._offsets) - 1)
        leaves = (self._symbol == END) | (self._symbol >= FIRST_NONTERMINAL)
        wrong = self._crosses[src] != leaves
        if wrong.any():
            raise ModelFormatError(
                f"state {src[np.argmax(wrong)]} of the grammar's graphs has arcs to other graphs and ordinary ones: "
                "are the graphs those of make-grammar-fst?"
            )

    # ---- states ----

    def _numbers(self, instance: Integers, state: Integers) -> Integers:
        key = instance.astype(np.uint64) << np.uint64(32) | state.astype(np.uint64)
        with np.errstate(over="ignore"):
            key = (key ^ key >> np.uint64(32)) * _MIX  # one to one
        number, new = self._number.find_or_add(key)
        if len(new):
            added = instance[new], state[new]
            final = np.where(added[0] == _TOP, self._finals[added[1]], np.inf).astype(np.float32)
            first = self._add_states(final)
            self._instance, self._state = put(self._instance, first, added[0]), put(self._state, first, added[1])
        return number

    def _child(self, parent: int, nonterminal: int, state: int) -> int:
        """Returns the instance of a nonterminal's graph that returns to a state of the parent's."""
        known = self._instances.setdefault((parent, nonterminal, state), len(self._parents))
        if known == len(self._parents):
            self._parents = np.append(self._parents, parent)
            self._returns = np.append(self._returns, state)
        return known

    # ---- arcs ----

    def _make_arcs(self, states: Integers) -> None:
        instance, state = self._instance[states], self._state[states]
        arc, of = arcs_leaving(self._offsets, state)
        symbol = self._symbol[arc]
        inside, back, into = (np.flatnonzero(kind) for kind in (symbol < 0, symbol == END, symbol >= FIRST_NONTERMINAL))
        label, word, cost = self._labels[arc], self._words[arc], self._costs[arc]
        target, target_instance = self._targets[arc], instance[of]
        kept = [inside]
        crossings = (back, *self._back(instance[of[back]])), (into, *self._into(arc[into], instance[of[into]]))
        for crossing, instances, entries in crossings:
            there = np.flatnonzero(entries != _NOBODY)
            chosen, entry = crossing[there], entries[there]
            enters = self._entries.find(entry, self._phone[arc[chosen]])
            correction = -np.log(self._entries.count[entry]).astype(np.float32)
            label[chosen], word[chosen] = 0, self._words[enters]
            cost[chosen] = correction + cost[chosen] + self._costs[enters]
            target[chosen], target_instance[chosen] = self._targets[enters], instances[there]
            kept.append(chosen)
        all_kept = np.sort(np.concatenate(kept))
        dst = self._numbers(target_instance[all_kept], target[all_kept])
        of, arc, label, word = (column[all_kept] for column in (of, arc, label, word))
        self._keep_arcs(states, of, arc, label, word, cost[all_kept], dst)

    def _back(self, instance: Integers) -> tuple[Integers, Integers]:
        """Returns instances and states, (n,) each, to which instances (n,) return; an error for the top graph."""
        if (instance == _TOP).any():
            raise ModelFormatError("the top graph of the grammar has an arc that returns from it")
        return self._parents[instance], self._returns[instance]

    def _into(self, arc: Integers, instance: Integers) -> tuple[Integers, Integers]:
        """Returns the instances that arcs (n,) out of instances (n,) enter, and start states, -1 in empty graphs."""
        calls = np.stack([instance, self._symbol[arc] + self._first_symbol, self._targets[arc]])
        distinct, which = np.unique(calls, axis=1, return_inverse=True)
        unknown = set(distinct[1].tolist()) - self._number_of.keys()
        if unknown:
            raise ModelFormatError(f"the grammar has no graph for nonterminal {min(unknown)}")
        number = np.array([self._number_of[nonterminal] for nonterminal in distinct[1].tolist()], np.int64)
        children = np.array([self._child(*call) for call in distinct.T.tolist()], np.int64)
        starts = np.where(self._is_empty[number], _NOBODY, self._starts[number])
        return children[which.reshape(-1)], starts[which.reshape(-1)]
