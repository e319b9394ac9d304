"""PromisesToProofs: the default promises of component types to proofs."""

from __future__ import annotations


class PromisesToProofs:
    """The declarations of a component without any."""

    @property
    def is_linear(self) -> bool:
        """True if an output row is an affine function of its input row."""
        return False

    @property
    def backprop_is_linear(self) -> bool:
        """True if the derivative of the input is a linear function of the derivative of the output."""
        return True

    @property
    def counts_backward(self) -> bool:
        """True if the backward pass adds to statistics of the component to update, such as changes to derivatives."""
        return False

    @property
    def learns_last(self) -> bool:
        """True if an update from several steps comes after the derivatives of all kernels, for it draws numbers."""
        return False
