"""A look-ahead graph composed with a language model, state by state and arc by arc: the rules as plain Python."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from nnet3.speech.language_models.language_model import BackoffModel
from nnet3.speech.search.composition import LookaheadGraph

Arc = tuple[int, int, float, "State"]  # input label, output label, cost, where it leads


class State(NamedTuple):
    graph: int
    history: int
    is_past: bool
    ahead: float
    word: int


class SlowComposition:
    def __init__(self, graph: LookaheadGraph, model: BackoffModel):
        self.graph, self.model = graph, model
        self.start = State(graph.fst.start, model.start, False, 0.0, 0)

    def arcs(self, state: State) -> list[Arc]:
        fst, model = self.graph.fst, self.model
        found: list[Arc] = []
        if not state.word and model.shorter[state.history] >= 0 and not state.is_past:
            target = State(state.graph, int(model.shorter[state.history]), False, 0.0, 0)
            found.append((0, 0, float(model.back_off_cost[state.history]) - state.ahead, target))
        for arc in range(fst.offsets[state.graph], fst.offsets[state.graph + 1]):
            label, word = int(self.graph.label_of_input[fst.ilabel[arc]]), int(fst.olabel[arc])
            cost, dst = float(fst.cost[arc]), int(fst.dst[arc])
            if state.word:
                if word == state.word:
                    found.append((label, 0, cost, State(dst, state.history, False, 0.0, 0)))
                elif not word and (self._is_alone(state.graph) or self._reaches(dst, state.word)):
                    found.append((label, 0, cost, state._replace(graph=dst)))
            elif word:
                for number in self._arcs_of(state.history):
                    if model.words[number] == word:
                        total = cost + float(model.cost[number]) - state.ahead
                        found.append((label, word, total, State(dst, int(model.dst(np.array(number))), False, 0.0, 0)))
            elif self._arcs_of(state.history) or np.isfinite(model.final[state.history]):
                found += self._silent(state, label, cost, dst)
        return found

    def _silent(self, state: State, label: int, cost: float, dst: int) -> list[Arc]:
        model = self.model
        ways = [arc for arc in self._arcs_of(state.history) if self._reaches(dst, int(model.words[arc]))]
        final = float(model.final[state.history]) if self._reaches(dst, self.graph.reach.final_label) else np.inf
        is_past = bool(model.shorter[state.history] >= 0)
        if len(ways) == 1 and final == np.inf:
            word, behind = int(model.words[ways[0]]), int(model.dst(np.array(ways[0])))
            total = cost + float(model.cost[ways[0]]) - state.ahead
            return [(label, word, total, State(dst, behind, is_past, 0.0, word))]
        if not ways and final == np.inf:
            return []
        ahead = -np.log(sum(np.exp(-float(model.cost[arc])) for arc in ways)) if ways else np.inf
        ahead = min(ahead, final)
        kept = float(np.floor(ahead * 1024 + 0.5) / 1024)
        return [(label, 0, cost + ahead - state.ahead, State(dst, state.history, is_past, kept, 0))]

    def final(self, state: State) -> float:
        if state.word:
            return np.inf
        return float(self.graph.fst.final[state.graph]) + float(self.model.final[state.history]) - state.ahead

    def _arcs_of(self, history: int) -> range:
        return range(self.model.first_arc[history], self.model.first_arc[history + 1])

    def _is_alone(self, state: int) -> bool:
        return bool(self.graph.fst.offsets[state + 1] - self.graph.fst.offsets[state] == 1)

    def _reaches(self, state: int, word: int) -> bool:
        reach = self.graph.reach
        places = range(reach.offsets[state], reach.offsets[state + 1])
        return any(reach.begin[place] <= word < reach.end[place] for place in places)
