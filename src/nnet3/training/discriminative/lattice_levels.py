"""Forward and backward over a lattice, all arcs of a level at once, in float64 (docs/discriminative.md).

Where all paths pass through one state the lattice is cut, and the pieces run side by side: the sequences of a minibatch
are pieces, and so are the stretches of a sequence between two such states. The sum over the paths of the lattice is
the product of the sums over its pieces.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from nnet3.base.kaldi_io.fst import Fst
from nnet3.base.kaldi_io.fst_reach import goes_up, longest_paths
from nnet3.base.kaldi_io.lattice import Lattice
from nnet3.base.kaldi_io.lattice_states import connected, topologically_sorted
from nnet3.errors import ModelFormatError, TrainingError
from nnet3.training.chain.trellis import log_sums

Integers = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class LatticeLevels:
    """The arcs and nodes of a lattice, which is cut into pieces.

    A node is a state, or the end of a piece. Nodes 0 .. `num_pieces` - 1 are starts. Nodes are sorted by level:
    `first_node` (levels + 1,) has the first node of each level, then the number of nodes. Arcs are sorted by the
    source's level: `leaving` (levels + 1,) has the first arc out of each level. `order` (arcs,) sorts arcs by the
    destination's level: `entering` (levels + 1,) has the first sorted arc into each level. Of each arc: `src`, `dst`
    (nodes), `piece`, `frame`, `transition_id` (0: none), `graph_cost`, `acoustic_cost`. Of each end of a piece:
    `end_node`, `end_piece`, `end_cost`, (ends,).
    """

    num_pieces: int
    first_node: Integers
    leaving: Integers
    entering: Integers
    order: Integers
    src: Integers
    dst: Integers
    piece: Integers
    frame: Integers
    transition_id: Integers
    graph_cost: npt.NDArray[np.float64]
    acoustic_cost: npt.NDArray[np.float64]
    end_node: Integers
    end_piece: Integers
    end_cost: npt.NDArray[np.float64]

    @classmethod
    def of(cls, lattice: Lattice, num_frames: int) -> LatticeLevels:
        """Raises TrainingError for a lattice without paths, with a cycle, or with a path of other than `num_frames`."""
        try:
            lattice = connected(lattice)
            if lattice.fst.start != 0 or not goes_up(lattice.fst):
                lattice = topologically_sorted(lattice)
        except ModelFormatError as error:
            raise TrainingError(f"the lattice of a supervision cannot be used: {error}") from None
        if lattice.fst.num_states == 0:
            raise TrainingError("the lattice of a supervision has no path")
        return cls._cut(lattice, num_frames)

    @classmethod
    def _cut(cls, lattice: Lattice, num_frames: int) -> LatticeLevels:
        """Cuts a connected lattice whose arcs lead to higher states, from state 0 on."""
        fst, emits = lattice.fst, lattice.transition_ids.lengths
        ends = np.flatnonzero(fst.final < np.inf)
        cuts = _states_on_all_paths(fst, int(ends[0]))
        number = len(cuts)
        as_destination = number - 1 + np.arange(fst.num_states)  # of states 1, 2, ..., behind the starts
        as_source = as_destination.copy()
        as_source[cuts] = np.arange(number)
        src, dst = as_source[fst.src], as_destination[fst.dst]
        levels = longest_paths(number + fst.num_states - 1, src, dst)
        time = _times(src, dst, emits, levels)
        lasting = np.append(0, time[as_destination[cuts[1:]]])
        piece = np.searchsorted(cuts, fst.src, side="right") - 1
        begins = np.cumsum(lasting)
        lengths = begins[-1] + time[as_destination[ends]]
        if (lengths != num_frames).any():
            raise TrainingError(
                f"the lattice of a supervision has a path of {lengths[lengths != num_frames][0]} transition-ids, but "
                f"the supervision {num_frames} frames"
            )
        frame = begins[piece] + time[src]
        by_level = np.argsort(levels, kind="stable")
        node, sorted_levels = np.argsort(by_level), levels[by_level]
        by_source = np.argsort(node[src], kind="stable")
        src, dst = node[src][by_source], node[dst][by_source]
        order = np.argsort(dst, kind="stable")
        bounds = np.arange(int(sorted_levels[-1]) + 2)
        ids = np.zeros(fst.num_arcs, np.int64)
        ids[emits > 0] = lattice.transition_ids.values
        return cls(
            num_pieces=number,
            first_node=np.searchsorted(sorted_levels, bounds),
            leaving=np.searchsorted(sorted_levels[src], bounds),
            entering=np.searchsorted(sorted_levels[dst[order]], bounds),
            order=order,
            src=src,
            dst=dst,
            piece=piece[by_source],
            frame=frame[by_source],
            transition_id=ids[by_source],
            graph_cost=fst.cost.astype(np.float64)[by_source],
            acoustic_cost=lattice.acoustic_cost.astype(np.float64)[by_source],
            end_node=node[as_destination[np.concatenate([cuts[1:], ends])]],
            end_piece=np.concatenate([np.arange(number - 1), np.full(len(ends), number - 1)]),
            end_cost=np.concatenate([np.zeros(number - 1), fst.final[ends].astype(np.float64)]),
        )

    @property
    def num_nodes(self) -> int:
        return int(self.first_node[-1])


def _states_on_all_paths(fst: Fst, first_end: int) -> Integers:
    """Returns the states below `first_end` through which all paths go, the start first; arcs lead to higher states."""
    passing = np.zeros(fst.num_states, np.int64)  # arcs over a state, neither from nor to it
    np.add.at(passing, fst.src + 1, 1)
    np.add.at(passing, fst.dst, -1)
    return np.flatnonzero(np.cumsum(passing)[:first_end] == 0).astype(np.int64)


def _times(src: Integers, dst: Integers, emits: Integers, levels: npt.NDArray[np.integer]) -> Integers:
    """Returns the number of transition-ids on paths from a piece's start to each node, (nodes,).

    Raises TrainingError for different numbers on two paths to one node.
    """
    time = np.zeros(len(levels), np.int64)
    order = np.argsort(levels[src], kind="stable")
    for arcs in np.split(order, np.flatnonzero(np.diff(levels[src[order]])) + 1):
        time[dst[arcs]] = time[src[arcs]] + emits[arcs]
    if (time[dst] != time[src] + emits).any():
        raise TrainingError("the lattice of a supervision has paths of different numbers of transition-ids to a state")
    return time


@dataclass(frozen=True, eq=False)
class LatticeSums:
    """Sums over the paths of a lattice, all float64.

    log_sum: () the logarithm of the sum of exp(scores) over all paths. shares: (arcs,) of the paths through each arc.
    accuracy: () the expected accuracy of a path; gain: (arcs,) the expected accuracy of paths through an arc beyond it.
    Both are None without accuracies.
    """

    log_sum: Tensor
    shares: Tensor
    accuracy: Tensor | None = None
    gain: Tensor | None = None


@torch.no_grad()
def sum_lattice(levels: LatticeLevels, scores: Tensor, accuracies: Tensor | None = None) -> LatticeSums:
    """Runs forward and backward. scores: (arcs,) float64; accuracies: (arcs,) float64, added along paths."""
    run = _Run(levels, scores)
    alpha, beta, total = run.forward(), run.backward(), run.total()
    piece = run.of_arc(levels.piece)
    shares = (alpha[run.src] + scores + beta[run.dst] - total[piece]).exp_()
    if accuracies is None:
        return LatticeSums(total.sum(), shares)
    before, after, mean = run.expected(accuracies)
    gain = before[run.src] + accuracies + after[run.dst] - mean[piece]
    return LatticeSums(total.sum(), shares, mean.sum(), gain)


class _Run:
    """The passes over one lattice."""

    def __init__(self, levels: LatticeLevels, scores: Tensor):
        self.levels, self.scores, self.device = levels, scores, scores.device
        self.src, self.dst = self.of_arc(levels.src), self.of_arc(levels.dst)
        self.order = self.of_arc(levels.order)
        self.end_node, self.end_piece = self.of_arc(levels.end_node), self.of_arc(levels.end_piece)
        self.end_cost = torch.from_numpy(levels.end_cost).to(self.device)
        self.alpha = self.beta = scores.new_full((levels.num_nodes,), -torch.inf)

    def of_arc(self, values: Integers) -> Tensor:
        return torch.from_numpy(values).to(self.device)

    def forward(self) -> Tensor:
        """Returns the log-sum of all paths from the piece's start to each node, (nodes,)."""
        self.alpha = self.alpha.clone()
        self.alpha[: self.levels.num_pieces] = 0.0
        for nodes, arcs in self._entering():
            values = self.alpha[self.src[arcs]] + self.scores[arcs]
            self.alpha[nodes] = log_sums(values, self.dst[arcs] - nodes.start, nodes.stop - nodes.start)
        return self.alpha

    def backward(self) -> Tensor:
        """Returns the log-sum of all paths from each node to the piece's end, (nodes,)."""
        self.beta = self.beta.clone()
        self.beta[self.end_node] = -self.end_cost
        for nodes, arcs in self._leaving():
            values = self.scores[arcs] + self.beta[self.dst[arcs]]
            sums = log_sums(values, self.src[arcs] - nodes.start, nodes.stop - nodes.start)
            self.beta[nodes] = torch.logaddexp(self.beta[nodes], sums)
        return self.beta

    def total(self) -> Tensor:
        """Returns the log-sum of all paths of each piece, (pieces,)."""
        return log_sums(self.alpha[self.end_node] - self.end_cost, self.end_piece, self.levels.num_pieces)

    def expected(self, accuracies: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Returns expected accuracies before and after each node, (nodes,) each, and of each piece, (pieces,)."""
        before, after = torch.zeros_like(self.alpha), torch.zeros_like(self.beta)
        for _, arcs in self._entering():
            src, dst = self.src[arcs], self.dst[arcs]
            share = (self.alpha[src] + self.scores[arcs] - self.alpha[dst]).exp_()
            before.index_add_(0, dst, share * (before[src] + accuracies[arcs]))
        for _, leaving in self._leaving():
            src, dst = self.src[leaving], self.dst[leaving]
            share = (self.scores[leaving] + self.beta[dst] - self.beta[src]).exp_()
            after.index_add_(0, src, share * (after[dst] + accuracies[leaving]))
        share = (self.alpha[self.end_node] - self.end_cost - self.total()[self.end_piece]).exp_()
        mean = torch.zeros(self.levels.num_pieces, dtype=torch.float64, device=self.device)
        return before, after, mean.index_add_(0, self.end_piece, share * before[self.end_node])

    def _entering(self) -> Sequence[tuple[slice, Tensor]]:
        """Returns, for each level but the first, the nodes, and the arcs into the level."""
        arcs = [self.order[part] for part in _slices(self.levels.entering)]
        return list(zip(_slices(self.levels.first_node), arcs, strict=True))[1:]

    def _leaving(self) -> Sequence[tuple[slice, slice]]:
        """Returns, for each level but the last, in reverse order, the nodes, and the arcs out of the level."""
        return list(zip(_slices(self.levels.first_node), _slices(self.levels.leaving), strict=True))[-2::-1]


def _slices(bounds: Integers) -> list[slice]:
    return [slice(first, last) for first, last in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True)]
