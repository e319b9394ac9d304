"""What few processes ask of networks, imported at the first use: xconfigs, pictures, and the wing `inference`."""

from nnet3.stubs import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
