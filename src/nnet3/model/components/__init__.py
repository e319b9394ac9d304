"""Components: the parts of a network that compute. One family a file; natural gradient."""

import importlib
import pkgutil

for _module in pkgutil.iter_modules(__path__):  # every family, so that its types are registered
    importlib.import_module(f"{__name__}.{_module.name}")
