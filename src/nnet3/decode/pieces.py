"""Long utterances: how much memory they take, and whether they may be computed in pieces without a difference."""

from __future__ import annotations

import re

from nnet3.nnet import Nnet

MAX_BYTES = 4 * 2**30
"""No computation may need more than this, counting all values of all nodes at once (really it takes a part of it)."""

PIECE_BYTES = 2**30
"""Pieces of a long utterance are made so that each needs less than this, counted in the same way."""

_OPTIONAL = re.compile(r"\b(?:IfDefined|Failover)\(")
_FIXED_TIME = re.compile(r"\bReplaceIndex\((?!ivector\b|Scale\([^,()]*,\s*ivector\b)")


def bytes_per_frame(nnet: Nnet) -> int:
    """Of all nodes' values of one frame, float32."""
    return 4 * sum(nnet.node_dim(node.name) for node in nnet.nodes)


def is_the_same_in_pieces(nnet: Nnet) -> bool:
    """Whether each output needs a fixed range of input frames and nothing else, apart from one ivector.

    So it is without recurrences, statistics, attention and whatever takes what there is.
    """
    if any(_OPTIONAL.search(line) or _FIXED_TIME.search(line) for line in nnet.config_lines()):
        return False
    return all(component.needs_all_inputs for component in nnet.components.values())
