"""Networks in other modes, with shared parameters."""

from __future__ import annotations

from nnet3.model.nnet.network import Nnet


def with_modes(nnet: Nnet, *, batchnorm_test_mode: bool, dropout_test_mode: bool) -> Nnet:
    """Returns a network with shared parameter tensors in the given modes; a False mode leaves the network's own.

    The new network draws its own random numbers, equal in all networks made here.
    """
    twin = nnet.in_test_mode()
    twin.seed_random(0)
    for name, component in twin.components.items():
        for (_, leaf), (_, original) in zip(component.leaves(), nnet.components[name].leaves(), strict=True):
            wanted = batchnorm_test_mode if leaf.has_running_statistics else dropout_test_mode
            leaf.set_test_mode(wanted or original.test_mode)
    return twin
