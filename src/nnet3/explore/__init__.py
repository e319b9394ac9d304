"""Pages to look at in a browser: a network, its graph in time, its program, memory and profile in one HTML file."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
