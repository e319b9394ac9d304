"""The steps of a search in C (tokens.c)."""

from __future__ import annotations

import ctypes

import numpy as np
import numpy.typing as npt

from nnet3.base.native.addresses import address_of as _address, addresses_of as _addresses
from nnet3.base.native.library import library
from nnet3.errors import ExecutionError
from nnet3.speech.arrays.aliases import Doubles, Flags, Integers
from nnet3.speech.search.array_steps import ArraySteps
from nnet3.speech.search.growing_graph import GrowingGraph
from nnet3.speech.search.search_graph import SearchGraph
from nnet3.speech.search.tokens import ENDLESS, MOST_ROUNDS, KeptLinks, Links, TokenRow, TokenSteps

_NEEDS_ARCS, _NO_MEMORY, _TOO_MANY_ROUNDS = 1, 2, 3


def token_steps() -> TokenSteps:
    """Returns the steps in C, or in NumPy where C cannot be compiled."""
    functions = library()
    return ArraySteps() if functions is None else NativeSteps(functions)


class NativeSteps:
    """TokenSteps in C. Costs, orders and links equal those of ArraySteps to the last bit."""

    def __init__(self, functions: ctypes.CDLL):
        self._functions = functions

    def first(self, graph: SearchGraph | GrowingGraph, beam: float) -> TokenRow:
        return self._row(graph, np.array([graph.start], np.int64), np.zeros(1), None, beam, beam, 0)

    def next(
        self,
        graph: SearchGraph | GrowingGraph,
        last: TokenRow,
        scores: npt.NDArray[np.float32],
        cutoff: float,
        beam: float,
        buckets: int = 0,
    ) -> TokenRow:
        return self._row(graph, last.state, last.cost, np.ascontiguousarray(scores, np.float32), cutoff, beam, buckets)

    def _row(
        self,
        graph: SearchGraph | GrowingGraph,
        state: Integers,
        cost: Doubles,
        scores: npt.NDArray[np.float32] | None,
        cutoff: float,
        beam: float,
        buckets: int,
    ) -> TokenRow:
        functions, sizes, columns = self._functions, np.zeros(4, np.int64), None
        address = 0 if scores is None else _address(scores)
        before = len(state), _address(state), _address(cost)
        row = functions.nnet3_row_begin(*before, cutoff, scores is not None, buckets)
        if not row:
            raise MemoryError
        try:
            while True:
                with graph.lock:
                    table = np.append(_addresses(graph.columns()), graph.step)
                    status = functions.nnet3_row_go_on(row, _address(table), address, beam, MOST_ROUNDS)
                functions.nnet3_row_sizes(row, _address(sizes))
                tokens, emitting, epsilons, sources = sizes.tolist()
                if status != _NEEDS_ARCS:
                    break
                states = np.empty(sources, np.int64)
                functions.nnet3_row_states_of_sources(row, _address(states))
                graph.expand(states)
            if status == _NO_MEMORY:
                raise MemoryError
            if status == _TOO_MANY_ROUNDS:
                raise ExecutionError(ENDLESS)
            made = TokenRow(*_columns(tokens), _links(emitting), _links(epsilons))
            into = made.state, made.cost, made.back_src, made.back_arc, made.within
            links = ((each.src, each.dst, each.arc, each.cost) for each in (made.emitting, made.epsilons))
            columns = _addresses(column for each in (into, *links) for column in each)
            return made
        finally:
            functions.nnet3_row_end(row, 0 if columns is None else _address(columns))

    def kept_links(self, row: TokenRow, following: TokenRow, beam: float) -> KeptLinks:
        tokens, links, epsilons = len(row.state), following.emitting, row.epsilons
        kept, kept_epsilons = np.empty(len(links.arc), bool), np.empty(len(epsilons.arc), bool)
        excess, work = np.empty(tokens), np.empty(2 * tokens)
        before = map(_address, (row.cost, row.excess, following.cost, following.excess))
        to_next = map(_address, (links.src, links.dst, links.cost, kept))
        within = map(_address, (epsilons.src, epsilons.dst, epsilons.cost, kept_epsilons, excess, work))
        has_changed = self._functions.nnet3_prune_links(
            tokens, *before, beam, len(links.arc), *to_next, len(epsilons.arc), *within
        )
        return KeptLinks(kept, kept_epsilons, excess, bool(has_changed))


def _columns(tokens: int) -> tuple[Integers, Doubles, Integers, Integers, Flags]:
    state, back_src, back_arc = np.empty((3, tokens), np.int64)
    return state, np.empty(tokens), back_src, back_arc, np.empty(tokens, bool)


def _links(count: int) -> Links:
    src, dst, arc = np.empty((3, count), np.int64)
    return Links(src, dst, arc, np.empty(count))
