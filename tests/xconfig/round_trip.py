"""Whether a network and what its description makes are the same."""

from __future__ import annotations

import nnet3
from nnet3.model.xconfig.trained_settings import CarriedSettings, carried_settings
from nnet3.xconfig import Description, describe


def contents(nnet: nnet3.Nnet) -> tuple[list[str], dict[str, CarriedSettings]]:
    """The nodes with their dimensions, and what components carry."""
    settings = {name: carried_settings(component) for name, component in nnet.components.items()}
    return sorted(nnet.config_lines(dims=True)), settings


def described(nnet: nnet3.Nnet) -> Description:
    """The description, after a check that it makes the network, or the layers of the network on the rest of it."""
    found = describe(nnet.parts)
    if found.layers:
        again = nnet3.Nnet((), {}) if found.is_complete else nnet.copy()
        again.apply_xconfig(found.xconfig)
        assert contents(again) == contents(nnet)
    return found
