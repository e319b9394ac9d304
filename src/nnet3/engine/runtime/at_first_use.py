"""What proofs of plans and of their links need, imported at the first use."""

from nnet3.stubs import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
