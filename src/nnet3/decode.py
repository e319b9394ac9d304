"""Running networks over utterances, one or many, and over streams of frames: outputs, one vector, scores of them."""

from nnet3.stubs import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
