"""Merging of lattice states from which the same paths go on."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from nnet3.asr.label_lattice import LabelLattice
from nnet3.asr.strings import hashes, mixed

_SAME = 2.0**-13  # costs this close are taken for equal


def merged(lattice: LabelLattice) -> LabelLattice:
    """Returns the lattice with states as one from which arcs with the same labels, costs and ids go to the same states,
    the last levels first."""
    ends = np.isfinite(lattice.final_cost)
    end_costs = (_rounded(np.where(ends, each, 0)) for each in (lattice.final_graph, lattice.final_acoustic))
    kind = mixed(ends, *end_costs, hashes(lattice.final_ids))
    own = mixed(lattice.label, _rounded(lattice.graph_cost), _rounded(lattice.acoustic_cost), hashes(lattice.ids))
    for arcs in reversed(list(lattice.arcs_by_source())):
        with np.errstate(over="ignore"):
            np.add.at(kind, lattice.src[arcs], mixed(own[arcs], kind[lattice.dst[arcs]]))
    kind = mixed(kind, lattice.level)
    _, first, of_kind = np.unique(kind, return_index=True, return_inverse=True)
    order = np.argsort(first)
    number, first = np.argsort(order)[of_kind], first[order]
    is_first = np.zeros(lattice.num_states, bool)
    is_first[first] = True
    arcs = np.flatnonzero(is_first[lattice.src])
    return LabelLattice(
        *(lattice.level[first], number[lattice.src[arcs]], number[lattice.dst[arcs]], lattice.label[arcs]),
        *(lattice.graph_cost[arcs], lattice.acoustic_cost[arcs], lattice.ids[arcs]),
        *(lattice.final_graph[first], lattice.final_acoustic[first], lattice.final_ids[first]),
    )


def _rounded(costs: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
    return np.round(costs / _SAME).astype(np.int64)
