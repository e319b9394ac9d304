"""Pages to look at in a browser: a network, its graph in time, its program, memory and profile in one HTML file."""

from nnet3.stubs import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
