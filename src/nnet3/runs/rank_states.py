"""States of all processes in one checkpoint: the first one's whole, of the others what differs from it."""

from __future__ import annotations

import hashlib
from typing import Any

import torch
from torch import Tensor

from nnet3.runs.checkpoints import Checkpoint
from nnet3.runs.packing import Tensors, put_together, take_apart
from nnet3.runs.world import World

_FIRST = "rank-0"

#: File names without their endings -> trees and tensors, as `take_apart` gives them.
States = dict[str, tuple[str, Tensors]]


def join_states(world: World, own: Any) -> States:
    """All states, in the first process; the others send theirs and get nothing. Called by all processes."""
    tree, tensors = take_apart(own)
    if world.size == 1:
        return {_FIRST: (tree, tensors)}
    of_first = world.tell({name: _digest(tensor) for name, tensor in tensors.items()} if world.is_first else None)
    different = {name: tensor for name, tensor in tensors.items() if of_first.get(name) != _digest(tensor)}
    gathered = world.gather((tree, tensors if world.is_first else different))
    return {f"rank-{rank}": state for rank, state in enumerate(gathered)}


def own_state(world: World, checkpoint: Checkpoint) -> Any:
    """The state that this process gave, or if it was not there yet that of the first one.

    The first one reads for all, since others may not see its files.
    """
    tree, tensors = world.tell(checkpoint.parts(_FIRST) if world.is_first else None)
    for rank in range(1, world.size):
        name = f"rank-{rank}"
        other = world.tell(checkpoint.parts(name) if world.is_first and checkpoint.has(name) else None)
        if rank == world.rank and other is not None:
            tree, tensors = other[0], {**tensors, **other[1]}
    return put_together(tree, tensors)


def _digest(tensor: Tensor) -> tuple[str, tuple[int, ...], bytes]:
    contents = tensor.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
    return str(tensor.dtype), tuple(tensor.shape), hashlib.sha256(contents).digest()
