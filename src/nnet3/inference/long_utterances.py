"""Long utterances: the memory that they may take, and the networks with equal outputs in pieces or padded."""

from __future__ import annotations

import re

from nnet3.model.nnet import Nnet
from nnet3.model.structure.reach import depends_on_what_is_there, right_reach

MAX_BYTES = 4 * 2**30
"""No computation may need more."""

PIECE_BYTES = 2**30
"""An utterance that needs more is computed in pieces that need less, if that makes no difference."""

PIECE_FRAMES = 2**20
"""The same for frames, nearly three hours of speech: compiling takes memory too."""

OPTIONAL = re.compile(r"\b(?:IfDefined|Failover)\(")
"""Descriptors whose value depends on what there is."""


def bytes_per_frame(nnet: Nnet) -> int:
    """Returns the bytes of all nodes' values for one frame: computations keep fewer at a time."""
    sizes = (tensor.element_size() for c in nnet.components.values() for tensor in c.parameters().values())
    return max(sizes, default=4) * sum(nnet.node_dim(node.name) for node in nnet.nodes)


def is_the_same_in_pieces(nnet: Nnet) -> bool:
    """Returns true if every output needs a fixed range of input frames and nothing else, apart from one ivector.

    True without recurrences, statistics, attention and descriptors that take available rows.
    """
    return not depends_on_what_is_there(nnet.parts)


def is_the_same_padded(nnet: Nnet) -> bool:
    """Returns true if outputs do not depend on frames behind the input frames needed by the last output.

    True for all networks with equal outputs in pieces, and for recurrences and statistics that look to the left alone.
    """
    return right_reach(nnet.parts) <= nnet.right_context
