"""Gradients: memory for the gradients of parameters and statistics."""

from __future__ import annotations

from collections.abc import Collection

import torch
from torch import Tensor

from nnet3.cn.node import Node


class Gradients(dict[Node, Tensor]):
    """The memory of gradients by node, made when it is first asked for; that of `sparse` nodes is sparse."""

    def __init__(self, sparse: Collection[Node] = ()) -> None:
        super().__init__()
        self._sparse = sparse

    def of(self, node: Node) -> Tensor:
        """The memory of a gradient; another one when the node's memory has become one of another kind."""
        known, memory = self.get(node), node.memory
        if known is None or known.shape != memory.shape or known.dtype != memory.dtype or known.device != memory.device:
            kind = torch.sparse_coo if node in self._sparse else torch.strided
            self[node] = known = torch.zeros_like(memory.detach(), layout=kind)
        return known
