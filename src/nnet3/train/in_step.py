"""Fingerprints of the sums that a program makes over processes, which all of them must make in the same order."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

from nnet3.components import Component
from nnet3.ir.commands_kernels import Backprop, Propagate
from nnet3.ir.computation import NnetComputation
from nnet3.nnet import Nnet

_DIGEST_BYTES = 6  # a float64 holds such a number exactly


def digest_of_sums(computation: NnetComputation, nnet: Nnet) -> float:
    """Returns a number that is equal for programs whose processes keep in step."""
    parts = [
        *_sums(computation, nnet),
        *sorted(_with_statistics(computation)),
        *(io.name for io in computation.outputs),
    ]
    digest = hashlib.blake2b(repr(parts).encode(), digest_size=_DIGEST_BYTES).digest()
    return float(int.from_bytes(digest, "big"))


def _sums(computation: NnetComputation, nnet: Nnet) -> Iterator[tuple[str, str, bool]]:
    """Yields the commands that sum over rows: batch-norm's, and updates by natural gradient."""
    for command in computation.commands:
        if isinstance(command, Propagate | Backprop):
            name = computation.kernels[command.kernel].name
            if name in nnet.components and _sums_over_rows(nnet.components[name], command):
                yield type(command).__name__, name, isinstance(command, Backprop) and command.update


def _sums_over_rows(component: Component, command: Propagate | Backprop) -> bool:
    leaves = [leaf for _, leaf in component.leaves()]
    is_update = isinstance(command, Backprop) and command.update
    return any(leaf.has_running_statistics or (is_update and leaf.natural_gradients) for leaf in leaves)


def _with_statistics(computation: NnetComputation) -> set[str]:
    """The components whose statistics may change."""
    return {computation.kernels[c.kernel].name for c in computation.commands if isinstance(c, Propagate | Backprop)}
