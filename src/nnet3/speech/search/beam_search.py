"""Beam search over a decoding graph, a row of scores at a time, with the lattice of all that was good."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from nnet3.base.options.recognizer import SearchOptions
from nnet3.errors import ExecutionError, is_out_of_memory
from nnet3.speech.arrays.aliases import Doubles, Integers
from nnet3.speech.lattices.raw_lattice import RawLattice
from nnet3.speech.search.composition import Composition
from nnet3.speech.search.growing_graph import GrowingGraph
from nnet3.speech.search.native_steps import token_steps
from nnet3.speech.search.search_graph import SearchGraph
from nnet3.speech.search.token_rows import TokenRows
from nnet3.speech.search.tokens import TokenRow

_MOST_LINKS = 1 << 24  # half a GiB
_NARROWER = 0.75
_NARROWEST_BEAM = 1.0
_FEWEST_BUCKETS = 1000


class BestPath(NamedTuple):
    """The best path from the start of a search to a token.

    transition_ids, states: (rows,), label and source state of each row's arc. words, word_rows: (words,),
    output labels and the number of rows before each label.
    """

    cost: float
    transition_ids: Integers
    states: Integers
    words: Integers
    word_rows: Integers


class BeamSearch:
    """One search, from the start of the graph. `notices`: messages about beams narrowed for lack of memory."""

    def __init__(self, graph: SearchGraph | GrowingGraph, options: SearchOptions, first_beam: float | None = None):
        """`first_beam`: the beam of what is reached before the first row; None: that of `options`."""
        self.graph, self.options = graph, options
        self.notices: list[str] = []
        self._steps = token_steps()
        # Kaldi's hash table of tokens grows with the search. 0: states of this graph have other numbers in Kaldi.
        self._buckets = _FEWEST_BUCKETS if isinstance(graph, SearchGraph) else 0
        beam = options.beam if first_beam is None else first_beam
        self.tokens = TokenRows(graph, self._steps.first(graph, beam), self._steps)

    @property
    def num_rows(self) -> int:
        """The number of rows of scores taken so far."""
        return len(self.tokens)

    def advance(self, scores: npt.NDArray[np.float32]) -> None:
        """Takes rows of scores, (rows, columns), log-likelihoods of which nothing is scaled any more."""
        if scores.ndim != 2 or scores.shape[1] < self.graph.num_columns:
            raise ExecutionError(
                f"expected scores of at least {self.graph.num_columns} columns, got an array of shape {scores.shape}"
            )
        for row in scores:
            if self.num_rows % self.options.prune_interval == 0 and self.num_rows:
                self.prune()
            self._take(row)

    def _take(self, scores: npt.NDArray[np.float32]) -> None:
        while True:
            try:
                row = self._next(scores)
            except (MemoryError, RuntimeError) as error:
                if not is_out_of_memory(error) or not self._narrow():
                    raise
                continue
            self._buckets = self._buckets and max(self._buckets, 2 * len(self.tokens.last.state))
            self.tokens.append(row)
            while self.tokens.num_links > _MOST_LINKS:
                self.prune()
                if self.tokens.num_links > _MOST_LINKS // 2 and not self._narrow():
                    break
            return

    def _narrow(self) -> bool:
        """Narrows both beams; returns False if no beam can be narrower."""
        beam, lattice_beam = (_NARROWER * each for each in (self.options.beam, self.options.lattice_beam))
        if beam < _NARROWEST_BEAM:
            return False
        self.options = replace(self.options, beam=beam, lattice_beam=lattice_beam)
        self.notices.append(f"the search needs too much memory: from row {self.num_rows} on the beam is {beam:.3g}")
        return True

    # ---- one row ----

    def _next(self, scores: npt.NDArray[np.float32]) -> TokenRow:
        last = self.tokens.last
        return self._steps.next(self.graph, last, scores, *self._cutoff(last.cost), self._buckets)

    def _cutoff(self, cost: Doubles) -> tuple[float, float]:
        """Returns the highest cost of tokens that go on, and the beam for the tokens of the next row."""
        options, tokens = self.options, len(cost)
        if tokens == 0:
            return np.inf, options.beam
        best = float(cost.min())
        most = best + options.beam
        if tokens > options.max_active and np.count_nonzero(cost < most) > options.max_active:
            highest = float(np.partition(cost, options.max_active)[options.max_active])
            return highest, highest - best + options.beam_delta
        if options.min_active > 0 and np.count_nonzero(cost <= most) <= options.min_active:
            enough = tokens > options.min_active
            least = float(np.partition(cost, options.min_active)[options.min_active]) if enough else np.inf
            return least, least - best + options.beam_delta
        return most, options.beam

    # ---- the lattice ----

    def prune(self) -> None:
        """Removes what is no part of a path within the lattice beam, as far back as the last rows changed anything."""
        self.tokens.prune(self.options.lattice_beam)

    def lattice(self, use_final: bool = True, first: int = 0, *, prune: bool = True) -> RawLattice | None:
        """Returns the lattice of all paths so far within the lattice beam; None without a path.

        `use_final`: keep only paths to final states, with final costs, if any token is in a final state.
        `first`: the first row of the lattice, whose start leads to the tokens of row `first`.
        `prune`: if false, paths stay that no pruning during the search has removed.
        """
        if prune:
            self.prune()
        tokens = self.tokens
        if not len(tokens.last.state):
            return None
        final = self.graph.final[tokens.last.state].astype(np.float64)
        has_ended = use_final and bool((final < np.inf).any())
        beam = self.options.lattice_beam if prune else np.inf
        raw = tokens.lattice(first, len(tokens), final if has_ended else np.zeros(len(final)), has_ended, beam)
        return raw.pruned(beam)

    def forget(self, row: int, graph: SearchGraph | GrowingGraph) -> None:
        """Forgets the rows before `row`, but not the best paths to row `row`, and goes on in `graph`.

        `graph`: the graph of the search, or a composition of the same parts with fewer states.
        """
        self.tokens.forget(row)
        if graph is not self.graph and isinstance(graph, Composition):
            self.tokens.move(graph)
            self.graph = graph

    # ---- the best path ----

    @property
    def can_end(self) -> bool:
        """True if some token is in a final state."""
        return bool((self.graph.final[self.tokens.last.state] < np.inf).any())

    @property
    def relative_cost(self) -> float:
        """The further cost of the best path if it must end now; infinite if none can."""
        last = self.tokens.last
        if not len(last.cost):
            return np.inf
        return float((last.cost + self.graph.final[last.state]).min() - last.cost.min())

    def best_path(self, use_final: bool = False) -> BestPath | None:
        """Returns the best path so far; None without a path. `use_final`: the best path to a final state, if any."""
        cost = self._last_costs(use_final)
        return BestPath(float(cost.min()), *self.tokens.path_to(int(np.argmin(cost)))) if len(cost) else None

    def newest(self, first: int, use_final: bool = False) -> tuple[Integers, Integers] | None:
        """Returns the end of the best path: transition-id and source state of each row from `first` on, (rows,) each;
        None if no path is left. The time needed does not grow with the rows before `first`.
        """
        cost = self._last_costs(use_final)
        if not len(cost):
            return None
        steps = self.tokens.path_to(int(np.argmin(cost)), first)
        behind = len(steps.states) - max(self.num_rows - first, 0)
        return steps.transition_ids[behind:], steps.states[behind:]

    def _last_costs(self, use_final: bool) -> Doubles:
        """Returns the costs of the newest tokens; with `use_final` those of ending, if any can."""
        last = self.tokens.last
        final = self.graph.final[last.state]
        return last.cost + final if use_final and (final < np.inf).any() else last.cost
