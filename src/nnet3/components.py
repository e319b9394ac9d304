"""Components: the parts of a network that compute. One family a file; natural gradient."""

from nnet3.stubs import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
