"""The tokens of a search behind one row of scores, and the arcs between them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from nnet3.speech.arrays.aliases import Doubles, Flags, Integers
from nnet3.speech.search.growing_graph import GrowingGraph
from nnet3.speech.search.search_graph import SearchGraph

NONE = -1
PRUNE_SCALE = 0.1  # of the lattice beam: smaller changes are not followed further back
MOST_ROUNDS = 2_000  # of arcs without a row, behind one row
ENDLESS = "the decoding graph has a cycle of epsilons with a negative cost"


@dataclass
class Links:
    """Arcs between tokens: src of the row before, or of the same row for epsilons, and dst of the row."""

    src: Integers
    dst: Integers
    arc: Integers
    cost: Doubles

    def kept(self, kept: Flags) -> Links:
        at = np.flatnonzero(kept)
        return self if len(at) == len(kept) else Links(self.src[at], self.dst[at], self.arc[at], self.cost[at])


@dataclass
class TokenRow:
    """The tokens behind a row: state of the graph, cost, and the best arc into each token, with the arc's source token:
    a token of the row itself if the token is marked in `within`, otherwise of the row before.

    `epsilons` come by source. `excess`: the cost of the best path through a token beyond the cost of the best path, as
    known at the last pruning; 0 before the first pruning. `counted`: the number of tokens just before tokens were last
    removed, as Kaldi counts; -1 before. `links_wait`, `tokens_wait`: the links that leave the row, and its tokens, are
    to be pruned. `names`: the states as first numbered: a token keeps its name in another composition.
    """

    state: Integers
    cost: Doubles
    back_src: Integers
    back_arc: Integers
    within: Flags
    emitting: Links
    epsilons: Links
    excess: Doubles = field(default_factory=lambda: np.zeros(0))
    names: Integers = field(default_factory=lambda: np.zeros(0, np.int64))
    counted: int = -1
    links_wait: bool = True
    tokens_wait: bool = True


class KeptLinks(NamedTuple):
    """The links out of a row that stay: masks of links to the next row and of links within the row; the excess of the
    row's tokens, (tokens,); whether any excess has changed much."""

    emitting: Flags
    epsilons: Flags
    excess: Doubles
    has_changed: bool


class TokenSteps(Protocol):
    """The steps of a search that visit each token and each arc."""

    def first(self, graph: SearchGraph | GrowingGraph, beam: float) -> TokenRow:
        """Returns the tokens before the first row of scores: of the start, and of states behind epsilon arcs."""

    def next(
        self,
        graph: SearchGraph | GrowingGraph,
        last: TokenRow,
        scores: npt.NDArray[np.float32],
        cutoff: float,
        beam: float,
        buckets: int = 0,
    ) -> TokenRow:
        """Returns the tokens behind scores (columns,), reached from tokens of the last row that cost at most `cutoff`.

        An arc is followed if it costs less than the best cost so far, of arcs visited before and of the best token's
        arcs, plus the beam. So tokens may be worse than the best one by more than the beam; they count for the limits
        of active tokens, as in Kaldi. Kaldi visits the tokens in the order of a hash table with `buckets`, and so does
        this; 0: in the order in which they were made. Epsilon arcs follow as long as tokens get
        better; then all epsilon arcs between tokens are listed.
        """

    def kept_links(self, row: TokenRow, following: TokenRow, beam: float) -> KeptLinks:
        """Returns the links out of a row that lie on a path within the beam.

        As Kaldi does, goes over the tokens of a row, the newest first, until little changes. The excess of a token not
        visited yet is the excess of the pass before.
        """
