"""Lattices that Kaldi inside Vosk got and returned; see golden/README.md."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from nnet3.base.kaldi_io.lattice import Strings
from nnet3.model.hmm.topology import NO_PDF, HmmTopology, TopologyEntry, TopologyState
from nnet3.model.hmm.transition_model import TransitionModel
from nnet3.speech.lattices.label_lattice import LabelLattice
from nnet3.speech.lattices.levels import longest_paths
from nnet3.speech.lattices.word_times import WordBoundaries

BEAM = 2.0
GOLDEN = Path(__file__).parent / "golden"


@cache
def arrays() -> dict[str, Any]:
    with np.load(GOLDEN / "lattices.npz") as file:
        return dict(file)


def model() -> TransitionModel:
    """Phones of one state, whose first transition-id is the self-loop."""
    tuples = arrays()["tuples"]
    states = TopologyState(0, 1, ((0, 0.5), (1, 0.5))), TopologyState(NO_PDF, NO_PDF, ())
    phones = int(tuples[:, 0].max())
    topology = HmmTopology((TopologyEntry(states),), np.append(-1, np.zeros(phones)).astype(np.int32))
    return TransitionModel(topology, tuples, np.full(2 * len(tuples) + 1, np.log(0.5), np.float32))


def boundaries() -> WordBoundaries:
    kinds = np.append(0, arrays()["kinds"])
    return WordBoundaries(model(), np.isin(kinds, (1, 3)), np.isin(kinds, (2, 4)))


def lattice(name: str) -> LabelLattice:
    """One of them, without states that the start does not lead to."""
    of = {key.removeprefix(f"{name}_"): values for key, values in arrays().items() if key.startswith(f"{name}_")}
    src, dst, label = of["arcs"].T.astype(np.int64)
    states = 1 + max(src.max(), dst.max())
    reached = np.zeros(states, bool)
    reached[of["start"]] = True
    while not reached[dst[reached[src]]].all():
        reached[dst[reached[src]]] = True
    level = longest_paths(states, src[reached[src]], dst[reached[src]])
    level[~reached] = states
    order = np.argsort(level, kind="stable")[: reached.sum()]
    number = np.full(states, -1)
    number[order] = np.arange(len(order))
    arcs = np.flatnonzero(reached[src])
    arcs = arcs[np.argsort(number[src[arcs]], kind="stable")]
    ids = Strings(np.append(0, np.cumsum(of["lengths"].astype(np.int64))), of["ids"].astype(np.int32))
    final_graph, final_acoustic = np.full((2, states), np.inf)
    final_graph[of["final_states"]], final_acoustic[of["final_states"]] = of["final_costs"].astype(np.float64).T
    lengths = np.zeros(states, np.int64)
    lengths[of["final_states"]] = of["final_lengths"]
    final_ids = Strings(np.append(0, np.cumsum(lengths)), of["final_ids"].astype(np.int32))
    graph, acoustic = of["costs"][arcs].astype(np.float64).T
    return LabelLattice(
        *(level[order], number[src[arcs]], number[dst[arcs]], label[arcs], graph, acoustic, ids[arcs]),
        *(final_graph[order], final_acoustic[order], final_ids[order]),
    )
