"""Long utterances: the memory that they may take, and the networks that compute the same in pieces."""

from __future__ import annotations

import re

from nnet3.nnet import Nnet

MAX_BYTES = 4 * 2**30
"""No computation may need more."""

PIECE_BYTES = 2**30
"""An utterance that needs more is computed in pieces that need less, if that makes no difference."""

PIECE_FRAMES = 2**20
"""The same for frames, nearly three hours of speech: compiling takes memory too."""

OPTIONAL = re.compile(r"\b(?:IfDefined|Failover)\(")
"""Descriptors whose value depends on what there is."""

_FIXED_TIME = re.compile(r"\bReplaceIndex\((?!ivector\b|Scale\([^,()]*,\s*ivector\b)")


def bytes_per_frame(nnet: Nnet) -> int:
    """Returns the bytes of all nodes' values for one frame: computations keep fewer at a time."""
    sizes = (tensor.element_size() for c in nnet.components.values() for tensor in c.parameters().values())
    return max(sizes, default=4) * sum(nnet.node_dim(node.name) for node in nnet.nodes)


def is_the_same_in_pieces(nnet: Nnet) -> bool:
    """True if each output needs a fixed range of input frames and nothing else, apart from one ivector.

    That holds without recurrences, statistics, attention and descriptors that take what is available.
    """
    if any(OPTIONAL.search(line) or _FIXED_TIME.search(line) for line in nnet.config_lines()):
        return False
    return all(component.needs_all_inputs for component in nnet.components.values())
