"""Components: the parts of a network that compute. One family a file; natural gradient."""

import importlib
import pkgutil

from nnet3.components.base import Component, Properties
from nnet3.components.random_source import RandomSource
from nnet3.components.registry import COMPONENT_TYPES, create, create_from_line, read, read_from
from nnet3.components.updatable import UpdatableComponent

for _module in pkgutil.iter_modules(__path__):  # every family, so that its types are registered
    importlib.import_module(f"{__name__}.{_module.name}")

__all__ = [
    "COMPONENT_TYPES",
    "Component",
    "Properties",
    "RandomSource",
    "UpdatableComponent",
    "create",
    "create_from_line",
    "read",
    "read_from",
]
